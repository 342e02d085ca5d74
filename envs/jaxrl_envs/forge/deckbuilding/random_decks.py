"""Legal decks of 60 cards by chance, of simple archetypes: what a policy that shall play any deck learns on.

An archetype says how many cards of which use a deck has, which share of its creatures costs how much, and how many
lands. Colours, cards and copies are drawn by a generator of their own for each deck, (seed, number): the same Forge
gives the same decks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxrl_envs.forge.deckbuilding.pool import BASICS, COLORS, PoolCard
from jaxrl_envs.shared.errors import UserError

SIZE = 60
COPIES = (4, 4, 4, 3, 3, 2, 2, 1)  # of a card, one of these
BEST = 0.5  # the share of the creatures of a cost, the best for it, of which decks are made
SUBSTITUTES = ("creature", "removal", "draw", "trick")  # where colours have no more of what is wanted


class Archetype(NamedTuple):
    """A kind of deck.

    Attributes:
      lands: number of lands.
      uses: number of cards of each role, `pool.ROLES`.
      curve: relative numbers of creatures by mana value.
      colors: colours, at least one of which is in the deck; any: all five.
      single: the chance of one colour instead of two.
    """

    lands: int
    uses: Mapping[str, int]
    curve: Mapping[int, int]
    colors: str = COLORS
    single: float = 0.4


ARCHETYPES: dict[str, Archetype] = {
    "aggro": Archetype(21, {"creature": 27, "removal": 8, "trick": 4}, {1: 9, 2: 10, 3: 6, 4: 2}, "WBRG", 0.6),
    "midrange": Archetype(24, {"creature": 22, "removal": 10, "draw": 4}, {2: 6, 3: 6, 4: 5, 5: 3, 6: 2}),
    "control": Archetype(
        26, {"creature": 9, "removal": 11, "sweeper": 4, "counter": 4, "draw": 6}, {3: 2, 4: 2, 5: 3, 6: 2}, "WUB", 0.2
    ),
    "tempo": Archetype(
        23, {"creature": 19, "counter": 6, "trick": 4, "removal": 4, "draw": 4}, {1: 5, 2: 7, 3: 5, 4: 2}, "U", 0.3
    ),
    "ramp": Archetype(25, {"ramp": 10, "creature": 19, "removal": 6}, {3: 3, 4: 4, 5: 5, 6: 4, 7: 3}, "G", 0.4),
}


class Made(NamedTuple):
    """A deck by chance: its name, its kind, its colours, and how many of each card, lands last."""

    name: str
    kind: str
    colors: str
    cards: dict[str, int]

    def text(self) -> str:
        """Returns the text of its `.dck` file."""
        lines = ["[metadata]", f"Name={self.name}", "[Main]", *(f"{n} {card}" for card, n in self.cards.items())]
        return "\n".join(lines) + "\n"


def make_decks(pool: Sequence[PoolCard], count: int, seed: int = 0) -> list[Made]:
    """Decks of all archetypes in turn.

    Args:
      pool: `pool.pool_of`, in its order.
      count: number of decks.
      seed: seed of the drawing.

    Raises:
      UserError: there are too few cards.
    """
    return [_deck(pool, list(ARCHETYPES)[number % len(ARCHETYPES)], seed, number) for number in range(count)]


def _deck(pool: Sequence[PoolCard], kind: str, seed: int, number: int) -> Made:
    draw, archetype = random.Random(f"jaxrl {seed} {number}"), ARCHETYPES[kind]
    first = draw.choice(archetype.colors)
    second = "" if draw.random() < archetype.single else draw.choice(COLORS.replace(first, ""))
    colors = "".join(sorted(first + second, key=COLORS.index))
    mine = [card for card in pool if set(card.pips) <= set(colors)]
    cards: dict[str, int] = {}
    pips = dict.fromkeys(colors, 0)
    wanted = SIZE - archetype.lands
    for role, total in archetype.uses.items():
        if role == "creature":
            for cmc, share in _shares(archetype.curve, total).items():
                _take(draw, cards, pips, _best(mine, cmc), share)
        else:
            _take(draw, cards, pips, [card for card in mine if card.role == role], total)
    for role in SUBSTITUTES:
        missing = wanted - sum(cards.values())
        most = max(archetype.curve)
        _take(draw, cards, pips, [card for card in mine if card.role == role and card.cmc <= most], missing)
    if sum(cards.values()) != wanted:
        raise UserError(f"the cards of this Forge make no {kind} deck of the colours {colors}: there are too few.")
    cards |= _lands(draw, mine, pips, archetype.lands)
    return Made(f"{kind}-{colors.lower()}-{seed}-{number:03d}", kind, colors, cards)


def _best(mine: Sequence[PoolCard], cmc: int) -> list[PoolCard]:
    """Returns the better creatures of a cost."""
    found = sorted((card for card in mine if card.role == "creature" and card.cmc == cmc), key=lambda card: -card.worth)
    return found[: max(12, int(BEST * len(found)))]


def _shares(curve: Mapping[int, int], total: int) -> dict[int, int]:
    """`total` creatures by mana value, in the proportions of a curve; what rounding leaves over is of the cheapest."""
    whole = sum(curve.values())
    shares = {cmc: part * total // whole for cmc, part in curve.items()}
    shares[min(curve)] += total - sum(shares.values())
    return shares


def _take(
    draw: random.Random, cards: dict[str, int], pips: dict[str, int], among: Sequence[PoolCard], count: int
) -> None:
    """Puts `count` cards of some into a deck, or as many as there are, and counts their pips."""
    for card in draw.sample(among, len(among)):
        if count <= 0:
            return
        if card.name in cards:
            continue
        cards[card.name] = number = min(count, draw.choice(COPIES))
        count -= number
        for color in card.pips:
            pips[color] += number


def _lands(draw: random.Random, mine: Sequence[PoolCard], pips: dict[str, int], count: int) -> dict[str, int]:
    """Lands for the pips of a deck: up to four of one with both colours, and basics in proportion, by largest rest."""
    found: dict[str, int] = {}
    duals = [card for card in mine if card.role == "land" and set(card.pips) == set(pips)]
    if len(pips) == 2 and duals:
        found[draw.choice(duals).name] = 4
        count -= 4
    whole = sum(pips.values())
    exact = {color: count * number / whole for color, number in pips.items()}
    least = min(3, count // len(pips))
    basics = {color: max(least, int(share)) for color, share in exact.items()}
    for color in sorted(exact, key=lambda color: int(exact[color]) - exact[color]):
        if sum(basics.values()) < count:
            basics[color] += 1
    largest = max(basics, key=lambda color: basics[color])
    basics[largest] += count - sum(basics.values())
    return found | {BASICS[color]: number for color, number in basics.items() if number}
