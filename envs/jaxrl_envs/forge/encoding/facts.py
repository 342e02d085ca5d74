"""Facts about cards by name: what the daemon tells once in a game, as rows of an observation's tables."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.encoding.card_words import keyword_bits, zone_number
from jaxrl_envs.forge.encoding.vocabulary import name_id, text_id
from jaxrl_envs.forge.wire.link import parsed

MOST_PARTS = 16  # of one card
MOST_NAMES = 2000  # in one game, far fewer than ids; the others have none
VARIES, SIZE_VARIES = -1, -99  # an amount, a power or toughness that the card's text computes
SORTS = {name: 1 + place for place, name in enumerate(at.PART_SORTS)}
APIS = {api: 1 + place for place, group in enumerate(at.APIS.values()) for api in group.split()}
MODES = {mode: 1 + place for place, group in enumerate(at.MODES.values()) for mode in group.split()}
_PLACES = {name: place for place, name in enumerate(at.MODES)}
FLAGS = {name: 1 << place for place, name in enumerate(at.PART_FLAGS)}
TARGETS = {name: 1 << place for place, name in enumerate(at.TARGETS)}
MANA = {letter: 1 << place for place, letter in enumerate(at.POOL)}
LAST = 10**9
MODES_KEPT = 1 << 10
LONGEST = 1 << 17  # bytes of a line of facts; real ones have up to 1 kB


class NameKind:
    """A name of cards, or a text, as a seat knows it.

    Attributes:
      numbers: f32[KIND] as bytes, its row.
      parts: f32[n, PART] as bytes; rows in it count from 0.
      count: n.
      pips: symbols of its cost by color.
      hybrid: some can be paid in other ways too, and `least` is the least mana that is enough then (-1: not told).
      makes: bits of POOL, the mana that it can make.
    """

    __slots__ = ("count", "hybrid", "least", "makes", "numbers", "parts", "pips")

    def __init__(self, identity: int, facts: NameKind | None = None, text: bool = False):
        """Of an id, with what was told of it, see `told`."""
        if facts is None:
            self.parts, self.count, self.pips, self.makes = b"", 0, (0,) * len(at.COLORS), 0
            self.hybrid, self.least = False, -1
        else:
            self.parts, self.count, self.pips, self.makes = facts.parts, facts.count, facts.pips, facts.makes
            self.hybrid, self.least = facts.hybrid, facts.least
        numbers = np.zeros(at.KIND, np.float32)
        numbers[at.KIND_ID], numbers[at.IS_TEXT], numbers[at.TOLD] = identity, text, facts is not None
        numbers[at.PRODUCED_BITS] = self.makes
        numbers[at.FIRST_PIP : at.FIRST_PIP + len(self.pips)] = [_ratio(count, 2) for count in self.pips]
        self.numbers = numbers.tobytes()

    @classmethod
    def told(cls, facts: dict[str, Any]) -> NameKind:
        """Reads the daemon's facts, for a kind without an id."""
        kind, pips, produces = cls(0), _text(facts, "pips"), _text(facts, "produces")
        kind.pips = tuple(min(pips.count(letter), 99) for letter in at.POOL[: len(at.COLORS)])
        kind.least = max(-1, _whole(facts, "least", -1))
        kind.hybrid = kind.least >= 0 or sum(kind.pips) > _whole(facts, "cmc")  # older daemons say it by number only
        kind.makes = sum(bit for letter, bit in MANA.items() if letter in produces)
        kind.parts, kind.count = parts_of(facts.get("parts"))
        return kind


class Names:
    """The kinds that one seat has met in a game; two names never share an id.

    An id is a hash of the name, and the next free one where another name of this game has it: of the names that this
    seat has seen, in the order in which it has, so that what it is not shown cannot be told from ids.
    """

    def __init__(self, facts: dict[str, NameKind]):
        self._facts, self._kinds, self._texts = facts, dict[str, NameKind](), dict[str, NameKind]()
        self._ids: dict[str, int] = {}
        self._taken: set[int] = set()

    def kind(self, name: str) -> NameKind | None:
        """Returns the kind of a card's name; None without a name."""
        kind = self._kinds.get(name)
        return kind if kind is not None or not name else self._new(name)

    def text(self, text: str) -> NameKind | None:
        """Returns the kind of a text that is not a name."""
        if not text:
            return None
        kind = self._texts.get(text)
        if kind is None:
            if len(self._texts) >= MOST_NAMES:
                self._texts.clear()
            kind = self._texts[text] = NameKind(text_id(text), text=True)
        return kind

    def told(self, name: str) -> None:
        """Drops the cached kind of a name about which there are facts now."""
        self._kinds.pop(name, None)

    def _new(self, name: str) -> NameKind | None:
        identity = self._ids.get(name)
        if identity is None:
            identity = name_id(name)
            if len(self._taken) >= MOST_NAMES:
                return None
            while identity in self._taken:
                identity = 1 + identity % (at.VOCABULARY - 1)
            self._ids[name] = identity
            self._taken.add(identity)
        kind = self._kinds[name] = NameKind(identity, self._facts.get(name))
        return kind


class Facts:
    """The facts about cards that were told in a game.

    Attributes:
      seats: names that each seat has seen.
    """

    def __init__(self) -> None:
        self._told: dict[str, NameKind] = {}
        self.seats = (Names(self._told), Names(self._told))

    def hear(self, line: bytes) -> None:
        """Takes an INFO line, with or without "INFO:" before it; only facts count."""
        if b'"facts"' not in line[:64] or len(line) > LONGEST:
            return
        try:
            fields = parsed(line.removeprefix(b"INFO:"))
        except ValueError:
            return
        name, facts = fields.get("card"), fields.get("facts")
        if isinstance(name, str) and isinstance(facts, dict) and len(self._told) < MOST_NAMES:
            self._told[name] = NameKind.told(facts)
            for seat in self.seats:
                seat.told(name)


# ---- parts ----------------------------------------------------------------------------------------------------------


def parts_of(parts: Any) -> tuple[bytes, int]:
    """Returns PARTs of the daemon as f32[n, PART] in bytes, and n; a sub-ability names the row of what it follows."""
    listed = [part for part in parts if isinstance(part, dict)][:MOST_PARTS] if isinstance(parts, list) else []
    table = np.zeros((len(listed), at.PART), np.float32)
    head = 0
    for row, part in enumerate(listed):
        head = head if row and part.get("after") is True else row
        _write_part(part, table[row])
        table[row, at.PART_OF] = head
    return table.tobytes(), len(listed)


def _write_part(part: dict[str, Any], row: np.ndarray) -> None:
    row[at.PART_SORT] = SORTS.get(_text(part, "kind"), 0)
    row[at.API], row[at.MODE] = api_number(_text(part, "api")), mode_number(_text(part, "mode"))
    row[at.ORIGIN], row[at.DESTINATION] = zone_number(_text(part, "origin")), zone_number(_text(part, "destination"))
    row[at.TARGET_BITS] = sum(TARGETS[word] for word in set(_texts(part, "targets")) & TARGETS.keys())
    granted, others = 0, False
    for keyword in _texts(part, "keywords"):
        bits = keyword_bits(keyword)
        granted, others = granted | bits, others or not bits
    row[at.GRANTED_BITS] = granted
    amount, power, toughness = (_whole(part, name) for name in ("amount", "power", "toughness"))
    flags = sum(FLAGS[name] for name in ("after", "tap") if part.get(name) is True)
    flags += sum(FLAGS[name] for name in ("sacrifice", "discard", "exile", "remove_counters") if _whole(part, name))
    whose = _text(part, "whose")
    flags += FLAGS["yours"] * (whose == "you") + FLAGS["opponents"] * (whose == "opponent")
    flags += FLAGS["amount_varies"] * (amount == VARIES) + FLAGS["other_keywords"] * others
    flags += FLAGS["size_varies"] * (SIZE_VARIES in (power, toughness))
    row[at.PART_FLAG_BITS] = flags
    row[at.AMOUNT] = 0 if amount == VARIES else _ratio(amount, 4)
    row[at.PART_POWER] = 0 if power == SIZE_VARIES else _ratio(power, 4)
    row[at.PART_TOUGHNESS] = 0 if toughness == SIZE_VARIES else _ratio(toughness, 4)
    row[at.PART_MANA], row[at.PART_LIFE] = _ratio(_whole(part, "mana"), 4), _ratio(_whole(part, "life"), 4)
    row[at.MOST_TARGETS] = _ratio(_whole(part, "max_targets", 1), 2) if row[at.TARGET_BITS] else 0


def api_number(api: str) -> int:
    """1 + the place of its group in APIS."""
    return APIS.get(api, len(at.APIS)) if api else len(at.APIS) - 1


@functools.lru_cache(MODES_KEPT)
def mode_number(mode: str) -> int:
    """1 + the place of its group in MODES."""
    if not mode:
        return len(at.MODES) - 1
    if mode in MODES:
        return MODES[mode]
    begins = [place for name, place in _PLACES.items() if name in ("cant", "must") and mode.lower().startswith(name)]
    return 1 + begins[0] if begins else len(at.MODES)


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _texts(fields: dict[str, Any], key: str) -> list[str]:
    value = fields.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _whole(fields: dict[str, Any], key: str, otherwise: int = 0) -> int:
    value = fields.get(key)
    return max(-LAST, min(LAST, value)) if type(value) is int else otherwise


def _ratio(a: int, b: int) -> float:
    return math.copysign(min(abs(a / b), at.LIMIT), a)
