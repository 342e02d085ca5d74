"""What sides earn, and who has won.

A game is won by a side (`Env.sides`: by default one seat each) whose return is above every other side's by more than
rounding, drawn if it equals the best of the others, and lost otherwise. Draws are not wins. Training, search and
evaluation all decide so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TIE = 1e-5  # returns are float32 sums of many rewards: nearer than this (absolute and relative), they are equal


def of_sides(values: Any, sides: Sequence[int]) -> Any:
    """What each side has earned: f32[..., P] by seat -> f32[..., n] by side, the mean over a side's seats.

    The mean and not the sum, so that sides of different sizes are measured alike and a side's figures stay on the scale
    of a seat's, which is what is learnt. Where every seat is a side of its own these are the values themselves.

    Args:
      values: a NumPy or JAX array, by seat in the last axis.
      sides: of the P seats, see `Env.sides`.
    """
    if max(sides) + 1 == len(sides):
        return values
    xp: Any = jnp if isinstance(values, jax.Array) else np
    each = [np.flatnonzero(np.asarray(sides) == side) for side in range(max(sides) + 1)]
    return xp.stack([values[..., seats].mean(axis=-1) for seats in each], axis=-1)


def compare(own: Any, other: Any) -> Any:
    """Who won: i8, 1 where `own` is above `other`, 0 where they are equal up to rounding, else -1.

    Args:
      own, other: returns, NumPy or JAX arrays (the result is of the same kind); -inf is a side that is not there.
    """
    xp: Any = jnp if isinstance(own, jax.Array) or isinstance(other, jax.Array) else np
    equal = xp.isclose(own, other, rtol=TIE, atol=TIE)
    return xp.where(equal, 0, xp.sign(own - other)).astype(xp.int8)
