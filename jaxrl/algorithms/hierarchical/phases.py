"""Advantages and metrics per phase of a game (`Env.phases`), e.g. early tricks or the seventh round."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import across_devices
from jaxrl.algorithms.ppo.loss import Batch
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env

SAME = 1e-10  # variance of advantages relative to their mean square that counts as rounding error


class Scaled(NamedTuple):
    """Normalised advantages f32[...] and the factors f32[...] that scaled them."""

    advantage: jax.Array
    scale: jax.Array


def phases_of(env: Env, observation: Any, axes: int) -> dict[str, jax.Array]:
    """`Env.phase` of packed observations with `axes` leading axes, i32[...] by key."""
    phase = env.phase
    for _ in range(axes):
        phase = jax.vmap(phase)
    return phase(observation)


def normalised_within(advantage: jax.Array, weight: jax.Array, group: jax.Array, groups: int) -> Scaled:
    """Normalises advantages to zero mean and unit variance within every group, weighted, over all devices; to 0 in a
    group without variance, e.g. of a single decision.

    Args:
      advantage, weight: f32[...].
      group: i32[...], 0 .. groups - 1; a single group is the normalisation of PPO.
      groups: number of groups.
    """

    def sums(values: jax.Array) -> jax.Array:
        found = jax.ops.segment_sum((weight * values).ravel(), group.ravel(), num_segments=groups)
        return jnp.asarray(across_devices(found))

    count = jnp.maximum(sums(jnp.ones_like(weight)), 1.0)
    centred = advantage - (sums(advantage) / count)[group]
    variance = sums(jnp.square(centred)) / count
    different = variance > SAME * sums(jnp.square(advantage)) / count
    scale = jnp.where(different, jax.lax.rsqrt(variance + 1e-8), 0.0)[group]
    return Scaled(centred * scale, scale)


def combined(env: Env, found: dict[str, jax.Array]) -> tuple[jax.Array, int]:
    """Numbers the combinations of phases: i32[...], and the number of combinations."""
    sizes = [len(names) for names in env.phases.values()]
    number: jax.Array = jnp.int32(0)
    for key, size in zip(env.phases, sizes, strict=True):
        number = number * size + found[key]
    return number, math.prod(sizes)


def by_phase(env: Env, batch: Batch, found: dict[str, jax.Array]) -> Metrics:
    """Metrics per phase: share of the decisions, policy entropy (estimated as the mean of -log pi), mean return, and
    mean squared value error."""
    told: Metrics = {}
    error = jnp.square(batch.target - batch.value)
    everything = across_devices(jnp.sum(batch.weight))
    for key, names in env.phases.items():
        for number, name in enumerate(names):
            weight = batch.weight * (found[key] == number)
            parts = (weight, -weight * batch.log_prob, weight * batch.target, weight * error)
            count, entropy, returned, wrong = across_devices(tuple(jnp.sum(part) for part in parts))
            told |= {
                f"{key}/{name}/share": metrics.mean(count, everything),
                f"{key}/{name}/entropy": metrics.mean(entropy, count),
                f"{key}/{name}/return": metrics.mean(returned, count),
                f"{key}/{name}/value_error": metrics.mean(wrong, count),
            }
    return told
