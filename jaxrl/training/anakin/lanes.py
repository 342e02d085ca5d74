"""Lanes of compiled games: what they are played with, their first games, and their accounting after a step.

Shape letters as in `jaxrl.algorithms.base`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Algorithm, Asked
from jaxrl.league.seats import Seats
from jaxrl.networks.base import Memory
from jaxrl.training.episodes import EpisodeStats, finished, no_games
from jaxrl.training.state import Lanes, lane_keys
from jaxrl_envs.contract.env import Env, State, select
from jaxrl_envs.contract.wrappers import AutoReset, Final, auto_reset, privileged


@dataclasses.dataclass(frozen=True)
class RolloutSetup:
    """The game, the algorithm and the assignment of seats."""

    env: Env
    auto: AutoReset
    algorithm: Algorithm
    seats: Seats
    over_lanes: Callable[[Callable[..., Any]], Callable[..., Any]] = (
        jax.vmap
    )  # how a function of one lane runs for all of them

    def at(self, progress: jax.Array | None, weights: Any) -> RolloutSetup:
        """Returns the setup with the game at a training progress, f32[] (`Env.annealed`), and with weights of its
        rewards (`Env.weighted`); either may be None."""
        env = self.env if weights is None else self.env.weighted(weights)
        env = env if progress is None else env.annealed(progress)
        auto = auto_reset(env, settles=self.algorithm.hindsight)
        return self if env is self.env else dataclasses.replace(self, env=env, auto=auto)

    def asked(self, state: State) -> Asked:
        """Returns the questions to the acting seats of one game, [S, ...]."""
        return self.spread(Asked(state.observation, self.env.policy_mask(state), state.current_player))

    def privileged(self, state: State) -> Any:
        """Returns what is hidden from the acting seats, [S, ...]; None unless the algorithm reads it."""
        return self.spread(privileged(self.env, state)) if self.algorithm.privileged else None

    def spread(self, tree: Any) -> Any:
        """Returns arrays of a state with an axis S of acting seats, added in turn-based games."""
        return tree if self.env.simultaneous else jax.tree.map(lambda leaf: leaf[None], tree)

    def no_games(self) -> EpisodeStats:
        """Sums over no finished games."""
        return no_games(self.seats, self.stat_names)

    @functools.cached_property
    def stat_names(self) -> tuple[str, ...]:
        """Names of the game's metrics."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        return tuple(jax.eval_shape(lambda key: self.env.episode_stats(self.env.init(key)), key))


def new_lane(setup: RolloutSetup, key: jax.Array, odds: Any = None) -> Lanes:
    """Returns a lane with a new game; `odds` are this lane's."""
    game_key, seat_key = jax.random.split(key)
    return Lanes(
        env_state=setup.auto.init(game_key),
        controllers=setup.seats.deal(seat_key, odds),
        memory=setup.algorithm.network.memory((setup.env.num_players,)),
        episode_return=jnp.zeros(setup.env.num_players, jnp.float32),
        episode_length=jnp.int32(0),
    )


def first_lanes(setup: RolloutSetup, key: jax.Array, pool: Any, count: int, stagger: int) -> Lanes:
    """Returns the lanes before the first update: lane i of B has played ``i * stagger / B`` random decisions.

    Games that all begin together stay synchronised: each rollout then covers a single phase of the game, and the
    network forgets the others."""
    ids = jnp.arange(count, dtype=jnp.uint32)
    odds = setup.seats.odds(pool, ids)
    lanes = jax.vmap(functools.partial(new_lane, setup))(lane_keys(key, jnp.uint32(0), ids), odds)
    if not stagger:
        return lanes
    pause, key = ids * stagger // count, jax.random.fold_in(key, 1)  # u32[B]

    def play_on(lane: Lanes, key: jax.Array, odds: Any) -> Lanes:
        act_key, env_key, seat_key = jax.random.split(key, 3)
        state, final = setup.auto.step(lane.env_state, setup.env.random_action(lane.env_state, act_key), env_key)
        return after_step(setup, lane, final, lane.memory, seat_key, odds)[0].replace(env_state=state)

    def step(lanes: Lanes, t: jax.Array) -> tuple[Lanes, None]:
        moved = setup.over_lanes(play_on)(lanes, lane_keys(key, t, ids), odds)
        return jax.vmap(select)(t < pause, moved, lanes), None

    return jax.lax.scan(step, lanes, jnp.arange(stagger, dtype=jnp.uint32))[0]


def after_step(
    setup: RolloutSetup, lane: Lanes, final: Final, memory: Memory, key: jax.Array, odds: Any
) -> tuple[Lanes, EpisodeStats]:
    """Returns one lane after a step, but for the game's own state: where its game ended everything starts from 0."""
    over = final.over
    returns, length = lane.episode_return + final.rewards, lane.episode_length + 1
    ended = finished(setup.seats, lane.controllers, returns, length, over, final.illegal_action, final.stats)
    controllers = lane.controllers
    if setup.seats.varied:
        controllers = jnp.where(over, setup.seats.deal(key, odds), controllers)
    lane = lane.replace(
        controllers=controllers,
        memory=memory,
        episode_return=jnp.where(over, 0.0, returns),
        episode_length=jnp.where(over, 0, length),
    )
    return lane, ended


def deal_anew(
    setup: RolloutSetup, lanes: Lanes, stale: jax.Array, keys: jax.Array, odds: Any
) -> tuple[Lanes, jax.Array]:
    """Replaces games against stale opponents (bool[1 + E]) by new ones. Returns lanes [B] and their number f32[]."""
    stop = stale[jnp.max(lanes.controllers, axis=1).astype(jnp.int32)]

    def deal(lanes: Lanes) -> Lanes:
        return jax.vmap(select)(stop, jax.vmap(functools.partial(new_lane, setup))(keys, odds), lanes)

    lanes = jax.lax.cond(jnp.any(stop), deal, lambda lanes: lanes, lanes)
    return lanes, jnp.sum(stop, dtype=jnp.float32)
