"""Advantages normalised within the phases of a game (`Env.phases`), e.g. early tricks or the seventh round."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import across_devices
from jaxrl_envs.contract.env import Env

SAME = 1e-10  # variance of advantages relative to their mean square that counts as rounding error


class Scaled(NamedTuple):
    """Normalised advantages f32[...] and the factors f32[...] that scaled them."""

    advantage: jax.Array
    scale: jax.Array


def normalised_within(advantage: jax.Array, weight: jax.Array, group: jax.Array, groups: int) -> Scaled:
    """Normalises advantages to zero mean and unit variance within every group, weighted, over all devices; to 0 in a
    group without variance, e.g. of a single decision.

    Args:
      advantage, weight: f32[...].
      group: i32[...], 0 .. groups - 1; a single group is the normalisation of PPO.
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
