"""What a seat believes about the other's hand: worlds carried over from one turn to the next."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.deal import Pile, deal_all
from jaxrl_envs.beasty_bar.observe import with_hidden
from jaxrl_envs.beasty_bar.rules import Game


def reconcile(particle: Game, actual: Game, seat: jax.Array, key: jax.Array) -> tuple[Game, jax.Array]:
    """What `seat` sees of `actual`, with the other's hand as `particle` has it; see
    `jaxrl_envs.contract.env.Env.reconcile`.

    The order of both decks is drawn anew: no choice of anybody has depended on it.

    Args:
      particle, actual: positions after the same actions.
      seat: i32[], the observer.
      key: for the decks.

    Returns:
      The position, and bool[]: whether the other can hold these cards, given what `seat` sees.
    """
    own_key, other_key = jax.random.split(key)
    other, table = 1 - seat, actual.table
    shown = table.bar | table.out | c.cards_in(table.queue, c.PLACES - 1)
    unseen = jnp.uint32(c.ALL_SPECIES) & ~c.of_seat(shown, other)
    hand = c.of_seat(particle.hands, other)
    size = lax.population_count(c.of_seat(actual.hands, other))  # hand sizes are public
    possible = ((hand & ~unseen) == 0) & (lax.population_count(hand) == size)
    empty = Pile.full()
    own_left = c.of_seat(rules.decks_left(actual), seat)
    own = deal_all(empty.replace(left=own_left), 0, 0, own_key).deck
    theirs = deal_all(empty.replace(left=unseen & ~hand), 0, 0, other_key).deck
    return with_hidden(actual, seat, hand, own, theirs), possible
