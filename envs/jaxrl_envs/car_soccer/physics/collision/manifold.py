"""Contact manifold: up to four points between two bodies, and the point that a fifth replaces (part c, 2).

The specification keeps such points from tick to tick. The reference does not: tick by tick its cars move as if every
manifold were empty at the start of each tick (docs/games/car_soccer_physics.md), so nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer.physics.vector import Vec

PER_PAIR = 4  # points that two bodies may have in common


@struct.dataclass
class Points:
    """Contact points of a tick, in the order in which they are added; leaves [N, K, B], N for each pair of bodies.

    Attributes:
      local: vectors, the point on the first body (a car), in its axes. anchor: the point on the second: in world
        coordinates if that is the arena, else in the other car's axes.
      normal: vectors, world axes, from the second body to the first.
      gap: f32, distance of the two points along the normal, uu; negative where the bodies overlap.
      live: bool, whether there is such a point.
    """

    local: Vec
    anchor: Vec
    normal: Vec
    gap: jax.Array
    live: jax.Array


def least_missed(old: Sequence[tuple[Vec, jax.Array]], new: Vec, depth: jax.Array) -> jax.Array:
    """i32: which of four points, each with its gap, a new one with the gap `depth` replaces, so that the others and the
    new one span the largest area; the deepest of all five stays.
    """
    deepest = jnp.full(depth.shape, -1)
    for index, (_, gap) in enumerate(old):
        deepest = jnp.where(gap < depth, index, deepest)
        depth = jnp.minimum(depth, gap)
    points = [point for point, _ in old]
    diagonals = [(1, 3, 2), (0, 3, 2), (0, 3, 1), (0, 2, 1)]  # of the four that remain
    choice, largest = jnp.zeros_like(deepest), jnp.zeros_like(depth)
    for index, (across, tip, tail) in enumerate(diagonals):
        area = (new - points[across]).cross(points[tip] - points[tail])
        square = jnp.where(deepest == index, 0, area.dot(area))
        choice = jnp.where(square > largest, index, choice)
        largest = jnp.maximum(largest, square)
    return choice
