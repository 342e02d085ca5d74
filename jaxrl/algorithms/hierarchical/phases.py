"""Advantages and metrics by the phases of a game (`Env.phases`), such as early tricks, or the seventh round."""

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

SAME = 1e-10  # the variance of advantages, of their mean square, below which they are all the same but for rounding


class Scaled(NamedTuple):
    """Advantages f32[...] of mean 0, and what they were multiplied with, f32[...]."""

    advantage: jax.Array
    scale: jax.Array


def phases_of(env: Env, observation: Any, axes: int) -> dict[str, jax.Array]:
    """`Env.phase` of packed observations with `axes` leading axes, i32[...] by key."""
    phase = env.phase
    for _ in range(axes):
        phase = jax.vmap(phase)
    return phase(observation)


def normalised_within(advantage: jax.Array, weight: jax.Array, group: jax.Array, groups: int) -> Scaled:
    """Zero mean and unit variance of the weighted decisions of every group, over all devices; 0 in a group whose
    decisions are all the same, such as a single one: it says nothing of what is better.

    Args:
      advantage, weight: f32[...].
      group: i32[...], 0 .. groups - 1; groups of one number are what PPO does.
      groups: how many there are.
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
    """One number i32[...] for every combination of phases, and how many there are."""
    sizes = [len(names) for names in env.phases.values()]
    number: jax.Array = jnp.int32(0)
    for key, size in zip(env.phases, sizes, strict=True):
        number = number * size + found[key]
    return number, math.prod(sizes)


def by_phase(env: Env, batch: Batch, found: dict[str, jax.Array]) -> Metrics:
    """Of the decisions of every phase: their share, the entropy of the policy (the mean of -log pi, an estimate), the
    mean return, and the mean square of what the value is wrong by."""
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
