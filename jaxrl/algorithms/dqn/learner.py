"""One optimizer step of DQN, the same for compiled games and for games on the host."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envs.core import select
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.dqn.loss import Batch, dqn_loss, importance_weights, new_priority
from jaxrl.algorithms.dqn.state import DQNHyper, Learner
from jaxrl.networks.factory import Network


class LearnShape(NamedTuple):
    """What is fixed when the step is compiled."""

    target_every: int  # steps between copies to the target network


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


def learn(
    network: Network,
    shape: LearnShape,
    learner: Learner,
    batch: Batch,
    hyper: DQNHyper,
    number: jax.Array,
    key: jax.Array,
) -> tuple[Learner, jax.Array, LearnSums]:
    """One step on one batch.

    Args:
      network: a Q network.
      shape: what is static.
      learner: what learns.
      batch: N transitions.
      hyper: traced hyper-parameters.
      number: i32[], of this update (round), for the schedules.
      key: a fast key; read by noisy layers only.

    Returns:
      The learner afterwards, the new priorities f32[N] of the transitions, and the figures of this step.
    """
    count = batch.action.shape[0]
    keys = jax.random.split(key, (3, count)) if network.noisy else None
    weight = importance_weights(batch.priority, hyper.beta_at(number))
    (loss, parts), gradient = jax.value_and_grad(dqn_loss, has_aux=True)(
        learner.params, learner.target, batch, weight, network, keys
    )
    gradient, norms = optimizer.clip_by_global_norm(gradient, hyper.max_grad_norm)
    params, opt_state = optimizer.apply(
        learner.params, learner.opt_state, gradient, hyper.learning_rate_at(number), hyper.adam_eps
    )
    steps = learner.steps + 1
    target = select(steps % shape.target_every == 0, params, learner.target)
    sums = LearnSums(
        loss=loss,
        td_error=jnp.mean(jnp.abs(parts.error)),
        q=jnp.mean(parts.q),
        grad_norm=norms.raw,
        grad_norm_clipped=norms.clipped,
        steps=jnp.float32(1.0),
    )
    priority = new_priority(parts.error, hyper.alpha, hyper.priority_eps)
    # A diverged step is found by its loss, in the trainer; no memory can hold a priority that is no number.
    priority = jnp.where(jnp.isfinite(priority), priority, 1.0)
    return Learner(params, target, opt_state, steps), priority, sums


def learn_metrics(sums: LearnSums, hyper: DQNHyper, last: Any) -> dict[str, Any]:
    """TensorBoard tags of some updates, the last of which has the number `last` (i32[]); 0 where nothing was learnt."""
    steps = jnp.maximum(sums.steps, 1.0)
    return {
        "train/loss": sums.loss / steps,
        "train/td_error": sums.td_error / steps,
        "train/q_mean": sums.q / steps,
        "train/grad_norm": sums.grad_norm / steps,
        "train/grad_norm_clipped": sums.grad_norm_clipped / steps,
        "train/learning_rate": hyper.learning_rate_at(last),
        "train/beta": hyper.beta_at(last),
    }


def exploring(logits: jax.Array, mask: jax.Array, epsilon: jax.Array, uniform: jax.Array) -> jax.Array:
    """Epsilon-greedy actions i32[...]: the best legal one, or with probability `epsilon` any legal one.

    Args:
      logits: f32[..., A], masked action values.
      mask: bool[..., A].
      epsilon: f32[].
      uniform: f32[..., 2] in [0, 1).
    """
    # The place of a uniformly drawn legal action among the legal ones.
    count = jnp.sum(mask, axis=-1)
    place = jnp.minimum((uniform[..., 1] * count).astype(jnp.int32), count - 1)
    rank = jnp.cumsum(mask, axis=-1, dtype=jnp.int32) - 1
    anything = jnp.argmax(mask & (rank == place[..., None]), axis=-1)
    return jnp.where(uniform[..., 0] < epsilon, anything, jnp.argmax(logits, axis=-1)).astype(jnp.int32)
