"""Cards for decks made by chance: what a script says of colours, cost, size and use, as far as archetypes need it."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.forge.deckbuilding.scripts import scripts_of

COLORS = "WUBRG"
BASICS = {"W": "Plains", "U": "Island", "B": "Swamp", "R": "Mountain", "G": "Forest"}
ROLES = ("creature", "removal", "sweeper", "counter", "draw", "ramp", "trick", "land")
_FIELD = re.compile(r"^(\w+):(.*?)\s*$", re.MULTILINE)
_GOOD = ("Flying", "First Strike", "Double Strike", "Deathtouch", "Lifelink", "Trample", "Haste", "Menace", "Hexproof")
_NOT_OURS = re.compile(r"creature|any|permanent", re.IGNORECASE)  # ValidTgts of removal


class PoolCard(NamedTuple):
    """A card that decks can be made of.

    Attributes:
      name: name in Forge's spelling.
      role: one of `ROLES`.
      cmc: mana value.
      pips: coloured symbols of its cost with repetition ("RR"); of a land the colours of its mana.
      worth: value of a creature for its cost; 0 of others.
    """

    name: str
    role: str
    cmc: int
    pips: str
    worth: float = 0.0


@functools.lru_cache(maxsize=2)
def pool_of(res: Path) -> tuple[PoolCard, ...]:
    """The cards of a release's folder `res`, sorted by name: printed, legal, of one face, of plain costs, and such as
    Forge's AI can play (no `AI:RemoveDeck`)."""
    scripts = scripts_of(res)
    found = (card_of(text) for text in scripts.all())
    return tuple(sorted(card for card in found if card is not None and card.name in scripts.legal))


def card_of(script: str) -> PoolCard | None:
    """Returns a card from its script; None: one that decks are not made of."""
    if "AlternateMode" in script or "AI:RemoveDeck" in script:
        return None
    fields: dict[str, list[str]] = {}
    for key, value in _FIELD.findall(script):
        fields.setdefault(key, []).append(value)
    types = fields.get("Types", [""])[0].split()
    name, cost = fields.get("Name", [""])[0], fields.get("ManaCost", [""])[0]
    abilities = fields.get("A", [])
    if "Land" in types:
        return _land(name, types, abilities, fields)
    symbols = cost.split()
    if not symbols or not all(symbol.isdigit() or symbol in COLORS for symbol in symbols):
        return None
    pips = "".join(symbol for symbol in symbols if symbol in COLORS)
    cmc = len(pips) + sum(int(symbol) for symbol in symbols if symbol.isdigit())
    if not pips:
        return None
    size = re.fullmatch(r"(\d+)/(\d+)", fields.get("PT", [""])[0])
    if "Creature" in types and size is not None:
        keywords = sum(any(word.startswith(good) for good in _GOOD) for word in fields.get("K", []))
        bad = sum(word.startswith(("Defender", "CARDNAME can't", "Cumulative", "Echo")) for word in fields.get("K", []))
        more = 0.5 * (len(fields.get("T", [])) + len(abilities))
        worth = int(size[1]) + 0.7 * int(size[2]) + keywords + more - 2.0 * bad - 1.7 * cmc
        mana = any("AB$ Mana" in ability for ability in abilities)
        return PoolCard(name, "ramp" if mana and cmc <= 3 else "creature", cmc, pips, round(worth, 3))
    if {"Instant", "Sorcery"} & set(types) or "Aura" in types:
        role = next((role for role in map(_use, abilities) if role), "")
        return PoolCard(name, role, cmc, pips) if role else None
    return None


def _land(name: str, types: list[str], abilities: list[str], fields: dict[str, list[str]]) -> PoolCard | None:
    """Returns a land that makes mana of two colours for nothing else than tapping."""
    made = {
        color
        for ability in abilities
        if re.search(r"AB\$ Mana \| Cost\$ T \|", ability) and (produced := re.search(r"Produced\$ ([^|]*)", ability))
        for color in produced[1].replace("Combo", "").split()
    }
    made |= {color for color, basic in BASICS.items() if basic in types}
    plain = len(made) == 2 and made <= set(COLORS) and not fields.get("T") and "Basic" not in types
    return PoolCard(name, "land", 0, "".join(sorted(made, key=COLORS.index))) if plain else None


def _use(ability: str) -> str:
    """Returns the role of the spell of an ability line; "" for none that archetypes ask for."""
    values = dict(re.findall(r"(\w+)\$ ([^|]*?)\s*(?:\||$)", ability))
    aims = values.get("ValidTgts", "")
    ours = "YouCtrl" in aims or not _NOT_OURS.search(aims)
    match values.get("SP", ""):
        case "DealDamage" if not ours and values.get("NumDmg", "").isdigit() and int(values["NumDmg"]) >= 2:
            return "removal"
        case "Destroy" if not ours:
            return "removal"
        case "ChangeZone" if not ours and values.get("Origin") == "Battlefield":
            return "removal" if values.get("Destination") == "Exile" else "trick"
        case "ChangeZone" if values.get("Origin") == "Library" and values.get("Destination") == "Battlefield":
            return "ramp" if "Land" in values.get("ChangeType", "") else ""
        case "Attach" if values.get("AILogic") == "Curse" and "Creature" in aims:
            return "removal"
        case "Pump" if not ours:
            return "removal" if values.get("NumDef", "").startswith("-") else "trick"
        case "DestroyAll" if values.get("ValidCards", "") == "Creature":
            return "sweeper"
        case "DamageAll" if values.get("ValidCards", "") == "Creature":
            return "sweeper"
        case "Counter" if "ValidTgts" in values and values.get("TargetType") == "Spell":
            return "counter"
        case "Draw" if values.get("NumCards", "1").isdigit() and int(values.get("NumCards", "1")) >= 2:
            return "draw"
    return ""
