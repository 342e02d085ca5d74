"""Running normalisation of features, for games whose observations are physical quantities of different scales.

Mean and variance of every feature are part of the parameters, so that snapshots and policy files normalise as in
training. They receive no gradient: the algorithm updates them with the learner's decisions of a rollout after learning
from it, so that acting and learning use the same statistics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

MOST = 1e7  # decisions counted exactly (float32 can); beyond, the statistics are exponential moving averages
STILL = 1e-8  # variances up to this are rounding error: the feature has been constant
REACH = 10.0  # normalised features are clipped to +- this, as in Stable-Baselines3's VecNormalize


class Statistics(NamedTuple):
    """Running mean and variance of F features."""

    decisions: jax.Array  # f32[], at most MOST
    mean: jax.Array  # f32[F]
    variance: jax.Array  # f32[F]


class Moments(NamedTuple):
    """Weighted sums over decisions of powers of (feature - centre); additive over devices."""

    decisions: jax.Array  # f32[]
    first: jax.Array  # f32[F]
    second: jax.Array  # f32[F]


Normaliser = Callable[[Any, Any, jax.Array, Callable[[Any], Any]], Any]
"""Type of `Network.normaliser`: (params, observations [T, ...], weights f32[T, ...], sum over all devices) -> params"""


def fresh(features: int) -> Statistics:
    """Returns initial statistics: normalisation is the identity, except for clipping."""
    return Statistics(jnp.float32(0.0), jnp.zeros(features, jnp.float32), jnp.ones(features, jnp.float32))


def normalised(statistics: Statistics, features: jax.Array) -> jax.Array:
    """Normalises features f32[F] to mean 0 and variance 1; a feature that has been constant keeps its scale."""
    chex.assert_equal_shape_suffix([features, statistics.mean, statistics.variance], 1)
    _, mean, variance = jax.lax.stop_gradient(statistics)
    scale = jnp.where(variance > STILL, jax.lax.rsqrt(variance + STILL), 1.0)
    return jnp.clip((features - mean) * scale, -REACH, REACH)


def moments_about(
    encode: Callable[[Any], jax.Array], observations: Any, weight: jax.Array, centre: jax.Array
) -> Moments:
    """Computes moments over the decisions of a rollout, step by step to bound the memory for expanded features.

    Args:
      encode: one packed observation -> features f32[F].
      observations: leaves [T, ...].
      weight: f32[T, ...], 0 = ignored.
      centre: f32[F].
    """
    for _ in range(weight.ndim - 1):
        encode = jax.vmap(encode)

    def add(total: Moments, now: tuple[Any, jax.Array]) -> tuple[Moments, None]:
        observation, weight = now
        away = encode(observation) - centre
        away, weight = away.reshape(-1, away.shape[-1]), weight.reshape(-1)
        # Elementwise products, because matrix products on accelerators are less precise than float32.
        sums = Moments(
            jnp.sum(weight),
            jnp.sum(weight[:, None] * away, axis=0),
            jnp.sum(weight[:, None] * jnp.square(away), axis=0),
        )
        return jax.tree.map(jnp.add, total, sums), None

    zero = jnp.zeros_like(centre)
    return jax.lax.scan(add, Moments(jnp.float32(0.0), zero, zero), (observations, weight))[0]


def absorbed(
    statistics: Statistics,
    encode: Callable[[Any], jax.Array],
    observations: Any,
    weight: jax.Array,
    total: Callable[[Any], Any],
) -> Statistics:
    """Updates the statistics with the decisions of a rollout (parallel variance, Chan et al. 1979).

    A second pass computes the variance of the rollout about its own mean: about a distant centre, the small variance of
    a feature would be lost in rounding error, or even become negative. `encode`, `observations`, `weight`: arguments as
    of `moments_about`; `total`: sums over all devices."""
    count, mean, variance = statistics
    about = functools.partial(moments_about, encode, observations, weight)
    decisions, first, _ = total(about(mean))
    some = jnp.maximum(decisions, 1.0)
    centre = mean + first / some
    _, first, second = total(about(centre))
    off = first / some  # residual rounding error of the mean
    theirs = jnp.maximum(second / some - jnp.square(off), 0.0)
    away = centre + off - mean
    share = decisions / jnp.maximum(count + decisions, 1.0)
    spread = (1.0 - share) * variance + share * theirs + share * (1.0 - share) * jnp.square(away)
    # Statistics of a feature that was constant so far (e.g. the position of a car that joins in a later stage), or of
    # no decisions at all, are replaced, not averaged. Without new decisions nothing changes.
    new = (count == 0.0) | ((variance <= STILL) & (theirs > STILL))
    variance = jnp.where(decisions > 0.0, jnp.where(new, theirs, spread), variance)
    mean = jnp.where(new & (decisions > 0.0), mean + away, mean + share * away)
    return Statistics(jnp.minimum(count + decisions, MOST), mean, variance)
