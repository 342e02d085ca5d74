"""Who holds what a seat cannot see: what the rules tell of it, and worlds drawn by what else is believed.

N things (cards), H holders (the hands of the others in turn, a stock). Where a seat knows nothing more than the rules,
every way to hand out the hidden things is as likely as any other; `uniform` are its odds. `draw` hands them out by
other odds, one after the other, each conditioned on the room that is left.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any

SCALINGS = 8  # of rows and columns, until the odds agree with the room; one is enough where nothing is excluded
LEAST = 1e-4  # odds of what is possible: nobody's belief is surer than that


class Holdings(NamedTuple):
    """What a seat can conclude of where the things are."""

    possible: jax.Array  # bool[N, H], whether a thing may be there; a row without any: the seat knows where it is
    room: jax.Array  # i32[H], how many of the others every holder has


class Conceals:
    """The part of `jaxrl_envs.contract.env.Env` that says what can be guessed; by default a game says nothing."""

    def holdings(self, observation: PyTree) -> Holdings | None:
        """What a seat that sees this can conclude of the whereabouts of hidden things, or None if the game does not
        say. The room adds up to the number of rows with a possible holder."""
        return None

    def holders(self, observation: PyTree, privileged: PyTree) -> jax.Array:
        """i32[N]: where the hidden things are, from `Env.observe` and `Env.privileged` of one seat; -1 for others."""
        raise NotImplementedError

    def world_with(self, state: Any, seat: jax.Array, holders: jax.Array, key: jax.Array) -> Any:
        """A world as of `Env.permute_hidden` in which `holders` (i32[N]) hold the hidden things; what else is hidden is
        drawn from `key`."""
        raise NotImplementedError


def open_to(holdings: Holdings) -> jax.Array:
    """bool[N, H]: what is possible where there is room."""
    return holdings.possible & (holdings.room > 0)


def uniform(holdings: Holdings) -> jax.Array:
    """f32[N, H]: the odds of one who knows the rules alone; rows add up to 1, or are 0 for what the seat sees.

    Exactly the shares of all ways to hand out the things where everybody may hold everything, nearly so elsewhere.
    """
    return scaled(jnp.ones(holdings.possible.shape, jnp.float32), holdings)


def scaled(odds: jax.Array, holdings: Holdings) -> jax.Array:
    """f32[N, H]: odds that agree with what is possible and with the room of every holder, as near as may be to `odds`
    (Sinkhorn's iteration); rows add up to 1, or are 0 for what the seat sees."""
    odds = odds * open_to(holdings)
    for _ in range(SCALINGS):
        odds = odds * (holdings.room / jnp.maximum(jnp.sum(odds, axis=0), 1e-9))
        odds = odds / jnp.maximum(jnp.sum(odds, axis=1, keepdims=True), 1e-9)
    return odds


def draw(odds: jax.Array, holdings: Holdings, key: jax.Array) -> jax.Array:
    """i32[N]: holders of all hidden things, drawn by odds; -1 for the others. Always as the rules allow.

    Things are handed out from the surest to the least sure. Each goes to a holder with its odds there times the room
    that is left in proportion to the odds of all things to come, which by uniform odds without exclusions draws all
    ways alike. A holder is left out who would leave others with too little to fill their room (Hall's condition on
    every set of holders), so that there always is a way on.

    Args:
      odds: f32[N, H], at least 0.
      holdings: what is possible; somewhere all of it must fit.
      key: typed.
    """
    possible, odds = open_to(holdings), scaled(jnp.maximum(odds, LEAST), holdings)
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
    found = jax.lax.scan(hand_out, holdings.room, (odds, possible, touched, to_come, supply, chances))[1]
    return jnp.full_like(found, -1).at[order].set(found)
