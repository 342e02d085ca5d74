"""The tables of names and abilities in an observation of Magic: the part of the referee of
`tests/jaxrl_envs/forge/referee/forge.py`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.encoding.vocabulary import name_id

MOST_PARTS = 16  # of one card
KEYWORDS = {"shroud": "hexproof", "ward": "hexproof", "protection": "hexproof"} | {name: name for name in at.KEYWORDS}


class NameKind:
    """A name or text with what was told of it."""

    def __init__(self, identity: int, facts: dict[str, Any] | None, text: str = ""):
        self.identity, self.facts, self.text = identity, facts, text
        facts = facts or {}
        self.pips = "".join(letter for letter in facts.get("pips", "") if letter in "WUBRG")
        self.least: int | None = facts.get("least")
        self.hybrid = self.least is not None or len(self.pips) > facts.get("cmc", 0)
        self.makes = {letter for letter in facts.get("produces", "") if letter in at.POOL}
        self.parts: list[dict[str, Any]] = facts.get("parts", [])[:MOST_PARTS]


class Seen:
    """The names that a seat has seen, in that order."""

    def __init__(self, facts: dict[str, dict[str, Any]]):
        self.facts, self.ids = facts, dict[str, int]()

    def see(self, name: str) -> None:
        if not name or name in self.ids:
            return
        identity = name_id(name)
        while identity in self.ids.values():
            identity = identity + 1 if identity + 1 < at.VOCABULARY else 1
        self.ids[name] = identity

    def kind(self, name: str) -> NameKind | None:
        return NameKind(self.ids[name], self.facts.get(name)) if name else None


class Told:
    """What a game has told so far: facts by name."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        self._seats = [Seen(self.facts), Seen(self.facts)]

    def seat(self, seat: int) -> Seen:
        return self._seats[seat]


class Tables:
    """kinds f32[KINDS, KIND] and parts f32[PARTS, PART] of an observation."""

    def __init__(self) -> None:
        self.kinds = np.zeros((at.KINDS, at.KIND), np.float32)
        self.parts = np.zeros((at.PARTS, at.PART), np.float32)
        self.rows: dict[tuple[int, str], int] = {}
        self.firsts: dict[tuple[int, str], int] = {}
        self.used = 0

    def kind(self, kind: NameKind | None) -> int:
        """1 + its row; 0: it has none."""
        if kind is None:
            return 0
        key = (kind.identity, kind.text)
        if key not in self.rows and len(self.rows) < at.KINDS:
            row = self.rows[key] = len(self.rows)
            self.firsts[key] = self.used
            out = self.kinds[row]
            out[at.KIND_ID], out[at.IS_TEXT], out[at.TOLD] = kind.identity, bool(kind.text), kind.facts is not None
            out[at.PRODUCED_BITS] = sum(2**k for k, letter in enumerate(at.POOL) if letter in kind.makes)
            for k, letter in enumerate("WUBRG"):
                out[at.FIRST_PIP + k] = min(kind.pips.count(letter) / 2, at.LIMIT)
            self.add(kind.parts, 1 + row)
            if self.used - self.firsts[key] < min(MOST_PARTS, len(kind.parts)):
                out[at.TOLD] = 0
        return 1 + self.rows[key] if key in self.rows else 0

    def add(self, parts: list[dict[str, Any]], kind: int) -> int:
        """1 + the row of the first; 0 without one."""
        parts = parts[: min(MOST_PARTS, at.PARTS - self.used)]
        first = head = self.used
        for part in parts:
            head = head if part.get("after") is True and self.used > first else self.used
            self.parts[self.used] = part_row(part)
            self.parts[self.used, at.PART_KIND], self.parts[self.used, at.PART_OF] = kind, 1 + head
            self.used += 1
        return 1 + first if parts else 0

    def part(self, kind: NameKind | None, number: int) -> int:
        """1 + the row of one of its parts; 0: it has none."""
        if kind is None or not 0 <= number < len(kind.parts) or not self.kind(kind):
            return 0
        first = self.firsts[kind.identity, kind.text]
        return 1 + first + number if first + number < self.used else 0


def group(groups: dict[str, str], name: str) -> int:
    """1 + the place of the group that a name of Forge is in."""
    names = list(groups)
    if not name:
        return 1 + names.index("none")
    for place, words in enumerate(groups.values()):
        if name in words.split():
            return 1 + place
    for prefix in ("cant", "must"):
        if prefix in groups and name.lower().startswith(prefix):
            return 1 + names.index(prefix)
    return 1 + names.index("other")


def keywords_of(texts: list[str]) -> tuple[set[str], bool]:
    """Those of our list, and whether there are others."""
    found, others = set[str](), False
    for text in texts:
        words = [name for name in KEYWORDS if re.match(rf"{name}( |:|$)", text.lower())]
        found |= {KEYWORDS[words[0]]} if words else set()
        found |= {"first strike"} if words[:1] == ["double strike"] else set()
        if text.lower().startswith("cardname can't be blocked"):
            words, found = ["unblockable"], found | {"unblockable"}
        others = others or not words
    return found, others


def part_row(part: dict[str, Any]) -> np.ndarray:
    """f32[PART] of an ability, but for the rows that it names."""
    row = np.zeros(at.PART, np.float32)
    sorts, targets = at.PART_SORTS, part.get("targets", [])
    row[at.PART_SORT] = 1 + sorts.index(part["kind"]) if part.get("kind") in sorts else 0
    row[at.API], row[at.MODE] = group(at.APIS, part.get("api", "")), group(at.MODES, part.get("mode", ""))
    for column, key in ((at.ORIGIN, "origin"), (at.DESTINATION, "destination")):
        zone = part.get(key, "").lower()
        row[column] = (1 + at.ZONES.index(zone if zone in at.ZONES else "library")) if zone else 0
    row[at.TARGET_BITS] = sum(2**k for k, name in enumerate(at.TARGETS) if name in targets)
    granted, others = keywords_of(part.get("keywords", []))
    row[at.GRANTED_BITS] = sum(2**k for k, name in enumerate(at.KEYWORDS) if name in granted)
    amount, power, toughness = (part.get(key, 0) for key in ("amount", "power", "toughness"))
    flags = {key for key in ("after", "tap") if part.get(key) is True}
    flags |= {key for key in ("sacrifice", "discard", "exile", "remove_counters") if part.get(key, 0) != 0}
    flags |= {"yours"} if part.get("whose") == "you" else {"opponents"} if part.get("whose") == "opponent" else set()
    flags |= {"amount_varies"} if amount == -1 else set()
    flags |= {"size_varies"} if -99 in (power, toughness) else set()
    flags |= {"other_keywords"} if others else set()
    row[at.PART_FLAG_BITS] = sum(2**k for k, name in enumerate(at.PART_FLAGS) if name in flags)
    row[at.AMOUNT] = 0 if amount == -1 else bounded(amount / 4)
    row[at.PART_POWER] = 0 if power == -99 else bounded(power / 4)
    row[at.PART_TOUGHNESS] = 0 if toughness == -99 else bounded(toughness / 4)
    row[at.PART_MANA], row[at.PART_LIFE] = bounded(part.get("mana", 0) / 4), bounded(part.get("life", 0) / 4)
    row[at.MOST_TARGETS] = bounded(part.get("max_targets", 1) / 2) if row[at.TARGET_BITS] else 0
    return row


def bounded(value: float) -> float:
    return min(max(value, -at.LIMIT), at.LIMIT)
