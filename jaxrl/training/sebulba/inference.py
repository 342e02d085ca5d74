"""Batched inference for actors: one device call per block of games and step, and one before each rollout."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.base import Asked, cleared, remember
from jaxrl.networks.base import Memory
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.anakin.rollout import decide
from jaxrl.training.state import deal_key, lane_keys, update_keys


class Seating(NamedTuple):
    """Device arrays that are constant during a rollout, for one block of lanes."""

    play_key: jax.Array  # typed, of this rollout
    deal_key: jax.Array  # typed, of the whole training
    odds: Any  # [B, ...], of `Seats.odds`
    lane_ids: jax.Array  # u32[B], global numbers


class BlockAnswer(NamedTuple):
    """The decisions of a block on the host; B lanes, S acting seats, P seats."""

    action: np.ndarray  # i32[S, B]
    log_prob: np.ndarray  # f32[S, B], of the learner's policy
    value: np.ndarray  # f32[S, B]
    following: np.ndarray  # i32[P, B], controllers of the next game; P = 0 if all seats are always the learner's


class ActorPrograms:
    """The compiled functions of the actors; B is the number of lanes of a block."""

    def __init__(self, setup: RolloutSetup):
        """Compiles at the first calls. `setup` holds the algorithm and the seats; its game is not played."""
        self.setup = setup
        self.varied, self.remembers = setup.seats.varied, setup.algorithm.network.remembers
        self._seats_asked = setup.env.num_players if setup.env.simultaneous else 1
        self.seating = jax.jit(self._seating)
        """(key, rollout i32[], pool without snapshots, lane_ids u32[B]) -> Seating"""
        self.answers = jax.jit(self._answers)
        """(policy, snapshots, seating, step u32[], asked [B, ...], controllers i8[B, P], episode u32[B], memory) ->
        i32[3 S + P, B] for `read`, memory"""
        self.deal = jax.jit(self._deal)
        """(seating, episode u32[B]) -> i8[B, P], the controllers of the game with this number in each lane"""
        self.cleared = jax.jit(cleared)
        """(memory [B, P, ...], bool[B]) -> memory, cleared where a game begins"""

    def _seating(self, key: jax.Array, rollout: jax.Array, pool: Any, lane_ids: jax.Array) -> Seating:
        odds = self.setup.seats.odds(pool, lane_ids)
        return Seating(update_keys(key, rollout)[0], deal_key(key), odds, lane_ids)

    def _answers(
        self,
        policy: Any,
        snapshots: Any,
        seating: Seating,
        step: jax.Array,
        asked: Asked,
        controllers: jax.Array,
        episode: jax.Array,
        memory: Memory,
    ) -> tuple[jax.Array, Memory]:
        if not self.setup.env.simultaneous:
            asked = jax.tree.map(lambda leaf: leaf[:, None], asked)  # S = 1
        controller = jnp.take_along_axis(controllers, asked.seat, axis=1)  # i8[B, S]
        keys = lane_keys(seating.play_key, step, seating.lane_ids)
        decision = decide(self.setup, policy, snapshots, asked, controller, memory, keys)
        memory = jax.vmap(remember)(memory, asked.seat, decision.memory)
        bits = (jax.lax.bitcast_convert_type(x, jnp.int32) for x in (decision.log_prob, decision.value))
        parts = [decision.action, *bits]  # one array crosses to the host
        if self.varied:
            parts.append(self._deal(seating, episode + 1).astype(jnp.int32))
        return jnp.concatenate(parts, axis=1).T, memory

    def _deal(self, seating: Seating, episode: jax.Array) -> jax.Array:
        of_lane = jax.vmap(functools.partial(jax.random.fold_in, seating.deal_key))(seating.lane_ids)
        return jax.vmap(self.setup.seats.deal)(jax.vmap(jax.random.fold_in)(of_lane, episode), seating.odds)

    def read(self, packed: jax.Array) -> BlockAnswer:
        """Waits for the packed decisions and unpacks them."""
        rows = np.asarray(packed)
        seats, numbers = self._seats_asked, rows.view(np.float32)
        return BlockAnswer(rows[:seats], numbers[seats : 2 * seats], numbers[2 * seats : 3 * seats], rows[3 * seats :])
