"""The numbers of the rule-based bots (specification section 12), as NumPy tables over the 83 slots of a play.

Slot 16*s + m - 1 is the card of suit s and number m, slots 64..81 are the specials in card order (the Tigress there is
an escape), slot 82 is the Tigress declared pirate. Slots that are no card hold 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from jaxrl_envs.skull_king import cards as c

NUM_SLOTS = 83
SLOT_TIGRESS_PIRATE = c.slot_of(c.TIGRESS_PIRATE)

# Masks of the third word of a CardSet (slot 64 = card 56 is bit 0) by class; the unseen Tigress counts as a pirate.
CLASSES: dict[str, np.uint32] = {
    "pirate": np.uint32(0b111111 << 5),
    "king": np.uint32(1 << 11),
    "mermaid": np.uint32(3 << 12),
    "kraken": np.uint32(1 << 14),
    "whale": np.uint32(1 << 15),
}

_PLAIN = {
    2: "22 22 22 22 27 27 31 34 39 45 52 59 65 71",
    3: "5 5 5 5 7 7 10 12 15 20 27 35 43 51",
    4: "1 1 1 1 2 2 3 4 6 9 14 21 28 36",
    5: "0 0 0 0 1 1 1 1 2 4 7 12 18 26",
    6: "0 0 0 0 0 0 0 0 1 2 4 7 12 18",
    7: "0 0 0 0 0 0 0 0 0 1 2 4 8 13",
    8: "0 0 0 0 0 0 0 0 0 0 1 3 5 9",
}
_ROGER = {
    2: "65 68 71 74 76 79 82 84 86 89 91 92 95 97",
    3: "43 47 51 54 58 63 67 71 74 79 83 85 90 95",
    4: "28 32 36 40 44 50 55 60 64 70 75 79 86 92",
    5: "18 22 26 29 33 40 45 51 55 62 68 73 82 89",
    6: "12 15 18 22 25 31 37 43 48 55 62 68 78 87",
    7: "8 10 13 16 19 25 30 36 41 49 56 62 74 85",
    8: "5 7 9 12 15 20 25 30 35 44 51 58 70 82",
}
_CHARACTERS = {  # King, Pirate, Tigress, Mermaid
    2: (95, 92, 85, 85),
    3: (90, 84, 73, 73),
    4: (85, 77, 62, 62),
    5: (81, 71, 53, 53),
    6: (76, 65, 45, 45),
    7: (72, 59, 38, 38),
    8: (68, 54, 33, 33),
}


def by_slot(value: Callable[[int], int]) -> np.ndarray:
    """i32[83] from a function of a play 0..74."""
    table = np.zeros(NUM_SLOTS, np.int32)
    for play in range(c.NUM_PLAYS):
        table[c.slot_of(play)] = value(play)
    return table


def planes(table: np.ndarray) -> np.ndarray:
    """u32[7, 3]: the binary digits, lowest first, of a table [83] of numbers 0..127 as sets of slots."""
    digits = (table[None, :] >> np.arange(7)[:, None]) & 1
    words = np.zeros((7, 96), np.uint64)
    words[:, :NUM_SLOTS] = digits
    return (words.reshape(7, 3, 32) << np.arange(32, dtype=np.uint64)).sum(axis=2).astype(np.uint32)


def _special(
    play: int, *, king: int, pirate: int, tigress: int, mermaid: int, kraken: int = 0, whale: int = 0, loot: int = 0
) -> int:
    if c.ROSIE <= play <= c.HARRY:
        return pirate
    others = {c.TIGRESS: tigress, c.TIGRESS_PIRATE: tigress, c.KING: king, c.KRAKEN: kraken, c.WHALE: whale}
    return {**others, **dict.fromkeys(c.MERMAIDS, mermaid), **dict.fromkeys(c.LOOTS, loot)}.get(play, 0)


def _worth(play: int) -> int:
    number = play % 14 + 1
    if play < 42:
        return 30 if number >= 12 else 15 if number >= 8 else 0
    if play < 56:
        return 70 if number >= 10 else 40 if number >= 6 else 20
    return _special(play, king=90, pirate=60, mermaid=40, tigress=35, whale=20, kraken=15, loot=5)


def _strength(play: int) -> int:
    number = play % 14 + 1
    if play < 42:
        return 10 + 30 * number // 14
    if play < 56:
        return 40 + 40 * number // 14
    return _special(play, king=100, pirate=85, mermaid=75, tigress=55, whale=35, kraken=25, loot=5)


def _hard_worth(play: int, players: int) -> int:
    if play < 56:
        row = _PLAIN if play < 42 else _ROGER
        return int(row[players].split()[play % 14])
    king, pirate, tigress, mermaid = _CHARACTERS[players]
    return _special(play, king=king, pirate=pirate, tigress=tigress, mermaid=mermaid)


def _danger(play: int) -> int:
    fixed = {c.TIGRESS: 1, c.TIGRESS_PIRATE: 80, c.KRAKEN: 2, c.WHALE: 2}
    return fixed.get(play, _hard_worth(play, 4))


def _order(key: Callable[[int], object]) -> np.ndarray:
    """Returns the bit planes of each play's position when plays are sorted by `key`."""
    position = {play: i for i, play in enumerate(sorted(range(c.NUM_PLAYS), key=key))}  # type: ignore[arg-type]
    return planes(by_slot(position.__getitem__))


@cache
def hard_worth(players: int) -> np.ndarray:
    """i32[83]: the hard bot's chance in hundredths that a card wins a trick."""
    return by_slot(lambda play: _hard_worth(play, players))


WORTH = by_slot(_worth)
COST = by_slot(lambda play: 60 if play == c.TIGRESS else _hard_worth(play, 4))
DANGER = by_slot(_danger)
BY_ACTION = _order(lambda play: play)
BY_STRENGTH = _order(lambda play: (_strength(play), play))
BY_WEAKNESS = _order(lambda play: (-_strength(play), play))
