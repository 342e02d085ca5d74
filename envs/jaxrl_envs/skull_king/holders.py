"""Holders of the cards of Skull King: which are possible from what a seat knows, and which are true.

74 cards; P + 1 holders: the hands of the seats after the observing one in turn, the stock, and what another seat has
thrown away with Bendt.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.shared.card_beliefs import CardBeliefs
from jaxrl_envs.shared.cards import CardSet, Hands, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import observe
from jaxrl_envs.skull_king.deal import Setup, cards_dealt
from jaxrl_envs.skull_king.rules import SkullKingGame

_IDS = np.arange(c.NUM_CARDS)
_SUIT = np.minimum(_IDS // 14, c.NO_SUIT)


def card_beliefs(observation: jax.Array, setup: Setup) -> CardBeliefs:
    """Possible holders that a seat can infer from hand sizes, shown voids, Jade's look at the stock and Bendt's draws.

    A seat that drew itself learns nothing about other cards from its own discards; if it also looked at the stock, it
    knows all of that, and the cards left are in the hands of others.
    """
    v, n = observe.unpack(observation, setup), setup.players
    hand, seen, out = c.card_bits(jnp.stack([v.hand, v.seen, v.out])).astype(bool)
    mine, others = v.bendt == 0, np.arange(1, n)
    hidden = (np.array(_IDS < c.KRAKEN) | setup.expansion) & ~hand & ~seen & ~(out & mine)
    viewed = out & ~mine
    drawn = jnp.where(others == v.bendt, v.bendt_left, 0)  # as many are still to be thrown away
    sizes = cards_dealt(v.number, setup) - v.tricks - (v.plays[1:] > 0) + drawn
    thrown = jnp.where(v.bendt > 0, v.bendt_drawn - v.bendt_left, 0)
    left = jnp.sum(hidden) - jnp.sum(sizes) - thrown
    void = (jnp.append(((v.voids[1:, None] >> np.arange(4)) & 1) > 0, jnp.zeros((n - 1, 1), bool), axis=1))[:, _SUIT].T
    held = ~void & (~viewed[:, None] | (others == v.bendt))  # only the drawer may hold a card that was in the stock
    undealt = viewed | ~viewed.any()
    possible = hidden[:, None] & jnp.concatenate([held, undealt[:, None], jnp.ones((len(_IDS), 1), bool)], axis=1)
    return CardBeliefs(possible, jnp.concatenate([sizes, left[None], thrown[None]]).astype(jnp.int32))


def holders(observation: jax.Array, privileged: jax.Array, setup: Setup) -> jax.Array:
    """i32[74]: where the hidden cards are; -1 for the others."""
    n = setup.players
    places = c.card_bits(privileged[: 3 * n].reshape(n, 3)) > 0  # bool[P, 74]: the others' hands, the stock
    where = jnp.where(jnp.any(places, axis=0), jnp.argmax(places, axis=0), n)
    return jnp.where(jnp.any(card_beliefs(observation, setup).possible, axis=1), where, -1).astype(jnp.int32)


def dealt(game: SkullKingGame, seat: jax.Array, holders: jax.Array, setup: Setup) -> tuple[Hands, CardSet]:
    """Returns all hands and Bendt's discards where `holders` (i32[74]) hold what `seat` cannot see."""
    n, r = setup.players, game.round
    hands = Hands.empty(n).give(seat, r.hands.of(seat))
    for i in range(1, n):
        hands = hands.give(small_mod(seat + i, n), _packed(holders == i - 1))
    return hands, _packed(holders == n) | r.discards.where(r.bendt == seat)


def _packed(flags: jax.Array) -> CardSet:
    """bool[74] by card id -> the set."""
    slots = np.array(c.SLOTS)
    bits = flags.astype(jnp.uint32) << (slots % 32).astype(np.uint32)
    return CardSet(*(jnp.sum(jnp.where(slots // 32 == word, bits, 0), dtype=jnp.uint32) for word in range(3)))
