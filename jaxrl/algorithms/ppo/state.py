"""The whole state of a training as one pytree; saving and restoring it is resuming exactly."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from envs.core import State
from jaxrl.algorithms.schedule import Schedule, make_schedule, value_at
from jaxrl.config.schema import PPOConfig
from jaxrl.league.pool import PoolState


@struct.dataclass
class Counter:
    """A 64-bit count as two words: one int32 overflows at 2.1 billion steps (brax 578)."""

    hi: jax.Array  # u32[]
    lo: jax.Array  # u32[]

    @classmethod
    def zero(cls) -> Counter:
        """The count 0."""
        return cls(hi=jnp.uint32(0), lo=jnp.uint32(0))

    def add(self, amount: jax.Array | int) -> Counter:
        """The count plus `amount`, 0 <= amount < 2^32."""
        lo = self.lo + jnp.asarray(amount, jnp.uint32)
        return Counter(hi=self.hi + (lo < self.lo).astype(jnp.uint32), lo=lo)

    def __int__(self) -> int:
        """The count on the host."""
        return (int(self.hi) << 32) | int(self.lo)


ADAM_EPS = 1e-5  # as in the reference implementations of PPO; Adam's own 1e-8 makes the first steps wild


@struct.dataclass
class Hyper:
    """Hyper-parameters that may change without compiling anew, f32[] each."""

    learning_rate: Schedule
    entropy_coef: Schedule
    temperature: Schedule
    clip: jax.Array
    value_clip: jax.Array  # 0 = off
    value_coef: jax.Array
    gamma: jax.Array
    gae_lambda: jax.Array
    max_grad_norm: jax.Array
    target_kl: jax.Array  # 0 = off
    adam_eps: jax.Array
    total_updates: jax.Array  # the number of the last update + 1: schedules end with it
    first_update: jax.Array  # the number of the first update: schedules begin with it

    def learning_rate_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the learning rate of the update with this number (i32[])."""
        return value_at(self.learning_rate, self._progress(update))

    def entropy_coef_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the entropy coefficient of the update with this number (i32[])."""
        return value_at(self.entropy_coef, self._progress(update))

    def temperature_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the sampling temperature of the update with this number (i32[])."""
        return value_at(self.temperature, self._progress(update))

    def _progress(self, update: jax.Array) -> jax.Array:
        """f32[]: 0 at the first update, 1 at the last."""
        return (update - self.first_update) / jnp.maximum(self.total_updates - 1.0 - self.first_update, 1.0)


@struct.dataclass
class Lanes:
    """The games in progress, one lane each; every leaf has the leading axis B."""

    env_state: State
    controllers: jax.Array  # i8[B, P], who holds each seat in this game, see `jaxrl.league.seats`
    episode_return: jax.Array  # f32[B, P], so far in this game
    episode_length: jax.Array  # i32[B]


@struct.dataclass
class TrainState:
    """Everything a training is. With several seeds every leaf has a leading axis [S]."""

    params: Any
    opt_state: optax.OptState
    lanes: Lanes
    key: jax.Array  # a typed threefry key; update u draws from fold_in(key, u)
    hyper: Hyper
    update: jax.Array  # i32[], updates done
    env_steps: Counter
    games: Counter  # finished ones
    pool: PoolState | None = None  # opponents and ratings, with `league.opponents`


def make_hyper(ppo: PPOConfig, total_updates: int, first_update: int = 0) -> Hyper:
    """The traced hyper-parameters of a `PPOConfig` for the updates `first_update` .. `total_updates` - 1."""
    names = ("clip", "value_clip", "value_coef", "gamma", "gae_lambda", "max_grad_norm", "target_kl")
    rate, entropy, temperature = ppo.learning_rate, ppo.entropy_coef, ppo.temperature
    return Hyper(
        learning_rate=make_schedule(rate.kind, rate.start, rate.end, rate.until),
        entropy_coef=make_schedule(entropy.kind, entropy.start, entropy.end, entropy.until),
        temperature=make_schedule(temperature.kind, temperature.start, temperature.end, temperature.until),
        total_updates=jnp.float32(total_updates),
        first_update=jnp.float32(first_update),
        adam_eps=jnp.float32(ADAM_EPS),
        **{name: jnp.float32(getattr(ppo, name)) for name in names},
    )
