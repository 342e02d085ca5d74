"""Beliefs about hidden cards: what the rules allow, and worlds drawn from odds that a network has learned.

N cards (or other things), H holders (the hands of the other seats in turn, a stock). If a seat knows only the rules,
every way to distribute the hidden cards is equally likely, and `uniform` gives the odds. `draw` distributes them by
other odds, one card after the other, each conditioned on the room that is left.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

SCALINGS = 8  # of rows and columns, until the odds agree with the room; one is enough where nothing is excluded
LEAST = 1e-4  # odds of what is possible: no belief is surer than that


class CardBeliefs(NamedTuple):
    """Places of the cards that the rules allow, as a seat knows them."""

    possible: jax.Array  # bool[N, H], whether a card may be there; an empty row: the seat knows where the card is
    room: jax.Array  # i32[H], the number of hidden cards that each holder has


def open_to(beliefs: CardBeliefs) -> jax.Array:
    """bool[N, H]: `possible`, restricted to holders that have room."""
    chex.assert_shape(beliefs.room, beliefs.possible.shape[-1:])
    return beliefs.possible & (beliefs.room > 0)


def uniform(beliefs: CardBeliefs) -> jax.Array:
    """f32[N, H]: the odds if only the rules are known; rows add up to 1, or are 0 for what the seat sees.

    Exact if every card may be with every holder (the shares of all ways to distribute the cards), close elsewhere.
    """
    return scaled(jnp.ones(beliefs.possible.shape, jnp.float32), beliefs)


def scaled(odds: jax.Array, beliefs: CardBeliefs) -> jax.Array:
    """f32[N, H]: the odds nearest to `odds` (f32[N, H]) that agree with what is possible and with the room of every
    holder (Sinkhorn's iteration); rows add up to 1, or are 0 for what the seat sees."""
    chex.assert_equal_shape([odds, beliefs.possible])
    odds = odds * open_to(beliefs)
    for _ in range(SCALINGS):
        odds = odds * (beliefs.room / jnp.maximum(jnp.sum(odds, axis=0), 1e-9))
        odds = odds / jnp.maximum(jnp.sum(odds, axis=1, keepdims=True), 1e-9)
    return odds


def draw(odds: jax.Array, beliefs: CardBeliefs, key: jax.Array) -> jax.Array:
    """i32[N]: holders of all hidden cards, drawn by odds; -1 for the others. Always as the rules allow.

    Cards are distributed from the surest to the least sure. Each goes to a holder with its odds there times the room
    that is left in proportion to the odds of all cards to come; with uniform odds and no exclusions this draws all
    distributions equally often. A holder is excluded if taking the card would leave another set of holders with too few
    cards to fill its room (Hall's condition on every set of holders), so the draw never gets stuck.

    Args:
      odds: f32[N, H], at least 0.
      beliefs: possible places; at least one distribution must be possible.
      key: typed.
    """
    possible, odds = open_to(beliefs), scaled(jnp.maximum(odds, LEAST), beliefs)
    order = jnp.argsort(-jnp.max(odds, axis=1))  # what the seat sees has odds of 0: it comes last
    odds, possible = odds[order], possible[order]
    sets = np.array(list(itertools.product((False, True), repeat=odds.shape[1])))  # bool[2^H, H]
    touched = (possible[:, None, :] & sets).any(axis=2)  # bool[N, 2^H], whether one of the set may hold the thing
    to_come = jnp.cumsum(odds[::-1], axis=0)[::-1]  # f32[N, H], the thing itself included
    supply = jnp.cumsum(touched[::-1].astype(jnp.int32), axis=0)[::-1]  # i32[N, 2^H], likewise

    def hand_out(room: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        odds, possible, touched, to_come, supply, chance = now
        tight = (jnp.sum(jnp.where(sets, room, 0), axis=1) == supply) & touched
        allowed = possible & (room > 0) & ~jnp.any(tight[:, None] & ~sets, axis=0)
        weight = jnp.where(allowed, odds * room / jnp.maximum(to_come, 1e-9), 0.0)
        below = jnp.cumsum(weight)
        to = jnp.argmax(below > chance * below[-1]).astype(jnp.int32)
        given = jnp.any(allowed)
        return room - ((np.arange(len(room)) == to) & given), jnp.where(given, to, -1)

    chances = jax.random.uniform(key, order.shape, maxval=1.0 - 1e-6)  # the last share is reached in spite of rounding
    found = jax.lax.scan(hand_out, beliefs.room, (odds, possible, touched, to_come, supply, chances))[1]
    return jnp.full_like(found, -1).at[order].set(found)
