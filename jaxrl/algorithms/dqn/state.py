"""The whole state of a DQN training as one pytree; saving and restoring it is resuming exactly."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms.ppo.state import Counter
from jaxrl.algorithms.schedule import Schedule, make_schedule, value_at
from jaxrl.config.schema import DQNConfig
from jaxrl.league.pool import PoolState

# As in Rainbow (https://arxiv.org/abs/1710.02298), where nobody has found much to gain by others:
BETA = (0.4, 1.0)  # exponent of the importance weights at the first update and at the last: unbiased at the end
PRIORITY_EPS = 1e-3  # added to every absolute error: nobody's priority is 0
MAX_GRAD_NORM = 10.0
ADAM_EPS = 1.5e-4
STORAGE = "float16"  # of stored float observations: half the memory, and their values are small


@struct.dataclass
class DQNHyper:
    """Hyper-parameters that may change without compiling anew, f32[] each."""

    learning_rate: Schedule
    beta: Schedule
    epsilon: Schedule
    alpha: jax.Array
    priority_eps: jax.Array
    gamma: jax.Array
    max_grad_norm: jax.Array
    adam_eps: jax.Array
    last_update: jax.Array  # the number of the last update: schedules end with it

    def learning_rate_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the learning rate of the update with this number (i32[])."""
        return value_at(self.learning_rate, update / self.last_update)

    def beta_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the exponent of the importance weights in the update with this number (i32[])."""
        return value_at(self.beta, update / self.last_update)

    def epsilon_at(self, update: jax.Array) -> jax.Array:
        """f32[]: the share of random actions in the update with this number (i32[])."""
        return value_at(self.epsilon, update / self.last_update)


@struct.dataclass
class Learner:
    """What learns."""

    params: Any
    target: Any  # an older copy of the parameters
    opt_state: optax.OptState
    steps: jax.Array  # i32[], optimizer steps


@struct.dataclass
class DQNState:
    """Everything a training is. With several seeds every leaf has a leading axis [S].

    The types of `lanes` and `memory` are those of the program: arrays on the device, or on the host.
    """

    params: Any
    target: Any
    opt_state: optax.OptState
    optimizer_steps: jax.Array  # i32[]
    lanes: Any  # the games in progress
    memory: Any  # the replay memory; None if it is not saved
    key: jax.Array  # a typed threefry key; update u draws from fold_in(key, u)
    hyper: DQNHyper
    update: jax.Array  # i32[], updates done: rounds of playing and learning
    env_steps: Counter
    games: Counter  # finished ones
    pool: PoolState | None = None  # opponents and ratings, with `league.opponents`

    @property
    def learner(self) -> Learner:
        """The part that learns."""
        return Learner(self.params, self.target, self.opt_state, self.optimizer_steps)

    def with_learner(self, learner: Learner) -> DQNState:
        """The state with another one."""
        return self.replace(
            params=learner.params,
            target=learner.target,
            opt_state=learner.opt_state,
            optimizer_steps=learner.steps,
        )


def make_dqn_hyper(dqn: DQNConfig, total_updates: int) -> DQNHyper:
    """The traced hyper-parameters of a `DQNConfig` for the updates 0 .. `total_updates` - 1."""
    rate, epsilon, nothing = dqn.learning_rate, dqn.epsilon, make_schedule("constant", 0.0, 0.0)
    return DQNHyper(
        learning_rate=make_schedule(rate.kind, rate.start, rate.end, rate.until),
        beta=make_schedule("linear", *BETA) if dqn.alpha else nothing,
        epsilon=nothing
        if dqn.exploration == "noisy"
        else make_schedule(epsilon.kind, epsilon.start, epsilon.end, epsilon.until),
        alpha=jnp.float32(dqn.alpha),  # 0: all priorities are 1
        priority_eps=jnp.float32(PRIORITY_EPS),
        gamma=jnp.float32(dqn.gamma),
        max_grad_norm=jnp.float32(MAX_GRAD_NORM),
        adam_eps=jnp.float32(ADAM_EPS),
        last_update=jnp.float32(max(total_updates - 1, 1)),
    )
