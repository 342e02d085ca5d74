"""Ids of card names: every card, also one never seen before, has an id that never changes.

The id is a hash of the name, so nothing is listed, stored or learnt. Two names share an id once in four thousand
pairs; `encoding.facts` keeps the names of one game apart.
"""

from __future__ import annotations

import functools
import re

from jaxrl_envs.forge.layout import VOCABULARY

FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
TEXT_BYTES = 2048  # of a text that count
KEPT = 1 << 14  # numbers that are kept: a game says the same few hundred names and texts over and over
_REFERENCE = re.compile(r"\([0-9]+\)")  # "Grizzly Bears (31)": the number of a card in one game


def fnv1a(data: bytes) -> int:
    """Returns the 32 bits of FNV-1a."""
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return value


@functools.lru_cache(KEPT)
def name_id(name: str) -> int:
    """Returns the id of a card's name, 1 .. VOCABULARY - 1; 0 for no name."""
    return 1 + fnv1a(name.encode("utf-8", "surrogatepass")) % (VOCABULARY - 1) if name else 0


@functools.lru_cache(KEPT)
def text_id(text: str) -> int:
    """Returns the id of a text such as the description of an ability; numbers of cards in it do not count."""
    start = text.encode("utf-8", "surrogatepass")[:TEXT_BYTES].decode("utf-8", "ignore")
    return name_id(_REFERENCE.sub("", start))
