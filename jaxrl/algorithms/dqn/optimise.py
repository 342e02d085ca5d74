"""One optimizer step of DQN, shared by compiled and host games."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import Learner
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.host_replay import HostReplayBuffer
from jaxrl.algorithms.dqn.loss import Transitions, dqn_loss, importance_weights, new_priority
from jaxrl.networks.base import Network
from jaxrl_envs.contract.env import select

# Hyper-parameters of Rainbow (https://arxiv.org/abs/1710.02298) that need no tuning.
PRIORITY_EPS = 1e-3  # added to every absolute error, so that no priority is 0
MAX_GRAD_NORM = 10.0
ADAM_EPS = 1.5e-4


class DQNCoefs(NamedTuple):
    """Coefficients of one update: the numbers and schedules of the section `dqn`, f32[] each."""

    alpha: jax.Array
    epsilon: jax.Array
    learning_rate: jax.Array
    gamma: jax.Array
    beta: jax.Array  # exponent of the importance weights


@struct.dataclass
class DQNLearner(Learner):
    """The learner state of DQN, with hyper-parameters as `Hyper`."""

    target: Any  # parameters of the target network
    opt_state: optax.OptState
    steps: jax.Array  # u32[], optimizer steps so far: several in an update, so an i32 would overflow
    ready: jax.Array  # bool[], `dqn.learning_starts` is reached
    replay: Any  # `device_replay.ReplayBuffer` or `host_replay.HostReplayBuffer`; None while a `HostLearning` holds it

    def on_device(self) -> DQNLearner:
        return self.replace(replay=None) if isinstance(self.replay, HostReplayBuffer) else self


class LearnSums(NamedTuple):
    """Sums over optimizer steps, f32[]."""

    loss: jax.Array
    td_error: jax.Array  # mean absolute TD error of each batch
    q: jax.Array  # mean value of the actions taken, of each batch
    grad_norm: jax.Array
    grad_norm_clipped: jax.Array
    steps: jax.Array


def no_sums() -> LearnSums:
    """Returns zero sums, before the first step."""
    return LearnSums(*[jnp.float32(0.0)] * len(LearnSums._fields))


def optimise(
    network: Network, settings: DQNConfig, coefs: DQNCoefs, learner: DQNLearner, batch: Transitions, key: jax.Array
) -> tuple[DQNLearner, jax.Array, LearnSums]:
    """Takes one optimizer step on a batch. `key`: a fast key, for noisy layers. Returns the new learner, the new
    priorities f32[N] of the transitions, and the metrics of this step."""
    count = batch.action.shape[0]
    keys = jax.random.split(key, (3, count)) if network.noisy else None
    weight = importance_weights(batch.priority, coefs.beta)
    (loss, parts), gradient = jax.value_and_grad(dqn_loss, has_aux=True)(
        learner.params, learner.target, batch, weight, network, keys
    )
    norms = optimizer.gradient_norms(gradient, MAX_GRAD_NORM)
    rule = optimizer.make_optimizer("adam", coefs.learning_rate, MAX_GRAD_NORM, ADAM_EPS)
    params, opt_state = optimizer.apply(rule, learner.params, learner.opt_state, gradient)
    steps = learner.steps + 1
    target = select(steps % settings.target_every == 0, params, learner.target)
    sums = LearnSums(
        loss=loss,
        td_error=jnp.mean(jnp.abs(parts.error)),
        q=jnp.mean(parts.q),
        grad_norm=norms.raw,
        grad_norm_clipped=norms.clipped,
        steps=jnp.float32(1.0),
    )
    priority = new_priority(parts.error, coefs.alpha, jnp.float32(PRIORITY_EPS))
    # The training detects divergence by the loss; priorities in the buffer must be finite.
    priority = jnp.where(jnp.isfinite(priority), priority, 1.0)
    return learner.replace(params=params, target=target, opt_state=opt_state, steps=steps), priority, sums
