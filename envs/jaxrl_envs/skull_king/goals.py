"""Bids as goals: points promised during a round, bids that came true, and the phase of a decision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import CameTrue
from jaxrl_envs.shared.cards import get_field
from jaxrl_envs.skull_king import observe, rules
from jaxrl_envs.skull_king.deal import NUM_ROUNDS, Setup, cards_dealt
from jaxrl_envs.skull_king.rules import BID, FIRST_HARRY, HARRY, NUM_ACTIONS, Round, SkullKingGame

PHASES = {
    "phase": ("bid", "early", "middle", "late"),  # by thirds of the tricks
    "round": tuple(str(number) for number in range(1, NUM_ROUNDS + 1)),
}
OWN_BID = 14  # the word of a packed observation whose lowest four bits are the observer's bid


def promised(r: Round, number: jax.Array, setup: Setup) -> jax.Array:
    """i32[P], points: the share of the round that is over of what the bid would bring if it comes true; once it cannot,
    all that it costs at least. 0 while bids are made, the points of the round when all tricks are done: differences
    from step to step reward every trick and sum to the true score (potential-based shaping, Ng et al. 1999)."""
    seats, hand = jnp.arange(setup.players), cards_dealt(number, setup)
    bid, won = get_field(r.bids, seats), get_field(r.won, seats)
    reached = jnp.clip(bid, won, won + hand - r.tricks)  # the possible number of tricks that is nearest to the bid
    word = jnp.sum(reached.astype(jnp.uint32) << (4 * seats).astype(jnp.uint32))
    points, exact = rules.score_round(r.replace(won=word), number, setup)
    return jnp.where(exact, points * r.tricks // hand, points)


def came_true(game: SkullKingGame, action: jax.Array, setup: Setup) -> CameTrue:
    """The goals that a legal action in `game` settles, rewards in points. `rules.step` is computed once more, which a
    compiler merges with the first time.

    The goal of the seat that changes its bid with Harry at the end is the bid that it would have changed to the tricks
    that it won.
    """
    bits = jnp.zeros(setup.draws, jnp.uint32)  # what is dealt for the next round makes no difference here
    result = rules.step(game, action, bits, setup)[1]
    r, seats = result.round, jnp.arange(setup.players)
    won = get_field(r.won, seats)

    def points(seat: jax.Array, won: jax.Array) -> jax.Array:
        shift = (4 * seat).astype(jnp.uint32)
        bids = (r.bids & ~(jnp.uint32(15) << shift)) | (won.astype(jnp.uint32) << shift)
        return rules.score_round(r.replace(bids=bids), game.number, setup)[0][seat]

    change = jnp.where((game.phase == HARRY) & (seats == game.actor), action - FIRST_HARRY - 1, 0)
    goal = won - change
    possible = result.scored & (goal >= 0) & (goal <= cards_dealt(game.number, setup))
    earned = jax.vmap(points)(seats, won).astype(jnp.float32)
    return CameTrue(jnp.where(possible, goal, -1), jnp.where(possible, earned, 0.0))


def relabelled(observation: jax.Array, mask: jax.Array, bid: jax.Array, setup: Setup) -> tuple[jax.Array, jax.Array]:
    """Returns an observation after the bids, and its mask bool[100], had the seat bid `bid` (i32[])."""
    v = observe.unpack(observation, setup)
    own = (observation[OWN_BID] & ~jnp.uint32(15)) | bid.astype(jnp.uint32)
    actions = np.arange(NUM_ACTIONS)
    low, high = (
        (actions == FIRST_HARRY) & (bid > 0),
        (actions == FIRST_HARRY + 2) & (bid < cards_dealt(v.number, setup)),
    )
    changes = low | (actions == FIRST_HARRY + 1) | high
    return observation.at[OWN_BID].set(own), jnp.where(v.phase == HARRY, changes, mask)


def phase(observation: jax.Array, setup: Setup) -> dict[str, jax.Array]:
    """i32[] for every key of `PHASES`."""
    v = observe.unpack(observation, setup)
    third = jnp.minimum(3 * v.tricks // cards_dealt(v.number, setup), 2)
    return {"phase": jnp.where(v.phase == BID, 0, 1 + third), "round": v.number - 1}
