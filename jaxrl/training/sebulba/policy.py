"""What actors ask of the device: one call for each block of games and step, and one before each rollout."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs import prng
from jaxrl.algorithms.ppo.state import Hyper
from jaxrl.league.seats import Seats
from jaxrl.networks import distributions
from jaxrl.training import rollout
from jaxrl.training.rollout import Actor

DEALS = np.uint32(0xFFFFFFFF)  # folded into the key of the training for the seats; no update has this number


class Plan(NamedTuple):
    """What stays the same in all steps of a rollout, for one block of lanes; on the device."""

    play_key: jax.Array  # typed, of this rollout
    deal_key: jax.Array  # typed, of the whole training
    temperature: jax.Array  # f32[]
    odds: Any  # [B, ...], of `Seats.odds`
    lane_ids: jax.Array  # u32[B], global numbers


class Answer(NamedTuple):
    """A block's answers on the host; B lanes, P seats."""

    action: np.ndarray  # i32[B]
    log_prob: np.ndarray  # f32[B], of the learner's policy
    value: np.ndarray  # f32[B]
    following: np.ndarray  # i32[P, B], controllers of the next game; P = 0 if all seats are always the learner's


def update_keys(key: jax.Array, update: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys of one update: for playing its rollout, for shuffling it."""
    play_key, shuffle_key = jax.random.split(prng.from_key(jax.random.fold_in(key, update)))
    return play_key, shuffle_key


def deal_key(key: jax.Array) -> jax.Array:
    """The key of the seats, the same in all updates of a training."""
    return prng.from_key(jax.random.fold_in(key, DEALS))


def deal_seats(seats: Seats, key: jax.Array, lane_ids: jax.Array, episode: jax.Array, odds: Any) -> jax.Array:
    """i8[B, P]: who holds the seats of the game with this number (u32[B]) in each lane (u32[B])."""
    of_lane = jax.vmap(functools.partial(jax.random.fold_in, key))(lane_ids)
    return jax.vmap(seats.deal)(jax.vmap(jax.random.fold_in)(of_lane, episode), odds)


class Policy:
    """The compiled functions; B is the number of lanes of a block."""

    def __init__(self, actor: Actor):
        """Compiles at the first calls. `actor` holds the network and the seats; its game is not played."""
        self.actor = actor
        self.varied = actor.seats.varied
        self.plan = jax.jit(self._plan)
        """(key, hyper, update i32[], pool without snapshots, lane_ids u32[B]) -> Plan"""
        self.answers = jax.jit(self._answers)
        """(params, snapshots, plan, step u32[], observation f32[B, F], mask bool[B, A], seat i32[B],
        controllers i8[B, P], episode u32[B]) -> i32[3 + P, B] for `read`"""
        self.deal = jax.jit(self._deal)
        """(plan, episode u32[B]) -> i8[B, P], the controllers of the game with this number in each lane"""

    def _plan(self, key: jax.Array, hyper: Hyper, update: jax.Array, pool: Any, lane_ids: jax.Array) -> Plan:
        return Plan(
            play_key=update_keys(key, update)[0],
            deal_key=deal_key(key),
            temperature=hyper.temperature_at(update),
            odds=self.actor.seats.odds(pool, lane_ids),
            lane_ids=lane_ids,
        )

    def _answers(
        self,
        params: Any,
        snapshots: Any,
        plan: Plan,
        step: jax.Array,
        observation: jax.Array,
        mask: jax.Array,
        seat: jax.Array,
        controllers: jax.Array,
        episode: jax.Array,
    ) -> jax.Array:
        actor = self.actor
        observation, mask = observation[:, None], mask[:, None]  # S = 1
        logits, value = jax.vmap(actor.evaluate, in_axes=(None, 0, 0))(params, observation, mask)
        logits = drawn_from = distributions.temper(logits, plan.temperature)
        if snapshots is not None:
            theirs = rollout.snapshot_logits(actor, snapshots, plan.temperature, observation, mask)
            held_by = jnp.take_along_axis(controllers, seat[:, None], axis=1)  # i8[B, 1]
            drawn_from = jnp.where((held_by > len(actor.seats.bots))[..., None], theirs, logits)
        keys = rollout.lane_keys(plan.play_key, step, plan.lane_ids)
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (1,)))(keys)
        action = distributions.sample(drawn_from, uniform)
        log_prob = distributions.log_prob(logits, action)
        rows = [action, *(jax.lax.bitcast_convert_type(x, jnp.int32) for x in (log_prob, value))]
        packed = jnp.concatenate(rows, axis=1).T  # one array crosses to the host
        if self.varied:
            following = self._deal(plan, episode + 1).astype(jnp.int32)
            packed = jnp.concatenate([packed, following.T])
        return packed

    def _deal(self, plan: Plan, episode: jax.Array) -> jax.Array:
        return deal_seats(self.actor.seats, plan.deal_key, plan.lane_ids, episode, plan.odds)


def read(packed: jax.Array) -> Answer:
    """Waits for the answers and takes them apart."""
    rows = np.asarray(packed)
    return Answer(rows[0], rows[1].view(np.float32), rows[2].view(np.float32), rows[3:])


def host_numbers(seats: Any, names: tuple[str, ...], slots: int) -> np.ndarray:
    """i8[1 + M + K]: what the engine calls each controller of `jaxrl.league.seats`: -1 = asked, else a bot's number.

    Args:
      seats: with the bots of the configuration, M of them.
      names: of the game's bots.
      slots: K, snapshots in the pool.
    """
    return np.array([-1, *(names.index(bot) for bot in seats.bots), *[-1] * slots], np.int8)
