"""Words and numbers of a line: the part of the referee of `tests/jaxrl_envs/forge/referee/forge.py` for single
values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jaxrl_envs.forge import layout as at

BASICS = ("plains", "island", "swamp", "mountain", "forest")
LARGEST = 2**31 - 1
ID_KEYWORDS = {"shroud": "hexproof", "ward": "hexproof", "protection": "hexproof"}


def ratio(a: float, b: float) -> np.float32:
    """a / b within the limit, divided in double precision."""
    return np.float32(min(max(float(a) / float(b), -at.LIMIT), at.LIMIT))


def whole(value: Any, otherwise: int = 0) -> int:
    """An integer of 32 bits; anything else is `otherwise`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return otherwise
    return max(-LARGEST, min(LARGEST, value))


def cost_of(text: str) -> int:
    """The mana value of a cost such as "{2}{G}{W/U}"; X counts nothing."""
    total = 0
    for symbol in re.findall(r"\{([^{}]*)\}", text):
        digits = re.match(r"[0-9]+", symbol)
        if digits:
            total += min(int(digits[0]), 1000)
        elif symbol[:1] not in ("X", "Y", "Z", ""):
            total += 1
    return total


def keyword_of(text: str) -> str | None:
    """The keyword of our list that a text such as "Ward:2" or "Protection from red" is, None if it is another."""
    text = text.lower()
    if text.startswith("cardname can't be blocked"):
        return "unblockable"
    for word in (*at.KEYWORDS, *ID_KEYWORDS):
        if text == word or text.startswith((word + " ", word + ":")):
            return ID_KEYWORDS.get(word, word)
    return None


def types_of(card: dict[str, Any]) -> list[str]:
    return card.get("types", "").lower().split(" ")


def counters_of(card: dict[str, Any]) -> tuple[int, int]:
    """+1/+1 less -1/-1 counters, and those of other kinds."""
    plus, others = 0, 0
    for name, number in card.get("counters", {}).items():
        if name in ("P1P1", "M1M1"):
            plus += whole(number) if name == "P1P1" else -whole(number)
        elif name != "LOYALTY":
            others += whole(number)
    return plus, others


def zone_of(name: str) -> str:
    """One of ZONES."""
    return name.lower() if name.lower() in at.ZONES else "library"


def sort(name: str) -> int:
    return 1 + at.SORTS.index(name)
