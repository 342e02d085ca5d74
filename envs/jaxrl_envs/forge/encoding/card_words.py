"""Encodes words on cards (types, colors, keywords, zones, costs) as bits and numbers; results are cached."""

from __future__ import annotations

import functools
import re

from jaxrl_envs.forge.layout import CARD_TYPES, KEYWORDS, ZONES

BASICS = ("plains", "island", "swamp", "mountain", "forest")
TYPE_BITS = {word: 1 << bit for bit, word in enumerate((*CARD_TYPES, *BASICS))}
COLOR_BITS = {letter: 1 << bit for bit, letter in enumerate("WUBRG")}
ALSO = {"shroud": "hexproof", "ward": "hexproof", "protection": "hexproof"}
KEYWORD_BITS = {word: 1 << KEYWORDS.index(ALSO.get(word, word)) for word in (*KEYWORDS, *ALSO)}
KEYWORD_BITS["double strike"] |= KEYWORD_BITS["first strike"]
UNBLOCKABLE = "cardname can't be blocked"
_SYMBOL = re.compile(r"\{([^{}]+)\}")  # "{2}", "{W/U}"
_DIGITS = re.compile(r"[0-9]+")
MOST_MANA = 1000  # that one symbol of a cost counts
KEPT = 1 << 14  # results of each function


@functools.lru_cache(KEPT)
def type_bits(types: str) -> int:
    """Returns the words of a type line: those of CARD_TYPES, and behind them basic land types."""
    bits = 0
    for word in types.lower().split(" "):
        bits |= TYPE_BITS.get(word, 0)
    return bits


@functools.lru_cache(KEPT)
def color_bits(letters: str) -> int:
    """Letters of colors, W U B R G."""
    bits = 0
    for letter in letters:
        bits |= COLOR_BITS.get(letter, 0)
    return bits


@functools.lru_cache(KEPT)
def keyword_bits(keyword: str) -> int:
    """Returns a keyword, perhaps with more behind a blank or colon, as bits in the order of KEYWORDS; 0: another."""
    keyword = keyword.lower()
    if keyword.startswith(UNBLOCKABLE):
        return KEYWORD_BITS["unblockable"]
    return KEYWORD_BITS.get(keyword) or _first_words(keyword)


def _first_words(keyword: str) -> int:
    for word, bits in KEYWORD_BITS.items():
        if keyword.startswith((word + " ", word + ":")):
            return bits
    return 0


@functools.lru_cache(KEPT)
def cost_of(cost: str) -> int:
    """Returns the mana value of a cost such as "{2}{G}{W/U}"; X counts nothing."""
    total = 0
    for symbol in _SYMBOL.findall(cost):
        digits = _DIGITS.match(symbol)
        if digits:
            total += min(int(digits[0].lstrip("0")[:5] or 0), MOST_MANA)  # never a number of thousands of digits
        elif symbol[0] not in "XYZ":
            total += 1
    return total


def zone_of(name: str) -> int:
    """Returns the place of a zone in ZONES by its name; any other than those is the library."""
    name = name.lower()
    return ZONES.index(name) if name in ZONES else ZONES.index("library")


def zone_number(name: str) -> int:
    """1 + the place of a zone in ZONES; 0: no name."""
    return 1 + zone_of(name) if name else 0
