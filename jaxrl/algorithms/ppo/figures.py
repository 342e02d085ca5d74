"""The figures of a training in TensorBoard's names, whichever loop has played."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.ppo.loss import Batch
from jaxrl.algorithms.ppo.update import UpdateSums
from jaxrl.config.schema import PPOConfig
from jaxrl.training.rollout import RolloutSums


def of_play(played: RolloutSums) -> dict[str, jax.Array]:
    """Tags -> f32[]; means over games are NaN if no game ended."""
    found = {
        "rollout/ep_rew_mean": played.returns / played.seats,
        "rollout/ep_len_mean": played.length / played.games,
        "rollout/games": played.games,
        "rollout/illegal": played.illegal,
    }
    return found | {f"rollout/stat_{name}": stat / played.seats for name, stat in played.stats.items()}


def of_learning(
    learnt: UpdateSums, explained: jax.Array, state: Any, ppo: PPOConfig, count: int | jax.Array
) -> dict[str, jax.Array]:
    """Tags -> f32[].

    Args:
      learnt: sums over the minibatches of `count` updates.
      explained: f32[], sum of the explained variances of the updates.
      state: after the last of them; its `update` and `hyper` are read.
      ppo: the configuration.
      count: updates, at least 1.
    """
    steps = learnt.steps
    parts = jax.tree.map(lambda leaf: leaf / steps, learnt.parts)
    last, hyper = state.update - 1, state.hyper
    return {
        "train/loss": learnt.loss / steps,
        "train/policy_gradient_loss": parts.policy,
        "train/value_loss": parts.value,
        "train/entropy_loss": -parts.entropy,
        "train/approx_kl": parts.approx_kl,
        "train/clip_fraction": parts.clip_fraction,
        "train/explained_variance": explained / count,
        "train/learning_rate": hyper.learning_rate_at(last),
        "train/entropy_coef": hyper.entropy_coef_at(last),
        "train/temperature": hyper.temperature_at(last),
        "train/grad_norm": learnt.grad_norm / steps,
        "train/grad_norm_clipped": learnt.grad_norm_clipped / steps,
        "train/epochs_done": steps / (ppo.minibatches * count),
    }


def variance_sums(batch: Batch) -> tuple[jax.Array, ...]:
    """Weighted sums f32[] from which `explained_variance` is made."""
    weight, target, error = batch.weight, batch.target, batch.target - batch.value
    moments = (jnp.ones_like(weight), target, jnp.square(target), error, jnp.square(error))
    return tuple(jnp.sum(weight * moment) for moment in moments)


def explained_variance(sums: tuple[jax.Array, ...]) -> jax.Array:
    """f32[]: the share of the variance of the returns that the value function explains; 0 if they do not vary."""
    count, target, target2, error, error2 = sums
    count = jnp.maximum(count, 1.0)
    total = target2 / count - jnp.square(target / count)
    left = error2 / count - jnp.square(error / count)
    return jnp.where(total > 1e-8, 1.0 - left / jnp.maximum(total, 1e-8), 0.0)
