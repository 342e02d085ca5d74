"""Returns of sides, and which side has won.

A game is won by a side (`Env.sides`: by default one seat each) whose return is above every other side's by more than
rounding, drawn if it equals the best of the others, and lost otherwise. Draws are not wins. A game in which winning
means something else, such as one with one loser, overrides `Env.outcome`, which is asked wherever wins count. Ratings
compare two sides: by their outcomes, or by their returns if both have lost (`ahead`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

TIE = 1e-5  # returns are float32 sums of many rewards: nearer than this (absolute and relative), they are equal


def of_sides(values: Any, sides: Sequence[int]) -> Any:
    """Averages values of seats over sides: f32[..., P] by seat -> f32[..., n] by side.

    The mean and not the sum, so that sides of different sizes are comparable and the values stay on the scale of a
    seat's return, which is what is learnt. If every seat is a side of its own, the values are returned unchanged.

    Args:
      values: a NumPy or JAX array, by seat in the last axis.
      sides: sides of the P seats, see `Env.sides`.
    """
    chex.assert_axis_dimension(values, -1, len(sides))
    if max(sides) + 1 == len(sides):
        return values
    xp: Any = jnp if isinstance(values, jax.Array) else np
    each = [np.flatnonzero(np.asarray(sides) == side) for side in range(max(sides) + 1)]
    return xp.stack([values[..., seats].mean(axis=-1) for seats in each], axis=-1)


def compare(own: Any, other: Any) -> Any:
    """Returns the winner of two: i8, 1 where `own` is above `other`, 0 where they are equal up to rounding, else -1.

    Args:
      own, other: returns, NumPy or JAX arrays (the result is of the same kind); -inf stands for an absent side.
    """
    xp: Any = jnp if isinstance(own, jax.Array) or isinstance(other, jax.Array) else np
    equal = xp.isclose(own, other, rtol=TIE, atol=TIE)
    return xp.where(equal, 0, xp.sign(own - other)).astype(xp.int8)


def outcome(returns: Any) -> Any:
    """Returns the results by side: i8[..., n], 1 for a side whose return is above every other side's, 0 where it equals
    the best of the others up to rounding, else -1.

    Args:
      returns: f32[..., n] by side, NumPy or JAX.
    """
    xp: Any = jnp if isinstance(returns, jax.Array) else np
    rivals = xp.where(np.eye(returns.shape[-1], dtype=bool), -xp.inf, returns[..., None, :])
    return compare(returns, functools.reduce(xp.maximum, [rivals[..., i] for i in range(returns.shape[-1])]))


def ahead(own_outcome: Any, other_outcome: Any, own: Any, other: Any) -> Any:
    """Compares two sides of a game for ratings: i8, 1 where the first has done better, 0 where they are equal, else -1.

    Args:
      own_outcome, other_outcome: i8, of `Env.outcome`; the better one is ahead.
      own, other: returns, which decide where both have lost; NumPy or JAX arrays.
    """
    xp: Any = jnp if isinstance(own, jax.Array) or isinstance(other, jax.Array) else np
    lost = (own_outcome < 0) & (other_outcome < 0)
    return xp.where(lost, compare(own, other), xp.sign(own_outcome - other_outcome)).astype(xp.int8)
