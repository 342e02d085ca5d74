"""Contact of an arena's triangle with a point or a ray; elementwise, any number of both.

The contact normal of a ball is not the way from the nearest point to it (specification, part c, 6): a surface made of
triangles must feel like one, so it is the triangle's own normal, except at an edge that sticks out or has no neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.car_soccer.physics.collision.order import visits
from jaxrl_envs.car_soccer.physics.field.mesh import Mesh
from jaxrl_envs.car_soccer.physics.vector import Vec, where

ON_EDGE = 5.0  # uu from an edge within which a point counts as on it
CONVEX = 0.005  # uu by which the neighbour's far corner is below the triangle's plane, if the edge sticks out
INSIDE = -0.25  # uu^2, tolerance of "within the triangle", for rays and corners


@struct.dataclass
class Triangles:
    """Triangles in the order in which the reference comes upon them (`order.visits`).

    Attributes:
      corners: three vectors of f32[N]. normal: of f32[N], unit.
      sharp: i32[N], bit k is set if the edge from corner k to the next sticks out or has no neighbour in its mesh; bit
        3 + k in the latter case.
      mesh: i32[N], the number of the mesh. number: i32[N], of the triangle.
    """

    corners: tuple[Vec, Vec, Vec]
    normal: Vec
    sharp: jax.Array
    mesh: jax.Array
    number: jax.Array

    def at(self, index: jax.Array) -> Triangles:
        """Returns the triangles of these indices, which must be valid."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf).at[index].get(mode="promise_in_bounds"), self)

    def surrounds(self, point: Vec) -> jax.Array:
        """Returns whether a point of the triangle's plane is within it, but for `INSIDE`."""
        away = [corner - point for corner in self.corners]
        sides = [a.cross(b).dot(self.normal) >= INSIDE for a, b in zip(away, away[1:] + away[:1], strict=True)]
        return sides[0] & sides[1] & sides[2]


def table(meshes: Sequence[Mesh]) -> Triangles:
    """Returns all triangles of an arena, NumPy leaves; those without an area are left out."""
    corners, sharp = [], []
    for mesh in meshes:
        points, welded = np.unique(mesh.vertices.round(3) + 0.0, axis=0, return_inverse=True)
        indices = welded.reshape(-1)[mesh.triangles]
        edges = points[np.roll(indices, -1, axis=1)] - points[indices]
        indices = indices[np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) > 1e-3]
        visited = visits(points[indices])
        corners.append(points[indices][visited])
        sharp.append(_sharp_edges(points, indices)[visited])
    number = np.repeat(np.arange(len(corners)), [len(corner) for corner in corners])
    corner = np.concatenate(corners)
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    first, second, third = (_components(corner[:, k]) for k in range(3))
    bits = np.concatenate(sharp)
    integers: list[Any] = [array.astype(np.int32) for array in (bits, number, np.arange(len(bits)))]
    return Triangles((first, second, third), _components(normal), *integers)


def _components(array: np.ndarray) -> Vec:
    return Vec(*np.ascontiguousarray(array.T.astype(np.float32)))


def _sharp_edges(points: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """i64[N], as `Triangles.sharp`: of every edge it is asked which other triangle of the mesh has it."""
    users: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, triangle in enumerate(indices.tolist()):
        for k in range(3):
            a, b = triangle[k], triangle[(k + 1) % 3]
            users.setdefault((min(a, b), max(a, b)), []).append((number, triangle[(k + 2) % 3]))
    bits = np.full(len(indices), 0b111111)
    corner = points[indices]
    normals = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    for number, triangle in enumerate(indices.tolist()):
        for k in range(3):
            a, b = triangle[k], triangle[(k + 1) % 3]
            opposite = [far for other, far in users[min(a, b), max(a, b)] if other != number]
            bits[number] -= 0b1000 << k if opposite else 0
            if opposite and normals[number] @ (points[opposite[0]] - points[a]) >= -CONVEX:
                bits[number] -= 1 << k
    return bits


def touch(triangle: Triangles, centre: Vec) -> tuple[jax.Array, Vec, Vec]:
    """A ball round `centre` that touches a triangle: how far the triangle is from there, f32, the contact's normal, and
    the direction from the nearest point, both vectors.
    """
    normal = where((centre - triangle.corners[0]).dot(triangle.normal) < 0, -triangle.normal, triangle.normal)
    height = (centre - triangle.corners[0]).dot(normal)
    foot = centre - normal * height  # on the plane
    inside = jnp.ones(height.shape, bool)
    nearest = jnp.full(height.shape, jnp.inf)  # square of the distance from the foot to the nearest edge
    edge_point, sharp = foot, inside
    for k in range(3):
        start = triangle.corners[k]
        edge, arm = triangle.corners[(k + 1) % 3] - start, foot - start
        inside &= edge.cross(arm).dot(triangle.normal) >= 0
        point = start + edge * jnp.clip(arm.dot(edge) / edge.dot(edge), 0, 1)
        square = (foot - point).dot(foot - point)
        nearer = square < nearest
        nearest = jnp.where(nearer, square, nearest)
        edge_point = where(nearer, point, edge_point)
        sharp = jnp.where(nearer, (triangle.sharp >> k) & 1 > 0, sharp)
    distance = jnp.sqrt(height * height + jnp.where(inside, 0, nearest))
    away = where(distance > 0, (centre - where(inside, foot, edge_point)).unit(), normal)
    on_edge = ~inside | (nearest <= ON_EDGE**2)
    return distance, where(on_edge & sharp, away, normal), away


def hit(triangle: Triangles, origin: Vec, direction: Vec) -> tuple[jax.Array, Vec]:
    """Hit of a ray on a triangle, from either side: distance f32, inf if it misses, and the normal towards it."""
    slope = direction.dot(triangle.normal)
    height = (triangle.corners[0] - origin).dot(triangle.normal)
    distance = height / jnp.where(slope == 0, 1, slope)
    meets = (jnp.abs(slope) > 1e-9) & (distance >= 0) & triangle.surrounds(origin + direction * distance)
    return jnp.where(meets, distance, jnp.inf), where(slope < 0, triangle.normal, -triangle.normal)
