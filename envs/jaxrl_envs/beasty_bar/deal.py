"""Dealing: one card per seat and turn for the *next* game, so that a new game only takes the finished deal over.

A full shuffle in every lane and step would cost more than the game itself (see
`jaxrl_envs.contract.wrappers.AutoReset`).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.shared.cards import nth_set_bit, scale

DRAWS = c.HAND_SIZE + c.DECK_SIZE  # random words for each seat
SPARE = 256  # piles shuffled in advance, see `spare_pile`


@struct.dataclass
class Pile:
    """One seat's cards while they are dealt."""

    left: jax.Array  # u32[], species not dealt yet
    hand: jax.Array  # u32[], species
    deck: jax.Array  # u32[], eight fields of four bits, strength - 1, the top card lowest

    @classmethod
    def full(cls) -> Pile:
        """Returns all twelve cards undealt."""
        return cls(left=jnp.uint32(c.ALL_SPECIES), hand=jnp.uint32(0), deck=jnp.uint32(0))

    @property
    def is_dealt(self) -> jax.Array:
        """bool[]."""
        return self.left == 0


def deal_card(pile: Pile, number: jax.Array, hand_size: jax.Array | int, bits: jax.Array) -> Pile:
    """Deals one uniformly random card; nothing happens if none is left.

    Args:
      pile: draw pile before the deal.
      number: i32[], cards dealt before; the first `hand_size` go into the hand.
      hand_size: i32[].
      bits: u32[], random.
    """
    some = ~pile.is_dealt
    count = lax.population_count(pile.left).astype(jnp.int32)
    index = nth_set_bit([pile.left], scale(bits, jnp.maximum(count, 1)))
    card = jnp.where(some, jnp.uint32(1) << (index & 15).astype(jnp.uint32), 0)
    in_hand = number < hand_size
    shift = (4 * jnp.clip(number - hand_size, 0, c.DECK_SIZE - 1)).astype(jnp.uint32)
    entry = (index & 15).astype(jnp.uint32) << shift
    return Pile(
        left=pile.left & ~card,
        hand=pile.hand | jnp.where(in_hand, card, 0),
        deck=pile.deck | jnp.where(some & ~in_hand, entry, 0),
    )


def deal_all(pile: Pile, number: jax.Array | int, hand_size: jax.Array | int, key: jax.Array) -> Pile:
    """Deals all cards that are left, of which `number` were dealt before."""
    bits = jax.random.bits(key, (DRAWS,))

    def one(carry: tuple[Pile, jax.Array], bits: jax.Array):
        pile, number = carry
        return (deal_card(pile, number, hand_size, bits), number + 1), None

    return lax.scan(one, (pile, jnp.int32(number)), bits)[0][0]


def given(strengths: jax.Array) -> Pile:
    """Returns a dealt pile from an order of twelve strengths (integers [12]): the hand, then the deck from the top."""
    index = jnp.asarray(strengths).astype(jnp.uint32) - 1
    hand, deck = jnp.uint32(0), jnp.uint32(0)
    for i in range(c.HAND_SIZE):
        hand |= jnp.uint32(1) << index[i]
    for i in range(c.DECK_SIZE):
        deck |= index[c.HAND_SIZE + i] << jnp.uint32(4 * i)
    return Pile(left=jnp.uint32(0), hand=hand, deck=deck)


def spare_pile(bits: jax.Array) -> Pile:
    """Returns one of `SPARE` dealt piles, chosen by `bits` (u32[]).

    For games that follow one cut short by an illegal action, whose next deal is not complete: to deal the rest of it
    takes a loop whose end depends on data, and a GPU waits for the host in each of its rounds.
    """
    words = jnp.asarray(_spare_words()).at[(bits & (SPARE - 1)).astype(jnp.int32)].get(mode="clip")
    return Pile(left=jnp.uint32(0), hand=words[0], deck=words[1])


@functools.cache
def _spare_words() -> np.ndarray:
    """u32[SPARE, 2]: the hand and the deck of each pile, as in `Pile`."""
    random, rows = np.random.default_rng(0), []
    for _ in range(SPARE):
        order = random.permutation(DRAWS).tolist()
        deck = sum(index << 4 * i for i, index in enumerate(order[c.HAND_SIZE :]))
        rows.append([sum(1 << index for index in order[: c.HAND_SIZE]), deck])
    return np.array(rows, np.uint32)
