"""The whole state of a training as one pytree; saving and restoring it is resuming exactly.

It has two parts: the *learner*, which is the algorithm's and the same on all devices, and the *lanes*, the games in
progress, which are spread over them; and what belongs to neither. With several seeds every leaf has a leading axis [S].
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.league.pool import PoolState
from jaxrl.networks.factory import is_statistics
from jaxrl_envs.contract.env import State
from jaxrl_envs.shared import prng

LARGEST = 1e6  # of a weight: products of a few larger ones leave the range of a float32
DEALS = 0xFFFFFFFF  # folded into the key of a training for the seats of games on the host; no update has this number


@struct.dataclass
class Counter:
    """A 64-bit count as two words: one int32 overflows at 2.1 billion steps (brax 578)."""

    hi: jax.Array  # u32[]
    lo: jax.Array  # u32[]

    @classmethod
    def zero(cls) -> Counter:
        """Returns the count 0."""
        return cls(hi=jnp.uint32(0), lo=jnp.uint32(0))

    def add(self, amount: jax.Array | int) -> Counter:
        """Returns the count plus `amount`, 0 <= amount < 2^32."""
        lo = self.lo + jnp.asarray(amount, jnp.uint32)
        return Counter(hi=self.hi + (lo < self.lo).astype(jnp.uint32), lo=lo)

    def __int__(self) -> int:
        """Returns the count on the host."""
        return (int(self.hi) << 32) | int(self.lo)


@struct.dataclass
class Lanes:
    """The games in progress of a compiled game, one lane each; every leaf has the leading axis B."""

    env_state: State
    controllers: jax.Array  # i8[B, P], who holds each seat in this game, see `jaxrl.league.seats`
    memory: Any  # [B, P, ...], of each seat's holder, if that is a network with a memory
    episode_return: jax.Array  # f32[B, P], so far in this game
    episode_length: jax.Array  # i32[B]


@struct.dataclass
class HostLanes:
    """The games in progress on the host, as they stand before the next rollout to be learnt from; leading axis B.
    Arrays of the host, but for the returns."""

    blobs: Any  # u8[B, S], the engine's own states, random streams included
    controllers: Any  # i8[B, P], who holds each seat of the running game, as in `jaxrl.league.seats`
    memory: Any  # [B, P, ...], as in `Lanes`
    episode: Any  # u32[B], games ended in this lane
    length: Any  # i32[B], decisions so far in this game, by all seats
    episode_return: Any  # f32[B, P], so far in this game


@struct.dataclass
class Acting:
    """Inputs of a rollout of a game on the host, after `version` updates."""

    policy: Any  # of the algorithm
    pool: PoolState | None  # with its snapshots and odds
    version: jax.Array  # i32[]


@struct.dataclass
class TrainState:
    """Everything a training is."""

    learner: Any  # `algorithms.base.Learner`
    lanes: Any  # `Lanes` or `HostLanes`
    key: jax.Array  # a typed threefry key; update u draws from fold_in(key, u)
    update: jax.Array  # i32[], updates done
    env_steps: Counter
    games: Counter  # finished ones
    pool: PoolState | None = None  # opponents and ratings, with `league.opponents`
    weights: Any = None  # f32[] by option and name, those of `run.vary`: see `Env.weighted`
    acting: tuple[Acting, ...] = ()  # with which the rollouts in flight are played, in the next `sebulba.lag` updates


@jax.jit
def is_sound(params: Any, largest: float = LARGEST) -> jax.Array:
    """Returns bool[]: all parameters are finite, and weights below `largest` besides."""

    def sound(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.all(jnp.isfinite(leaf) & (is_statistics(path) or jnp.abs(leaf) < largest))

    return jnp.all(jnp.array(jax.tree.leaves(jax.tree_util.tree_map_with_path(sound, params))))


def first_keys(seed: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Typed keys from the seed u32[] of a training: of the parameters, of the first games, of all that follows."""
    param_key, lane_key, key = jax.random.split(jax.random.key(seed), 3)
    return param_key, lane_key, key


def update_keys(key: jax.Array, update: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns fast keys of one update (i32[]): for playing its rollout, for learning from it."""
    play_key, learn_key = jax.random.split(prng.from_key(jax.random.fold_in(key, update)))
    return play_key, learn_key


def deal_key(key: jax.Array) -> jax.Array:
    """Returns the fast key of the seats of games on the host, the same in all updates."""
    return prng.from_key(jax.random.fold_in(key, jnp.uint32(DEALS)))


def lane_keys(key: jax.Array, step: jax.Array, lane_ids: jax.Array) -> jax.Array:
    """Keys [B] by *global* lane number: what a lane draws does not depend on how lanes are spread over devices."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, step), lane_ids)
