"""Rosters: the units of one side and their weapons, from YAML or JSON (section 1.1 and 1.2 of the rules)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.battle.fields import Fields, is_path, is_whole, read
from envs.errors import UserError, nearest

MAX_UNITS = 8
MAX_MODELS = 20
FOLDER = Path(__file__).parent / "data" / "rosters"

FLAGS = ("lethal_hits", "devastating_wounds", "twin_linked", "assault", "heavy", "torrent", "blast")
NUMBERS = ("sustained_hits", "rapid_fire")
KEYWORDS = ("infantry", "smoke", "fly", "vehicle")
_WEAPON_KEYS = ("name", "A", "skill", "S", "AP", "D", "abilities")
_UNIT_KEYS = ("name", "models", "M", "T", "Sv", "Inv", "W", "Ld", "OC", "regen", "kp", "keywords", "ranged", "melee")
_DICE = re.compile(r"([1-3]?)D([36])(?:\+([1-6]))?")


@dataclass(frozen=True)
class Dice:
    """A number of attacks or of damage: n dice with `faces` faces, plus a constant; a plain number has no dice."""

    n: int  # 0..3
    faces: int  # 0 (no dice), 3 or 6
    plus: int

    def __str__(self) -> str:
        if not self.n:
            return str(self.plus)
        return f"{self.n if self.n > 1 else ''}D{self.faces}{f'+{self.plus}' if self.plus else ''}"


@dataclass(frozen=True)
class Weapon:
    """What every model of a unit shoots or strikes with."""

    name: str
    range: int  # cells; 0 for a melee weapon
    A: Dice  # attacks per model
    skill: int  # hit target 2..6
    S: int  # strength
    ap: int  # armour penetration as a positive number 0..6
    D: Dice  # damage per unsaved wound
    lethal_hits: bool = False
    sustained_hits: int = 0  # extra hits of a critical hit
    devastating_wounds: bool = False
    twin_linked: bool = False
    rapid_fire: int = 0  # extra attacks at half range
    assault: bool = False
    heavy: bool = False
    torrent: bool = False
    blast: bool = False


@dataclass(frozen=True)
class UnitType:
    """One unit as it starts."""

    name: str
    models: int  # 1..20
    M: int  # cells
    T: int
    Sv: int  # 2..7, 7 = none
    Inv: int  # 2..6, 0 = none
    W: int  # wounds per model
    Ld: int
    OC: int
    regen: int  # faces of the regeneration die, 0 = none
    kp: int
    infantry: bool
    smoke: bool
    fly: bool
    vehicle: bool  # without effect
    ranged: Weapon | None
    melee: Weapon | None


@dataclass(frozen=True)
class Roster:
    """One side; the order of the units is their index."""

    name: str
    units: tuple[UnitType, ...]  # 1..8


def shipped() -> list[str]:
    """The names of the rosters that come with the game."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_roster(name: str | Path) -> Roster:
    """The shipped roster of that name, or the one in a user's YAML or JSON file.

    Raises:
      UserError: there is no such roster, or something in the file is wrong; the message names file, unit and key.
    """
    text = str(name)
    if text in shipped():
        path = FOLDER / f"{text}.yaml"
    elif is_path(text):
        path = Path(text)
        if not path.is_file():
            raise UserError(f"there is no roster file {path}; shipped rosters are {', '.join(shipped())}.")
    else:
        raise UserError(f"unknown roster {text!r}: {nearest(text, shipped())} (your own: a path that ends in .yaml)")
    return roster_from_tree(read(path), str(path))


def roster_from_tree(tree: Any, where: str = "roster") -> Roster:
    """A roster from what a YAML or JSON file holds.

    Raises:
      UserError: a key is unknown or missing, or a value is out of its range; `where` begins the message.
    """
    fields = Fields(tree, where, ("name", "units"))
    units = fields.items("units", 1, MAX_UNITS, "units")
    name = fields.text("name")
    return Roster(name, tuple(_unit(unit, f"{where}, unit {i}") for i, unit in enumerate(units, 1)))


def _unit(tree: Any, where: str) -> UnitType:
    if isinstance(tree, dict) and isinstance(tree.get("name"), str):
        where = f"{where} {tree['name']!r}"
    fields = Fields(tree, where, _UNIT_KEYS)
    keywords = fields.items("keywords", 0, len(KEYWORDS), f"keywords ({', '.join(KEYWORDS)})", default=[])
    for keyword in keywords:
        if keyword not in KEYWORDS:
            raise UserError(f"{where} has an unknown keyword {keyword!r}: {nearest(str(keyword), KEYWORDS)}")
    inv = fields.one_of("Inv", (0, 2, 3, 4, 5, 6), default=0)
    return UnitType(
        name=fields.text("name"),
        models=fields.whole("models", 1, MAX_MODELS),
        M=fields.whole("M", 1, 20),
        T=fields.whole("T", 1, 16),
        Sv=fields.whole("Sv", 2, 7),
        Inv=inv,
        W=fields.whole("W", 1, 24),
        Ld=fields.whole("Ld", 2, 12),
        OC=fields.whole("OC", 0, 10),
        regen=fields.one_of("regen", (0, 3, 6), default=0),
        kp=fields.whole("kp", 0, 20, default=1),
        infantry="infantry" in keywords,
        smoke="smoke" in keywords,
        fly="fly" in keywords,
        vehicle="vehicle" in keywords,
        ranged=_weapon(fields, "ranged"),
        melee=_weapon(fields, "melee"),
    )


def _weapon(unit: Fields, kind: str) -> Weapon | None:
    """The weapon of a unit, None if it has none of this kind."""
    if kind not in unit:
        return None
    keys = ("range", *_WEAPON_KEYS) if kind == "ranged" else _WEAPON_KEYS
    if not isinstance(unit.tree[kind], dict):
        needed = ", ".join(key for key in keys if key not in ("name", "abilities"))
        raise unit.complain(kind, f"a weapon with the keys {needed} (leave {kind} out for a unit without one)")
    fields = Fields(unit.tree[kind], f"{unit.where}, {kind} weapon", keys)
    return Weapon(
        name=fields.text("name", default=kind),
        range=fields.whole("range", 1, 48) if kind == "ranged" else 0,
        A=_dice(fields, "A", 20),
        skill=fields.whole("skill", 2, 6),
        S=fields.whole("S", 1, 24),
        ap=-fields.whole("AP", -6, 0),
        D=_dice(fields, "D", 12),
        **_abilities(fields),
    )


def _dice(fields: Fields, key: str, high: int) -> Dice:
    allowed = f"a whole number from 1 to {high}, or dice such as D3, 2D6 or D6+1 (up to 3 dice, up to +6)"
    value = fields.value(key, allowed)
    if is_whole(value) and 1 <= value <= high:
        return Dice(0, 0, value)
    found = _DICE.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise fields.complain(key, allowed)
    return Dice(int(found[1] or 1), int(found[2]), int(found[3] or 0))


def _abilities(weapon: Fields) -> dict[str, Any]:
    """The abilities of a weapon as keyword arguments of `Weapon`."""
    if "abilities" not in weapon:
        return {}
    fields = Fields(weapon.tree["abilities"], f"{weapon.where}, abilities", (*FLAGS, *NUMBERS))
    found: dict[str, Any] = {}
    for key, value in fields.tree.items():
        if key in NUMBERS:
            found[key] = fields.whole(key, 1, 3)
        elif value is not True:
            raise fields.complain(key, "true (leave it out for a weapon without it)")
        else:
            found[key] = True
    return found
