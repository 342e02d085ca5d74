"""Vectors as three separate arrays, which XLA fuses as it does plain arithmetic: no matrix products, no gathers.

Every array of the physics has the arenas as its LAST axis, B; before it stand the axes of what there is one of per
arena: [B] for the ball, [P, B] for cars, [P, 4, B] for wheels. One arena is B = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class Vec:
    """A vector in world axes (or in a body's, where said so); `x`, `y`, `z` are f32 of one shape, or numbers."""

    x: Any
    y: Any
    z: Any

    def __add__(self, other: Vec) -> Vec:
        return Vec(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec) -> Vec:
        return Vec(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vec:
        return Vec(-self.x, -self.y, -self.z)

    def __mul__(self, factor: Any) -> Vec:
        """Multiplies every component by a scalar; `scaled` multiplies two vectors component by component."""
        return Vec(self.x * factor, self.y * factor, self.z * factor)

    __rmul__ = __mul__

    def scaled(self, other: Vec) -> Vec:
        """Component by component."""
        return Vec(self.x * other.x, self.y * other.y, self.z * other.z)

    def dot(self, other: Vec) -> jax.Array:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec) -> Vec:
        return Vec(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    @property
    def length(self) -> jax.Array:
        return jnp.sqrt(self.dot(self))

    def unit(self) -> Vec:
        """Returns the vector with length one; zero stays zero."""
        square = self.dot(self)
        return self * jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1)), 0)

    def at(self, index) -> Vec:
        """Returns the same index of every component."""
        return Vec(self.x[index], self.y[index], self.z[index])

    @property
    def array(self) -> jax.Array:
        """f32[..., 3], for observations and files."""
        return jnp.stack([self.x, self.y, self.z], axis=-1)


def vec(array: jax.Array | np.ndarray) -> Vec:
    """f32[..., 3] -> the vector."""
    return Vec(array[..., 0], array[..., 1], array[..., 2])


def where(condition: jax.Array, yes: Vec, no: Vec) -> Vec:
    """`jnp.where` of every component."""
    return Vec(jnp.where(condition, yes.x, no.x), jnp.where(condition, yes.y, no.y), jnp.where(condition, yes.z, no.z))


@struct.dataclass
class Axes:
    """Orientation of a body: its own axes in world coordinates, a rotation matrix by rows."""

    forward: Vec
    right: Vec
    up: Vec

    def to_world(self, local: Vec) -> Vec:
        return self.forward * local.x + self.right * local.y + self.up * local.z

    def to_local(self, world: Vec) -> Vec:
        return Vec(self.forward.dot(world), self.right.dot(world), self.up.dot(world))

    def at(self, index) -> Axes:
        """Returns the same index of every component."""
        return Axes(self.forward.at(index), self.right.at(index), self.up.at(index))

    @property
    def array(self) -> jax.Array:
        """f32[..., 3, 3], rows forward, right, up."""
        return jnp.stack([self.forward.array, self.right.array, self.up.array], axis=-2)


def axes(array: jax.Array | np.ndarray) -> Axes:
    """f32[..., 3, 3], rows forward, right, up -> the axes."""
    return Axes(vec(array[..., 0, :]), vec(array[..., 1, :]), vec(array[..., 2, :]))


def corner_along(direction: Vec, half: Sequence[float]) -> Vec:
    """Returns the corner of a box round the origin, with sides of twice `half`, that lies farthest in a direction."""
    parts = zip((direction.x, direction.y, direction.z), half, strict=True)
    return Vec(*(jnp.where(part >= 0, size, -size) for part, size in parts))
