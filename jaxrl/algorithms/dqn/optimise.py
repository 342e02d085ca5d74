"""One optimizer step of DQN, the same for compiled games and for games on the host."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import Learner
from jaxrl.algorithms.dqn.loss import Transitions, dqn_loss, importance_weights, new_priority
from jaxrl.config.schema import DQNConfig, Schedule
from jaxrl.networks.base import Network
from jaxrl_envs.contract.env import select


@dataclasses.dataclass(frozen=True)
class CompleteDQN(DQNConfig):
    """The section and the numbers of Rainbow (https://arxiv.org/abs/1710.02298) that nobody gains by changing."""

    beta: Schedule = Schedule("linear", 0.4, 1.0)  # exponent of the importance weights: unbiased at the end
    priority_eps: float = 1e-3  # added to every absolute error: nobody's priority is 0
    max_grad_norm: float = 10.0
    adam_eps: float = 1.5e-4


@struct.dataclass
class DQNLearner(Learner):
    """What learns, with hyper-parameters as `Hyper`."""

    target: Any  # an older copy of the parameters
    opt_state: optax.OptState
    steps: jax.Array  # i32[], optimizer steps
    ready: jax.Array  # bool[], there is enough to learn from
    replay: Any  # `device_replay.ReplayMemory` or `host_replay.HostMemory`; None where somebody else holds it


class LearnSums(NamedTuple):
    """Sums over optimizer steps, f32[]."""

    loss: jax.Array
    td_error: jax.Array  # mean absolute error of each batch
    q: jax.Array  # mean value of the actions taken, of each batch
    grad_norm: jax.Array
    grad_norm_clipped: jax.Array
    steps: jax.Array


def no_sums() -> LearnSums:
    """Sums over nothing."""
    return LearnSums(*[jnp.float32(0.0)] * len(LearnSums._fields))


def optimise(
    network: Network, coefs: CompleteDQN, learner: DQNLearner, batch: Transitions, key: jax.Array
) -> tuple[DQNLearner, jax.Array, LearnSums]:
    """One step on one batch.

    Args:
      network: a Q network.
      coefs: the section with numbers and schedules as they are in this update.
      learner: what learns.
      batch: N transitions.
      key: a fast key; read by noisy layers only.

    Returns:
      The learner afterwards, the new priorities f32[N] of the transitions, and the metrics of this step.
    """
    count = batch.action.shape[0]
    keys = jax.random.split(key, (3, count)) if network.noisy else None
    beta: Any = coefs.beta
    weight = importance_weights(batch.priority, beta)
    (loss, parts), gradient = jax.value_and_grad(dqn_loss, has_aux=True)(
        learner.params, learner.target, batch, weight, network, keys
    )
    gradient, norms = optimizer.clip_by_global_norm(gradient, coefs.max_grad_norm)
    params, opt_state = optimizer.apply(
        learner.params, learner.opt_state, gradient, coefs.learning_rate, coefs.adam_eps
    )
    steps = learner.steps + 1
    target = select(steps % coefs.target_every == 0, params, learner.target)
    sums = LearnSums(
        loss=loss,
        td_error=jnp.mean(jnp.abs(parts.error)),
        q=jnp.mean(parts.q),
        grad_norm=norms.raw,
        grad_norm_clipped=norms.clipped,
        steps=jnp.float32(1.0),
    )
    priority = new_priority(parts.error, jnp.asarray(coefs.alpha), jnp.asarray(coefs.priority_eps))
    # A diverged step is found by its loss, in the trainer; no memory can hold a priority that is no number.
    priority = jnp.where(jnp.isfinite(priority), priority, 1.0)
    return learner.replace(params=params, target=target, opt_state=opt_state, steps=steps), priority, sums
