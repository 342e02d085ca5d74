"""A running normaliser of features, for games whose observations are physical quantities of any size.

Mean and variance of every feature are a part of the parameters, so that whoever plays with these (a snapshot, a policy
file) sees what they have learnt to see. No gradient reaches them: an algorithm lets them `absorb` the learner's
decisions of a rollout after it has learnt from it, so that a rollout is learnt from exactly as it was played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

MOST = 1e7  # decisions: from then on older ones fade, and a float32 counts exactly so far
REACH = 10.0  # normalised features are clipped to +- this, as in Stable-Baselines3's VecNormalize


class Statistics(NamedTuple):
    """What is known of F features."""

    decisions: jax.Array  # f32[], at most MOST
    mean: jax.Array  # f32[F]
    variance: jax.Array  # f32[F]


class Moments(NamedTuple):
    """Sums over decisions about the present mean; add them up over devices."""

    decisions: jax.Array  # f32[]
    first: jax.Array  # f32[F]
    second: jax.Array  # f32[F]


class Normaliser(NamedTuple):
    """What `Network.normaliser` is."""

    moments: Callable[[Any, Any, jax.Array], Moments]  # (params, observations [T, ...], weights f32[T, ...])
    absorb: Callable[[Any, Moments], Any]  # (params, moments) -> params


def fresh(features: int) -> Statistics:
    """Statistics that change nothing yet, but for the clip."""
    return Statistics(jnp.float32(0.0), jnp.zeros(features, jnp.float32), jnp.ones(features, jnp.float32))


def normalised(statistics: Statistics, features: jax.Array) -> jax.Array:
    """f32[F] -> f32[F] of mean 0 and variance 1."""
    _, mean, variance = jax.lax.stop_gradient(statistics)
    return jnp.clip((features - mean) * jax.lax.rsqrt(variance + 1e-8), -REACH, REACH)


def moments_of(
    statistics: Statistics, encode: Callable[[Any], jax.Array], observations: Any, weight: jax.Array
) -> Moments:
    """Sums over the decisions of a rollout, step by step: expanded features of all of it would not fit into memory.

    Args:
      statistics: with the present mean.
      encode: one packed observation -> features f32[F].
      observations: leaves [T, ...].
      weight: f32[T, ...], 0 = does not count.
    """
    axes = weight.ndim - 1
    for _ in range(axes):
        encode = jax.vmap(encode)

    def add(total: Moments, now: tuple[Any, jax.Array]) -> tuple[Moments, None]:
        observation, weight = now
        away = encode(observation) - statistics.mean
        away, weight = away.reshape(-1, away.shape[-1]), weight.reshape(-1)
        # A column of products, not one matrix product: its precision on accelerators is not that of float32.
        sums = Moments(
            jnp.sum(weight),
            jnp.sum(weight[:, None] * away, axis=0),
            jnp.sum(weight[:, None] * jnp.square(away), axis=0),
        )
        return jax.tree.map(jnp.add, total, sums), None

    zero = jnp.zeros_like(statistics.mean)
    return jax.lax.scan(add, Moments(jnp.float32(0.0), zero, zero), (observations, weight))[0]


def absorbed(statistics: Statistics, moments: Moments) -> Statistics:
    """The statistics with these decisions (Chan et al. 1979)."""
    count, mean, variance = statistics
    more = moments.decisions
    total = count + more
    share = more / jnp.maximum(total, 1.0)
    away = moments.first / jnp.maximum(more, 1.0)
    theirs = moments.second / jnp.maximum(more, 1.0) - jnp.square(away)
    spread = (1.0 - share) * variance + share * theirs + share * (1.0 - share) * jnp.square(away)
    # Without any decision yet the variance 1 is nobody's; with none now nothing changes.
    variance = jnp.where(more > 0.0, jnp.where(count > 0.0, spread, theirs), variance)
    return Statistics(jnp.minimum(total, MOST), mean + share * away, variance)
