"""Rosters: the units of one side and their weapons, from YAML or JSON (section 1.1 and 1.2 of the rules)."""

from __future__ import annotations

import functools
import re
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Literal

from jaxrl_envs.battle import random_setups
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.files import is_path, read
from jaxrl_envs.shared.options import Place, build, option, required

MAX_UNITS = 8
MAX_MODELS = 20
FOLDER = Path(__file__).parent / "data" / "rosters"
POOL = ("horde", "line", "walkers")  # what drawn rosters are drawn from: one more would change all of them

KEYWORDS = ("infantry", "smoke", "fly", "vehicle")
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
    """A weapon, ranged or melee, of every model of a unit."""

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
    """Returns the names of the rosters that come with the game."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_roster(name: str | Path) -> Roster:
    """Returns the shipped roster of that name, the one in a user's YAML or JSON file, or "random:7" (`drawn`).

    Raises:
      UserError: there is no such roster, or something in the file is wrong; the message names file, unit and key.
    """
    text = str(name)
    if text.startswith(random_setups.PREFIX):
        return roster_from_tree(_drawn(text), text)
    if text in shipped():
        path = FOLDER / f"{text}.yaml"
    elif is_path(text):
        path = Path(text)
        if not path.is_file():
            raise UserError(f"there is no roster file {path}; shipped rosters are {', '.join(shipped())}.")
    else:
        raise UserError(f"unknown roster {text!r}: {nearest(text, shipped())} (your own: a path that ends in .yaml)")
    return roster_from_tree(read(path), str(path))


def _drawn(name: str) -> dict[str, Any]:
    """Returns a roster of units like those of the rosters in `POOL`, worth about as much as these are on average."""
    pool = _pool()
    return random_setups.draw_roster(name, pool, sum(map(random_setups.points, pool)) / len(POOL))


@functools.cache  # hundreds of rosters are drawn from it
def _pool() -> list[dict[str, Any]]:
    """Returns the units of the rosters in `POOL`, as their files hold them."""
    return [unit for each in POOL for unit in read(FOLDER / f"{each}.yaml")["units"]]


# ---- as it is written -----------------------------------------------------------------------------------------------


def _dice(high: int) -> Any:
    """Declares a required key that is a number of attacks or of damage."""

    def parse(value: Any) -> Dice | None:
        if type(value) is int and 1 <= value <= high:
            return Dice(0, 0, value)
        found = _DICE.fullmatch(value) if isinstance(value, str) else None
        return Dice(int(found[1] or 1), int(found[2]), int(found[3] or 0)) if found else None

    words = f"a whole number from 1 to {high}, or dice such as D3, 2D6 or D6+1 (up to 3 dice, up to +6)"
    return required(parse=parse, words=words)


def _flag() -> Any:
    return option(False, parse=lambda value: value if value is True else None, words="true, or left out")


def _name(default: Any) -> Any:
    return option(default, pattern=r"(?s).*\S.*", words="text (in quotes if it is a number)")


@dataclass(frozen=True, kw_only=True)
class AbilitiesFile:
    """The abilities of a weapon in a roster file; see `Weapon`."""

    lethal_hits: bool = _flag()
    devastating_wounds: bool = _flag()
    twin_linked: bool = _flag()
    assault: bool = _flag()
    heavy: bool = _flag()
    torrent: bool = _flag()
    blast: bool = _flag()
    sustained_hits: int = option(0, minimum=1, maximum=3)
    rapid_fire: int = option(0, minimum=1, maximum=3)


@dataclass(frozen=True, kw_only=True)
class MeleeFile:
    """A melee weapon."""

    name: str = _name("melee")
    A: Dice = _dice(20)
    skill: int = required(minimum=2, maximum=6)
    S: int = required(minimum=1, maximum=24)
    AP: int = required(minimum=-6, maximum=0)
    D: Dice = _dice(12)
    abilities: AbilitiesFile = option(AbilitiesFile())

    def weapon(self, range: int = 0) -> Weapon:
        """Returns the engine's form of it."""
        return Weapon(self.name, range, self.A, self.skill, self.S, -self.AP, self.D, **vars(self.abilities))


@dataclass(frozen=True, kw_only=True)
class RangedFile(MeleeFile):
    """A weapon that shoots."""

    name: str = _name("ranged")
    range: int = required(minimum=1, maximum=48)


WEAPON = "a weapon, or left out for a unit without one"


@dataclass(frozen=True, kw_only=True)
class UnitFile:
    """A unit; see `UnitType`."""

    name: str = _name(MISSING)
    models: int = required(minimum=1, maximum=MAX_MODELS)
    M: int = required(minimum=1, maximum=20)
    T: int = required(minimum=1, maximum=16)
    Sv: int = required(minimum=2, maximum=7)
    Inv: Literal[0, 2, 3, 4, 5, 6] = option(0)
    W: int = required(minimum=1, maximum=24)
    Ld: int = required(minimum=2, maximum=12)
    OC: int = required(minimum=0, maximum=10)
    regen: Literal[0, 3, 6] = option(0)
    kp: int = option(1, minimum=0, maximum=20)
    keywords: tuple[str, ...] = option((), choices=KEYWORDS)
    ranged: RangedFile | None = option(None, words=WEAPON)
    melee: MeleeFile | None = option(None, words=WEAPON)

    def unit(self) -> UnitType:
        """Returns the engine's form of it."""
        fields: dict[str, Any] = dict(vars(self))
        del fields["keywords"], fields["ranged"], fields["melee"]
        fields |= {keyword: keyword in self.keywords for keyword in KEYWORDS}
        return UnitType(
            **fields,
            ranged=self.ranged.weapon(self.ranged.range) if self.ranged else None,
            melee=self.melee.weapon() if self.melee else None,
        )


@dataclass(frozen=True, kw_only=True)
class RosterFile:
    """One side."""

    name: str = _name(MISSING)
    units: tuple[UnitFile, ...] = required(items=(1, MAX_UNITS), words=f"a list of 1 to {MAX_UNITS} units")


def roster_from_tree(tree: Any, source: str = "roster") -> Roster:
    """Returns a roster from what a YAML or JSON file holds.

    Raises:
      UserError: a key is unknown or missing, or a value is out of its range; `source` begins the message.
    """
    _refuse_empty_weapons(tree, Place(source))
    written = build(RosterFile, tree, Place(source))
    return Roster(written.name, tuple(unit.unit() for unit in written.units))


def _refuse_empty_weapons(tree: Any, place: Place) -> None:
    """Refuses a weapon that was begun and not written; a unit without one leaves the key out."""
    units = tree.get("units") if isinstance(tree, dict) else None
    for number, unit in enumerate(units if isinstance(units, list) else ()):
        for key in ("ranged", "melee"):
            if isinstance(unit, dict) and unit.get(key, ...) is None:
                raise place.at("units").at(f"{number} ({unit.get('name')})").at(key).wrong(WEAPON, None)
