"""History of the round: which seat played which card in which trick (option `history`).

Kept as binary digits over sets of cards, so that a play costs a few words; expanded card by card inside the network.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.shared.cards import CardSet, Hands, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king.deal import Setup

TRICK_DIGITS = 4  # tricks 0..9
TIGRESS_SHIFT = 4  # of the last word, whose lower bits are the observing seat


@struct.dataclass
class History:
    """Record of all cards of `Round.seen`, the current trick included."""

    owners: tuple[CardSet, ...]  # binary digits of the seat that played each card, lowest first
    tricks: tuple[CardSet, ...]  # of the trick, from 0
    led: CardSet  # the first cards of their tricks
    pirate: jax.Array  # bool[], the Tigress was declared a pirate

    @classmethod
    def empty(cls, players: int) -> History:
        owners = tuple(CardSet.empty() for _ in Hands.empty(players).planes)
        return cls(owners, (CardSet.empty(),) * TRICK_DIGITS, CardSet.empty(), jnp.bool_(False))

    def add(self, card: CardSet, seat: jax.Array, trick: jax.Array, leads: jax.Array, pirate: jax.Array) -> History:
        """After a play; the empty set changes nothing.

        Args:
          card: the one card.
          seat: i32[], the seat that played it.
          trick: i32[], finished tricks.
          leads: bool[], it is the first card of the trick.
          pirate: bool[], it is the Tigress as a pirate.
        """

        def noted(planes: tuple[CardSet, ...], number: jax.Array) -> tuple[CardSet, ...]:
            return tuple(plane | card.where(((number >> digit) & 1) != 0) for digit, plane in enumerate(planes))

        owners, tricks = noted(self.owners, seat), noted(self.tricks, trick)
        return History(owners, tricks, self.led | card.where(leads), self.pirate | pirate)

    def pack(self, seat: jax.Array) -> list[jax.Array]:
        """u32[] each, the observation of `seat`; `num_words` of them."""
        last = seat.astype(jnp.uint32) | (self.pirate.astype(jnp.uint32) << TIGRESS_SHIFT)
        return [word for cards in (*self.owners, *self.tricks, self.led) for word in cards.words] + [last]


def num_words(setup: Setup) -> int:
    """Words of `History.pack`."""
    return 3 * (len(Hands.empty(setup.players).planes) + TRICK_DIGITS + 1) + 1


def expand(words: jax.Array, seen: jax.Array, tricks: jax.Array, setup: Setup) -> tuple[jax.Array, jax.Array]:
    """Features of the history of each card.

    Args:
      words: u32[num_words].
      seen: u32[3], the cards played this round.
      tricks: i32[], finished tricks.
      setup: the table.

    Returns:
      f32[74, P + 2]: of a played card who played it, by relative seat; how many tricks ago, in tenths; whether it was
      led. And f32[], whether the Tigress was a pirate.
    """
    n = setup.players
    bits = c.card_bits(words[:-1].reshape(-1, 3)).astype(jnp.int32)  # [digits and led, 74]
    seat, pirate = (words[-1] & ((1 << TIGRESS_SHIFT) - 1)).astype(jnp.int32), words[-1] >> TIGRESS_SHIFT
    digits = len(bits) - TRICK_DIGITS - 1
    owner = sum(bits[i] << i for i in range(digits))
    trick = sum(bits[digits + i] << i for i in range(TRICK_DIGITS))
    played = c.card_bits(seen).astype(jnp.float32)
    by = (small_mod(owner - seat + n, n)[:, None] == np.arange(n)) * played[:, None]
    ago = (tricks - trick) / 10.0 * played
    cards = jnp.concatenate([by, ago[:, None], bits[-1].astype(jnp.float32)[:, None]], axis=-1)
    return cards, pirate.astype(jnp.float32)
