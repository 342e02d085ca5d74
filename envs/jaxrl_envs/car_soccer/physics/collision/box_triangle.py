"""Contact of a car's box with one triangle of the arena, as the reference finds it (Bullet's GJK and EPA).

The box is an inner box, rounded by a margin. While the inner box is apart from the triangle, the contact is their
nearest pair of points, and its normal the way between them; once they overlap, it is the shortest way out. A normal
found at an edge with a neighbour becomes that of the triangle, so that a surface of triangles feels like one.
Everything is done in the box's axes; lanes are the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics.collision.triangles import ON_EDGE, Triangles
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec, corner_along, where

TOUCHING = 0.05  # uu: nearer than that, the inner box counts as overlapping
UNITS = (Vec(1.0, 0.0, 0.0), Vec(0.0, 1.0, 0.0), Vec(0.0, 0.0, 1.0))


def box_centre(position: Vec, axes: Axes, body: Hitbox) -> Vec:
    """Returns the centre of the box of a car at a position, in world coordinates."""
    return position + axes.to_world(Vec(*(jnp.float32(value) for value in body.offset)))


def may_touch(triangle: Triangles, position: Vec, axes: Axes, body: Hitbox) -> jax.Array:
    """Returns whether a triangle and a box are as near as the reference requires: their bounds in the world overlap,
    and neither the triangle's plane nor a face of the box has all of the other body beyond reach.
    """
    centre = box_centre(position, axes, body)
    near = jnp.ones(position.x.shape, bool)
    rows = [(axis.x, axis.y, axis.z) for axis in (axes.forward, axes.right, axes.up)]
    middle = (centre.x, centre.y, centre.z)
    for index, name in enumerate("xyz"):
        extent = sum(abs(row[index]) * half for row, half in zip(rows, body.half, strict=True))
        low, high = _bounds([getattr(corner, name) - middle[index] for corner in triangle.corners])
        near &= (low <= extent) & (high >= -extent)
    corners = [axes.to_local(corner - centre) for corner in triangle.corners]
    for name, half in zip("xyz", body.half, strict=True):
        low, high = _bounds([getattr(corner, name) for corner in corners])
        near &= (low <= half + body.reach) & (high >= -half - body.reach)
    normal = axes.to_local(triangle.normal)
    return near & (jnp.abs(corners[0].dot(normal)) <= _radius(normal, body.half) + body.reach)


def meet(triangle: Triangles, position: Vec, axes: Axes, body: Hitbox) -> tuple[Vec, Vec, jax.Array, Vec]:
    """Returns the contact of a triangle and a box that `may_touch`.

    Returns:
      the point on the car, in its axes; the normal, world, away from the triangle; the gap, uu, negative in an overlap;
      and the normal before it became that of the triangle.
    """
    centre = box_centre(position, axes, body)
    corners = [axes.to_local(corner - centre) for corner in triangle.corners]
    face = axes.to_local(triangle.normal)
    apart, near = _nearest(corners, face, body), _least_overlap(corners, face, body)
    distance = jnp.sqrt(apart.size)
    is_deep = distance < TOUCHING
    foot = where(is_deep, near.foot, apart.foot)
    normal = where(is_deep, near.way, apart.way * (1 / jnp.maximum(distance, TOUCHING)))
    gap = jnp.where(is_deep, -near.size, distance) - body.margin
    normal = normal * jnp.where(axes.to_world(normal).dot(centre - _middle(triangle)) < 0, -1, 1)
    point = foot + normal * gap + Vec(*(jnp.float32(value) for value in body.offset))
    return point, axes.to_world(_smoothed(triangle, corners, face, foot, normal)), gap, axes.to_world(normal)


class _Pair(NamedTuple):
    """A point of the triangle and how it lies to the box.

    Attributes:
      size: f32, square of the distance, or the overlap; of the inner box, both.
      foot: the point. way: from there to the box, as long as the distance; or the direction out of an overlap.
    """

    size: jax.Array
    foot: Vec
    way: Vec


def _pick(mask: jax.Array, new: _Pair, old: _Pair) -> _Pair:
    return jax.tree.map(lambda a, b: jnp.where(mask, a, b), new, old)


def _bounds(values: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    first, second, third = values
    return jnp.minimum(jnp.minimum(first, second), third), jnp.maximum(jnp.maximum(first, second), third)


def _middle(triangle: Triangles) -> Vec:
    """Of the box along the world's axes that just holds the triangle."""
    bounds = [_bounds([getattr(corner, name) for corner in triangle.corners]) for name in "xyz"]
    return Vec(*((low + high) * 0.5 for low, high in bounds))


def _radius(direction: Vec, half: Sequence[float]) -> jax.Array:
    """Returns the extent of a box from its centre in a direction, uu."""
    return jnp.abs(direction.x) * half[0] + jnp.abs(direction.y) * half[1] + jnp.abs(direction.z) * half[2]


def _clamped(point: Vec, half: Sequence[float]) -> Vec:
    parts = zip((point.x, point.y, point.z), half, strict=True)
    return Vec(*(jnp.clip(part, -size, size) for part, size in parts))


# ---- apart ----------------------------------------------------------------------------------------------------------


def _nearest(corners: Sequence[Vec], face: Vec, body: Hitbox) -> _Pair:
    """The nearest points of a triangle and the inner box: on an edge, or within it below a corner of the box."""
    half = body.inner
    height = -corners[0].dot(face)  # of the box's centre over the plane
    up = face * jnp.where(height < 0, -1.0, 1.0)
    corner = corner_along(-up, half)
    gap = (corner - corners[0]).dot(up)
    opposite = jnp.abs(height) * 2 - gap  # height of the opposite corner
    # below the corner, or where the box's diagonal pierces the plane
    foot = where(gap > 0, corner - up * gap, corner * (1 - 2 * gap / jnp.minimum(gap - opposite, -1e-3)))
    inside = jnp.ones(gap.shape, bool)
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        inside &= (end - start).cross(foot - start).dot(face) >= 0
    gap = jnp.maximum(gap, 0)
    best = _Pair(jnp.where(inside, gap * gap, jnp.inf), foot, up * gap)
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        pair = _on_edge(start, end - start, half)
        best = _pick(pair.size < best.size, pair, best)
    return best


def _on_edge(start: Vec, edge: Vec, half: Sequence[float]) -> _Pair:
    """The nearest points of an edge and the inner box. The square of the distance is convex along the edge, its slope
    made of straight pieces between the places where the edge crosses a plane of the box's faces.
    """

    def slope(time):
        point = start + edge * time
        return (point - _clamped(point, half)).dot(edge)

    low, high = (jnp.zeros_like(start.x), slope(0.0)), (jnp.ones_like(start.x), slope(1.0))
    for name, size in zip("xyz", half, strict=True):
        begin, speed = getattr(start, name), getattr(edge, name)
        inverse = jnp.where(jnp.abs(speed) > 1e-6, 1 / jnp.where(speed == 0, 1, speed), 0)
        for plane in (size, -size):
            time = jnp.clip((plane - begin) * inverse, 0, 1)
            steep = slope(time)
            later, earlier = (steep <= 0) & (time >= low[0]), (steep >= 0) & (time <= high[0])
            low = jnp.where(later, time, low[0]), jnp.where(later, steep, low[1])
            high = jnp.where(earlier, time, high[0]), jnp.where(earlier, steep, high[1])
    step = (high[0] - low[0]) * -low[1] / jnp.maximum(high[1] - low[1], 1e-9)
    time = jnp.where(low[1] >= 0, low[0], jnp.where(high[1] <= 0, high[0], low[0] + step))
    point = start + edge * time
    way = _clamped(point, half) - point
    return _Pair(way.dot(way), point, way)


# ---- overlapping ----------------------------------------------------------------------------------------------------


def _least_overlap(corners: Sequence[Vec], face: Vec, body: Hitbox) -> _Pair:
    """The shortest way on which the inner box leaves the triangle: along the normal of the triangle or of a face of the
    box, or across an edge of each.
    """
    half = body.inner
    height = -corners[0].dot(face)
    way = face * jnp.where(height < 0, -1.0, 1.0)
    overlap = _radius(face, half) - jnp.abs(height)
    best = _Pair(overlap, corner_along(-way, half) + way * overlap, way)
    for axis, unit in enumerate(UNITS):
        along = [(corner.x, corner.y, corner.z)[axis] for corner in corners]
        low, high = _bounds(along)
        for side, overlap in ((1.0, high + half[axis]), (-1.0, half[axis] - low)):
            end = high if side > 0 else low
            foot = where(along[0] == end, corners[0], where(along[1] == end, corners[1], corners[2]))
            way = Vec(*(jnp.full_like(overlap, part * side) for part in (unit.x, unit.y, unit.z)))
            best = _pick(overlap < best.size, _Pair(overlap, foot, way), best)
    for k, start in enumerate(corners):
        edge, other = corners[(k + 1) % 3] - start, corners[(k + 2) % 3]
        for axis, unit in enumerate(UNITS):
            pair = _across(start, edge, other, axis, unit, half)
            best = _pick(pair.size < best.size, pair, best)
    return best


def _across(start: Vec, edge: Vec, other: Vec, axis: int, unit: Vec, half: Sequence[float]) -> _Pair:
    """The way out across an edge of the triangle and one of the box along `axis`; `other` is the third corner."""
    cross = unit.cross(edge)
    square = cross.dot(cross)
    # away from the rest of the triangle: only so can the edge be the last of it
    cross = cross * (jnp.where(cross.dot(other - start) > 0, -1.0, 1.0) / jnp.sqrt(jnp.maximum(square, 1e-6)))
    overlap = jnp.where(square > 1e-3, start.dot(cross) + _radius(cross, half), jnp.inf)
    # the point of the edge whose counterpart lies on the edge of the box
    off_axis = Vec(*(1.0 - part for part in (unit.x, unit.y, unit.z)))
    reach = (corner_along(-cross, half) + cross * jnp.where(square > 1e-3, overlap, 0) - start).scaled(off_axis)
    time = reach.dot(edge) / jnp.maximum(edge.scaled(off_axis).dot(edge), 1e-3)
    return _Pair(overlap, start + edge * jnp.clip(time, 0, 1), cross)


# ---- edges ----------------------------------------------------------------------------------------------------------


def _smoothed(triangle: Triangles, corners: Sequence[Vec], face: Vec, foot: Vec, normal: Vec) -> Vec:
    """The normal, or the triangle's where the nearest edge that has a neighbour is near and does not stick out."""
    nearest, sharp = jnp.full(foot.x.shape, jnp.inf), jnp.ones(foot.x.shape, bool)
    for k, start in enumerate(corners):
        edge = corners[(k + 1) % 3] - start
        arm = foot - start
        arm = arm - edge * jnp.clip(arm.dot(edge) / edge.dot(edge), 0, 1)
        square = jnp.where((triangle.sharp >> (3 + k)) & 1 > 0, jnp.inf, arm.dot(arm))
        sharp = jnp.where(square < nearest, (triangle.sharp >> k) & 1 > 0, sharp)
        nearest = jnp.minimum(nearest, square)
    return where((nearest < ON_EDGE**2) & ~sharp & (face.dot(normal) >= 0), face, normal)
