"""The table and its deals (specification section 2): dealt card by card ahead of time, or from given decks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.shared.cards import CardSet, Hands, scale, small_mod
from jaxrl_envs.skull_king import cards as c

NUM_ROUNDS = 10
MOST_SEATS = 8
SPARE = 64  # deals of each round shuffled in advance, see `spare_deal`


def max_hand(players: Any) -> Any:
    """Returns the most cards a seat is ever dealt; of an int or i32[]."""
    return 10 - 2 * (players == 8)


class Setup(NamedTuple):
    """Static settings of a program: the table and its switches."""

    players: int = 4
    expansion: bool = True
    abilities: bool = True
    single_round: bool = False
    draws: int = 2  # cards dealt ahead in each step, see `draws_needed`
    history: bool = False  # seats see who played which card in which trick of the round
    padded: bool = False  # networks read eight seats and the rules of the table

    @property
    def max_hand(self) -> int:
        return int(max_hand(self.players))

    @property
    def deck_size(self) -> int:
        return c.NUM_CARDS if self.expansion else c.KRAKEN


def cards_dealt(number: jax.Array, setup: Setup) -> jax.Array:
    """Cards dealt in round `number`, i32[]."""
    return jnp.minimum(number, setup.max_hand)


@struct.dataclass
class Deal:
    """A deal in the making: the hands, and the two cards on top of the stock."""

    hands: Hands
    top: CardSet

    @classmethod
    def empty(cls, players: int) -> Deal:
        return cls(Hands.empty(players), CardSet.empty())


def deal_card(deal: Deal, number: jax.Array, bits: jax.Array, setup: Setup) -> Deal:
    """Deals one uniformly random card of those left: to the seats in turn, then two on top of the stock."""
    free = c.deck(setup.expansion) - deal.hands.held - deal.top
    in_hands, on_top = deal.hands.held.count(), deal.top.count()
    left = free.count()
    needed = cards_dealt(number, setup) * setup.players
    card = CardSet.single(free.nth(scale(bits, left))).where(left > 0)
    to_hand = in_hands < needed
    seat = small_mod(in_hands, setup.players)
    return Deal(
        hands=deal.hands.give(seat, card.where(to_hand)),
        top=deal.top | card.where(~to_hand & (on_top < 2)),
    )


def deal_cards(deal: Deal, number: jax.Array, bits: jax.Array, setup: Setup) -> Deal:
    """Deals one card for each word of `bits`, u32[draws]."""
    for i in range(bits.shape[0]):
        deal = deal_card(deal, number, bits[i], setup)
    return deal


def is_dealt(deal: Deal, number: jax.Array, setup: Setup) -> jax.Array:
    """bool[]: the deal is complete."""
    hands = deal.hands.held.count() == cards_dealt(number, setup) * setup.players
    return hands & (deal.top.count() == jnp.minimum(2, setup.deck_size - deal.hands.held.count()))


def spare_deal(number: jax.Array, bits: jax.Array, setup: Setup) -> Deal:
    """Returns one of `SPARE` complete deals of round `number`, chosen by `bits` (u32[]).

    For games that follow one cut short by an illegal action, whose next deal is not complete: to deal the rest of it
    takes a loop whose end depends on data, and a GPU waits for the host in each of its rounds.
    """
    table = _spare_words(setup)
    row = (number - 1) * SPARE + (bits & (SPARE - 1)).astype(jnp.int32)
    words = jnp.asarray(table).at[row].get(mode="clip")
    held, *planes, top = (CardSet(words[i], words[i + 1], words[i + 2]) for i in range(0, table.shape[1], 3))
    return Deal(Hands(held, tuple(planes)), top)


@functools.cache
def _spare_words(setup: Setup) -> np.ndarray:
    """u32[10 * SPARE, W]: shuffled deals by round, as the words of held cards, of each owner digit and of the top."""
    random, rows = np.random.default_rng(0), []
    for number in np.repeat(np.arange(1, NUM_ROUNDS + 1), SPARE):
        size = min(int(number), setup.max_hand)
        in_hands = size * setup.players
        cards = [1 << c.SLOTS[card] for card in random.permutation(setup.deck_size)[: in_hands + 2]]
        held, top = sum(cards[:in_hands]), sum(cards[in_hands:])
        digits = range(max(1, (setup.players - 1).bit_length()))
        planes = [sum(cards[i] for i in range(in_hands) if (i // size) >> digit & 1) for digit in digits]
        rows.append([cards >> 32 * word & 0xFFFFFFFF for cards in (held, *planes, top) for word in range(3)])
    return np.array(rows, np.uint32)


def deal_from_deck(deck: jax.Array, number: jax.Array, setup: Setup) -> Deal:
    """Returns the deal of round `number` (i32[], 1..10) from a deck order: seat i gets deck[i*h : (i+1)*h].

    Args:
      deck: integers [74], top first; without the expansion only the first 70 count.
      number: the round.
      setup: the table.
    """
    size = cards_dealt(number, setup)
    position = jnp.arange(setup.deck_size)
    owner = position // size
    in_hand = owner < setup.players
    on_top = ~in_hand & (position < size * setup.players + 2)
    slot = c.slot(deck[: position.size].astype(jnp.int32))
    bit = jnp.uint32(1) << (slot & 31).astype(jnp.uint32)

    def collect(mask: jax.Array) -> CardSet:
        words = [jnp.sum(jnp.where(mask & (slot >> 5 == w), bit, jnp.uint32(0)), dtype=jnp.uint32) for w in range(3)]
        return CardSet(*words)

    planes = len(Hands.empty(setup.players).planes)
    owners = tuple(collect(in_hand & ((owner >> digit) & 1).astype(bool)) for digit in range(planes))
    return Deal(Hands(collect(in_hand), owners), collect(on_top))


def draws_needed(players: int, round_weights: Sequence[float] | None) -> int:
    """Returns the number of cards that each step must deal ahead, so that the next deal is complete when it is needed.

    Args:
      players: number of seats.
      round_weights: relative frequency of rounds 1..10 if episodes are single rounds, else None.
    """

    def hand(number: int) -> int:
        return min(number, max_hand(players))

    if round_weights is None:
        pairs = [(r, r + 1) for r in range(1, NUM_ROUNDS)] + [(NUM_ROUNDS, 1)]
    else:
        possible = [r + 1 for r in range(NUM_ROUNDS) if round_weights[r] > 0]
        pairs = [(a, b) for a in possible for b in possible]
    return max(-(-(players * hand(b) + 2) // (players * (1 + hand(a)))) for a, b in pairs)
