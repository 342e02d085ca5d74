"""A running normaliser of features, for games whose observations are physical quantities of any size.

Mean and variance of every feature are a part of the parameters, so that every player with these (a snapshot, a policy
file) sees what they have learnt to see. No gradient reaches them: an algorithm lets them `absorb` the learner's
decisions of a rollout after it has learnt from it, so that a rollout is learnt from exactly as it was played.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

MOST = 1e7  # decisions: from then on older ones fade, and a float32 counts exactly so far
STILL = 1e-8  # a variance up to this is rounding: the feature is a constant so far
REACH = 10.0  # normalised features are clipped to +- this, as in Stable-Baselines3's VecNormalize


class Statistics(NamedTuple):
    """What is known of F features."""

    decisions: jax.Array  # f32[], at most MOST
    mean: jax.Array  # f32[F]
    variance: jax.Array  # f32[F]


class Moments(NamedTuple):
    """Sums over decisions about some centre; add them up over devices."""

    decisions: jax.Array  # f32[]
    first: jax.Array  # f32[F]
    second: jax.Array  # f32[F]


Normaliser = Callable[[Any, Any, jax.Array, Callable[[Any], Any]], Any]
"""What `Network.normaliser` is: (params, observations [T, ...], weights f32[T, ...], sum over all devices) -> params"""


def fresh(features: int) -> Statistics:
    """Statistics that change nothing yet, but for the clip."""
    return Statistics(jnp.float32(0.0), jnp.zeros(features, jnp.float32), jnp.ones(features, jnp.float32))


def normalised(statistics: Statistics, features: jax.Array) -> jax.Array:
    """f32[F] -> f32[F] of mean 0 and variance 1; a feature that has never varied keeps its scale."""
    chex.assert_equal_shape_suffix([features, statistics.mean, statistics.variance], 1)
    _, mean, variance = jax.lax.stop_gradient(statistics)
    scale = jnp.where(variance > STILL, jax.lax.rsqrt(variance + STILL), 1.0)
    return jnp.clip((features - mean) * scale, -REACH, REACH)


def moments_about(
    encode: Callable[[Any], jax.Array], observations: Any, weight: jax.Array, centre: jax.Array
) -> Moments:
    """Sums over the decisions of a rollout, step by step: expanded features of all of it would not fit into memory.

    Args:
      encode: one packed observation -> features f32[F].
      observations: leaves [T, ...].
      weight: f32[T, ...], 0 = does not count.
      centre: f32[F].
    """
    for _ in range(weight.ndim - 1):
        encode = jax.vmap(encode)

    def add(total: Moments, now: tuple[Any, jax.Array]) -> tuple[Moments, None]:
        observation, weight = now
        away = encode(observation) - centre
        away, weight = away.reshape(-1, away.shape[-1]), weight.reshape(-1)
        # A column of products, not one matrix product: its precision on accelerators is not that of float32.
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
    """The statistics with the decisions of a rollout (Chan et al. 1979).

    Their variance is taken about their own mean, in a second pass: about any other centre, such as 0 at first, that of
    a feature which hardly varies far from it would drown in rounding, or even come out negative.

    Args:
      statistics: before.
      encode, observations, weight: see `moments_about`.
      total: sums over all devices.
    """
    count, mean, variance = statistics
    about = functools.partial(moments_about, encode, observations, weight)
    decisions, first, _ = total(about(mean))
    some = jnp.maximum(decisions, 1.0)
    centre = mean + first / some
    _, first, second = total(about(centre))
    off = first / some  # what rounding has left of it
    theirs = jnp.maximum(second / some - jnp.square(off), 0.0)
    away = centre + off - mean
    share = decisions / jnp.maximum(count + decisions, 1.0)
    spread = (1.0 - share) * variance + share * theirs + share * (1.0 - share) * jnp.square(away)
    # What has never varied, such as the place of a car that comes in a later stage, has nothing to say about a feature
    # that does; before the first decision the variance 1 is a placeholder. With no decisions now nothing changes.
    new = (count == 0.0) | ((variance <= STILL) & (theirs > STILL))
    variance = jnp.where(decisions > 0.0, jnp.where(new, theirs, spread), variance)
    mean = jnp.where(new & (decisions > 0.0), mean + away, mean + share * away)
    return Statistics(jnp.minimum(count + decisions, MOST), mean, variance)
