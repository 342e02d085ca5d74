"""Metrics: logged numbers that carry how they add up, over updates, calls and devices.

    metrics = {"train/loss": mean(total, count), "rollout/games": total(games), "train/learning_rate": last(rate)}

A mean keeps its total and its weight apart, so that a line in the logs is the mean over everything it speaks of,
however unevenly that was spread over updates and calls. A metric without weight has no value: NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

MEAN, TOTAL, LAST = "mean", "total", "last"


@struct.dataclass
class Metric:
    """One number, or one for each seed: f32[] or f32[S], of the device or of the host."""

    amount: Any
    weight: Any
    kind: str = struct.field(pytree_node=False)

    @property
    def value(self) -> np.ndarray:
        """f64[] or f64[S], on the host; NaN where nothing was counted."""
        amount, weight = np.asarray(self.amount, np.float64), np.asarray(self.weight, np.float64)
        if self.kind == MEAN:
            return np.where(weight > 0.0, amount / np.where(weight > 0.0, weight, 1.0), np.nan)
        return amount

    def then(self, later: Metric) -> Metric:
        """Merges this metric with one of the same name that was taken later."""
        if self.kind == LAST:
            return later
        return Metric(self.amount + later.amount, self.weight + later.weight, self.kind)


Metrics = dict[str, Metric]


def mean(amount: Any, weight: Any = 1.0) -> Metric:
    """Returns a sum of values f32[] and how many they are (or their weights), f32[]."""
    return Metric(jnp.asarray(amount, jnp.float32), jnp.asarray(weight, jnp.float32), MEAN)


def total(amount: Any) -> Metric:
    """Returns a count: f32[] or an integer."""
    return Metric(jnp.asarray(amount, jnp.float32), jnp.float32(1.0), TOTAL)


def last(value: Any) -> Metric:
    """Returns a metric of which only the newest value counts: f32[]."""
    return Metric(jnp.asarray(value, jnp.float32), jnp.float32(1.0), LAST)


def measured(value: Any, weight: float = 1.0) -> Metric:
    """Returns the mean `value` of something that the host measured, with its weight."""
    return Metric(np.float64(value) * weight, np.float64(weight), MEAN)


def join(earlier: Mapping[str, Metric], later: Mapping[str, Metric]) -> Metrics:
    """Returns the metrics of two stretches, one after the other; one that is missing in either does not count there."""
    names = [*earlier, *(name for name in later if name not in earlier)]
    return {
        name: earlier[name].then(later[name])
        if name in earlier and name in later
        else (later if name in later else earlier)[name]
        for name in names
    }


def nothing(like: Mapping[str, Any]) -> Metrics:
    """Returns metrics of nothing, to begin a sum; `like` holds metrics of these shapes, or `eval_shape` of them."""
    return {name: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), metric) for name, metric in like.items()}


def values(metrics: Mapping[str, Metric]) -> dict[str, np.ndarray]:
    """Returns tag -> f64[] or f64[S], on the host."""
    return {name: metric.value for name, metric in metrics.items()}
