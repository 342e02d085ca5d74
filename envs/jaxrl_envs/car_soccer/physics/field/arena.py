"""The static arena: planes and triangles, and their contacts with rays, the ball and cars (parts b, 3, 9 and c, 2).

Arenas are the last axis of every array (see `vector`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer.physics.collision import box_triangle, triangles
from jaxrl_envs.car_soccer.physics.collision.manifold import PER_PAIR, Points, least_missed
from jaxrl_envs.car_soccer.physics.collision.triangles import Triangles
from jaxrl_envs.car_soccer.physics.field import grid, mesh
from jaxrl_envs.car_soccer.physics.field.grid import Grid
from jaxrl_envs.car_soccer.physics.field.mesh import GOAL_HEIGHT, GOAL_WIDTH, Mesh, X, Y, Z
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec, where

CANDIDATES = 16  # triangles that are looked at closely for a car
FEW = 32  # cars that touch triangles are processed in chunks of this size

BODY_REACH, RAY_REACH = 95.0, 27.0  # uu: ball and hitboxes with their thresholds; half of the longest wheel ray
BROAD = 0.5  # uu, tolerance of the tests of planes that pick triangles
DEEPEST = -25.0  # uu: what is further behind a triangle is not in contact with it
LOST = -200.0  # uu: so far behind a facet a corner is brought back where the arena is convex
MOUTH = (GOAL_WIDTH + 100, Y - 200, GOAL_HEIGHT + 100)  # |x|, |y|, z around the mouth of a goal, where it is not


@dataclasses.dataclass(frozen=True, eq=False)
class Geometry:
    """An arena. Two are the same only if they are the same object: a static argument of compiled functions.

    Attributes:
      triangles: all of them. bodies, rays: which of them are near a body, near the middle of a wheel's ray.
    """

    triangles: Triangles
    bodies: Grid
    rays: Grid


def _geometry(meshes: Sequence[Mesh]) -> Geometry:
    table = triangles.table(meshes)
    return Geometry(table, grid.build(table, BODY_REACH), grid.build(table, RAY_REACH))


@functools.cache
def own() -> Geometry:
    """Our own arena."""
    return _geometry([mesh.own()])


@functools.cache
def of_folder(folder: str) -> Geometry:
    """Returns the arena of a user's folder of collision meshes.

    Raises:
      UserError: see `mesh.read_folder`.
    """
    return _geometry(mesh.read_folder(folder))


def _facing_planes(place: Vec) -> tuple[tuple[Vec, jax.Array | float], ...]:
    """Of floor and ceiling and of the side walls the nearer one: normal and offset, a point's height above it is
    normal * point + offset.
    """
    none = jnp.zeros_like(place.x)
    is_low = place.z < Z / 2
    level = Vec(none, none, jnp.where(is_low, 1.0, -1.0)), jnp.where(is_low, 0, Z)
    return level, (Vec(jnp.where(place.x < 0, 1.0, -1.0), none, none), X)


def rays(geometry: Geometry | None, origin: Vec, direction: Vec, length: jax.Array) -> tuple[jax.Array, Vec]:
    """Returns first hits of rays on planes and triangles.

    Args:
      geometry: the arena, None for empty space.
      origin, direction: vectors of f32[..., B], the direction with length one.
      length: f32, may have fewer axes, or of one; at most 2 * RAY_REACH.

    Returns:
      distance: f32[..., B], inf if there is nothing; normal: vectors of f32[..., B], against the ray.
    """
    shape = origin.x.shape
    if geometry is None:
        return jnp.full(shape, jnp.inf), Vec(*(jnp.zeros(shape) for _ in range(3)))
    length = jnp.broadcast_to(jnp.asarray(length, jnp.float32), shape)
    distance, normal = _ray_triangles(geometry, origin, direction, length)
    for plane, offset in _facing_planes(origin):
        slope, height = -direction.dot(plane), origin.dot(plane) + offset
        there = height / jnp.where(slope > 1e-9, slope, 1)
        meets = (slope > 1e-9) & (height >= 0) & (there <= length) & (there <= distance)
        distance = jnp.where(meets, there, distance)
        normal = where(meets, plane, normal)
    return distance, normal


def _ray_triangles(geometry: Geometry, origin: Vec, direction: Vec, length: jax.Array) -> tuple[jax.Array, Vec]:
    """As `rays`, of triangles; the rays of a car, the axis before the last one, are looked up together."""
    shape = length.shape
    one_car = shape[-2:-1]
    lanes = jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf.reshape(-1, *one_car, shape[-1]), 0, -2).reshape(*one_car, -1),
        (origin, direction, length),
    )

    def nothing(number):
        none = jnp.zeros((*one_car, number))
        return jnp.full((*one_car, number), jnp.inf), Vec(none, none, none)

    def crosses(normal, offset, lane):
        origin, direction, length = lane
        ends = [origin.dot(normal) + offset, (origin + direction * length).dot(normal) + offset]
        return (jnp.minimum(*ends) < BROAD) & (jnp.maximum(*ends) > -BROAD)

    def nearer(found, triangle, lane, is_listed):
        origin, direction, length = lane
        distance, normal = triangles.hit(triangle, origin, direction)
        better = is_listed & (distance <= length) & (distance < found[0])
        return jnp.where(better, distance, found[0]), where(better, normal, found[1])

    start = geometry.rays.find(lanes[0] + lanes[1] * (lanes[2] / 2))
    found = grid.near(geometry.rays, geometry.triangles, start, lanes, nothing, crosses, nearer)
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*one_car, -1, shape[-1]), -2, 0).reshape(shape), found)


@struct.dataclass
class BallContacts:
    """Contacts of a ball.

    Attributes:
      count: f32[B], surfaces. normal: vector of f32[B], mean of their normals, not of length one.
      row_normals: vectors of f32[N, B]; row_gaps: f32[N, B], negative where the ball is inside; row_live: bool[N, B]:
        the surfaces one by one, which push the ball out.
    """

    count: jax.Array
    normal: Vec
    row_normals: Vec
    row_gaps: jax.Array
    row_live: jax.Array


class _Contact(NamedTuple):
    """A ball or a car and a triangle. arm: the way from there to the ball, of length one, or the point on the car.
    normal: of length one; gap: f32[n], inf without a contact.
    """

    arm: Vec
    normal: Vec
    gap: jax.Array


@struct.dataclass
class _Found:
    """Contacts, at most four, with the mesh whose triangles are being visited, its number i32[n], and with the first of
    the meshes before it; count f32[n] and sum of the normals of all meshes before it.
    """

    mesh: jax.Array
    kept: tuple[_Contact, ...]
    first: tuple[_Contact, ...]
    count: jax.Array
    total: Vec


def ball_contacts(geometry: Geometry | None, position: Vec, radius: float, threshold: float) -> BallContacts:
    """Contacts of a ball with the arena: planes and every triangle, both halves of a quadrangle too, but of each mesh
    only four, those that the reference's rule leaves of the triangles in the order in which it visits them.

    Args:
      geometry: the arena, None for empty space.
      position: vector of f32[B].
      radius: uu. threshold: how far from it a surface may be, uu; radius + threshold is at most BODY_REACH.
    """
    reach = radius + threshold
    several = geometry is not None and bool(geometry.triangles.mesh[-1] > 0)

    def touching(found: _Found, triangle: Triangles, centre: Vec, is_listed: jax.Array) -> _Found:
        distance, normal, arm = triangles.touch(triangle, centre)
        touches = is_listed & (distance < reach)
        found = _next_mesh(found, touches, triangle.mesh) if several else found
        return found.replace(kept=_keep(found.kept, touches, _Contact(arm, normal, distance - radius)))

    def summed(found: _Found) -> tuple[jax.Array, Vec, Vec, jax.Array]:
        kept = found.kept + found.first if several else found.kept
        rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *kept)
        found = _laid_aside(found)
        return found.count, found.total, rows.normal, rows.gap

    if geometry is None:
        count, total, normals, gaps = summed(_nothing(position.x.shape[0]))
    else:
        start = geometry.bodies.find(position)
        count, total, normals, gaps = grid.near(
            geometry.bodies, geometry.triangles, start, position, _nothing, None, touching, summed
        )
    for normal, offset in () if geometry is None else _facing_planes(position):
        height = normal.dot(position) + offset
        touches = height < reach
        count, total = count + touches, total + normal * touches
        normals = jax.tree.map(lambda rows, row: jnp.concatenate([rows, row[None]]), normals, normal)
        gaps = jnp.concatenate([gaps, jnp.where(touches, height - radius, jnp.inf)[None]])
    return BallContacts(count, total * (1 / jnp.maximum(count, 1)), normals, gaps, gaps < jnp.inf)


def _nothing(number: int) -> _Found:
    none = jnp.zeros(number)
    zero = Vec(none, none, none)
    kept = (_Contact(zero, zero, jnp.full(number, jnp.inf)),) * PER_PAIR
    return _Found(jnp.zeros(number, jnp.int32), kept, kept, none, zero)


def _keep(kept: tuple[_Contact, ...], touches: jax.Array, new: _Contact) -> tuple[_Contact, ...]:
    """Returns one contact more; if there are four, it takes the place of one of them."""
    count = sum((contact.gap < jnp.inf).astype(jnp.int32) for contact in kept)
    worst = least_missed([(contact.arm, contact.gap) for contact in kept], new.arm, new.gap)
    slot = jnp.where(touches, jnp.where(count < PER_PAIR, count, worst), -1)
    return tuple(
        jax.tree.map(lambda new, old, here=slot == index: jnp.where(here, new, old), new, contact)
        for index, contact in enumerate(kept)
    )


def _laid_aside(found: _Found) -> _Found:
    """With the contacts of the mesh at hand in the count and the sum."""
    count, total = found.count, found.total
    for contact in found.kept:
        count, total = count + (contact.gap < jnp.inf), total + contact.normal * (contact.gap < jnp.inf)
    return found.replace(count=count, total=total)


def _next_mesh(found: _Found, touches: jax.Array, mesh: jax.Array) -> _Found:
    """Lays the contacts aside where the next one is with another mesh."""
    changes = touches & (mesh != found.mesh)
    aside = _laid_aside(found).replace(
        mesh=mesh,
        kept=_nothing(mesh.shape[0]).kept,
        first=jax.tree.map(lambda new, old: jnp.where(found.count == 0, new, old), found.kept, found.first),
    )
    return jax.tree.map(lambda new, old: jnp.where(changes, new, old), aside, found)


# ---- cars -----------------------------------------------------------------------------------------------------------


def chassis_contacts(geometry: Geometry | None, position: Vec, axes: Axes, body: Hitbox) -> tuple[Points, Vec]:
    """Contacts of car bodies with the arena: of a plane the deepest corner of the box, of triangles see `meet`.

    Args:
      geometry: the arena, None for empty space.
      position, axes: pose of the cars, leaves [P, B].

    Returns:
      points with leaves [N, P, B]: on the plane that is overlapped most, then on triangles, as they are solved. And the
      normal of the last one that was found, [P, B]: the reference finds planes last.
    """
    found = _over_planes(geometry, position, axes, body)
    is_level, felt = found.gap < body.reach, found.normal
    found = jax.tree.map(lambda leaf: leaf[None], found)
    if geometry is not None:
        kept, last = _over_triangles(geometry, position, axes, body)
        found = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), found, kept)
        felt = where(is_level, felt, last)
    position, axes = jax.tree.map(lambda leaf: leaf[None], (position, axes))
    live = found.gap < body.reach
    anchor = position + axes.to_world(found.arm) - found.normal * jnp.where(live, found.gap, 0)
    return Points(local=found.arm, anchor=anchor, normal=found.normal, gap=found.gap, live=live), felt


def _lowest_corner(axes: Axes, body: Hitbox, normal: Vec) -> Vec:
    """Returns the corner of a car's box, in its axes, that is deepest below a surface."""
    down = axes.to_local(-normal)
    parts = zip((down.x, down.y, down.z), body.half, body.offset, strict=True)
    return Vec(*(offset + jnp.where(part >= -1e-7, half, -half) for part, half, offset in parts))


def _over_planes(geometry: Geometry | None, position: Vec, axes: Axes, body: Hitbox) -> _Contact:
    """Returns the deepest of the corners over the planes, its gap inf in empty space."""
    found = []
    for normal, offset in _facing_planes(position):
        corner = _lowest_corner(axes, body, normal)
        gap = normal.dot(position + axes.to_world(corner)) + offset
        found.append(_Contact(corner, normal, gap if geometry else jnp.full_like(gap, jnp.inf)))
    level, side = found
    is_lower = side.gap < level.gap
    return jax.tree.map(lambda new, old: jnp.where(is_lower, new, old), side, level)


def _is_convex(triangle: Triangles, centre: Vec) -> jax.Array:
    """Returns whether all of the arena around a car lies before this triangle's plane, so that behind it is outside.

    This holds in the field away from the mouths of the goals, and behind a mouth for the triangles of the goal. The
    reference has no such rule: there too, a car that others press through a corner is lost.
    """
    x, y = jnp.abs(centre.x), jnp.abs(centre.y)
    away = (x > MOUTH[0]) | (y < MOUTH[1]) | (centre.z > MOUTH[2])
    of_goal = functools.reduce(jnp.maximum, [jnp.abs(corner.y) for corner in triangle.corners]) > Y + 10
    return jnp.where(of_goal, y > Y + 100, away)


def _is_lost(triangle: Triangles, position: Vec, axes: Axes, body: Hitbox) -> tuple[jax.Array, _Contact]:
    """Returns whether the deepest corner is too far behind a facet to be left there, and the contact for that."""
    corner = _lowest_corner(axes, body, triangle.normal)
    gap = (position + axes.to_world(corner) - triangle.corners[0]).dot(triangle.normal)
    is_lost = (gap <= DEEPEST) & (gap > LOST) & _is_convex(triangle, box_triangle.box_centre(position, axes, body))
    return is_lost, _Contact(corner, triangle.normal, gap)


def _over_triangles(geometry: Geometry, position: Vec, axes: Axes, body: Hitbox) -> tuple[_Contact, Vec]:
    """As `chassis_contacts`, with triangles: at most four, those that the reference's rule leaves, leaves [4, P, B]."""
    shape, table = position.x.shape, geometry.triangles
    position, axes = jax.tree.map(jnp.ravel, (position, axes))

    def nothing(number):
        return jnp.zeros(number), [jnp.zeros(number)] * CANDIDATES

    def low_enough(normal, offset, car):
        place, turn = car
        height = box_triangle.box_centre(place, turn, body).dot(normal) + offset
        sides = zip((turn.forward, turn.right, turn.up), body.half, strict=True)
        return height - sum(jnp.abs(side.dot(normal)) * half for side, half in sides) < body.reach + BROAD

    def listed(found, triangle, car, is_listed):
        (place, turn), (count, items) = car, found
        is_lost, _ = _is_lost(triangle, place, turn, body)
        passes = is_listed & (box_triangle.may_touch(triangle, place, turn, body) | is_lost)
        slot = jnp.where(passes, count, -1)
        items = [jnp.where(slot == index, triangle.number, item) for index, item in enumerate(items)]
        return jnp.where(passes, count + 1, count), items

    def none(number):
        found = _nothing(number)
        return found.kept, found.total

    def collide(lanes):
        (count, items), (place, turn) = lanes

        def one(k, found):
            kept, last = found
            triangle = table.at(jnp.stack(items)[k].astype(jnp.int32))
            is_lost, back = _is_lost(triangle, place, turn, body)
            point, smooth, gap, normal = box_triangle.meet(triangle, place, turn, body)
            new = jax.tree.map(lambda a, b: jnp.where(is_lost, a, b), back, _Contact(point, smooth, gap))
            touches = (k < count) & (new.gap < body.reach)
            return _keep(kept, touches, new), where(touches, normal, last)

        limit = jnp.minimum(count.max(), CANDIDATES).astype(jnp.int32)
        return jax.lax.fori_loop(0, limit, one, none(count.shape[0]))

    start = geometry.bodies.find(box_triangle.box_centre(position, axes, body))
    found = grid.near(geometry.bodies, table, start, (position, axes), nothing, low_enough, listed)
    kept, last = gathered((found[0] > 0)[None], (found, (position, axes)), collide, none(len(found[0])), FEW)
    kept = jax.tree.map(lambda *leaves: jnp.stack(leaves).reshape(-1, *shape), *kept)
    return kept, jax.tree.map(lambda leaf: leaf.reshape(shape), last)
