"""The contacts of a tick, as rows for the solver, in the order in which they are solved.

Car by car its touch of the ball and its points on the arena; then the points that pairs of cars have in common; and
last the ball on the arena: a ball that a car lifts in this tick does not rub on the floor any more.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.ball import Touch
from jaxrl_envs.car_soccer.physics.bodies import Push
from jaxrl_envs.car_soccer.physics.collision.boxes import box_contacts, boxes_touch
from jaxrl_envs.car_soccer.physics.collision.manifold import PER_PAIR, Points
from jaxrl_envs.car_soccer.physics.collision.solver import Body, Constraint, Contact, contact
from jaxrl_envs.car_soccer.physics.field.arena import BallContacts, Geometry, chassis_contacts
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.state import Ball, Cars
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec, where

BALL = 0  # number of the ball among the bodies; car p is p + 1
FEW_PAIRS = 16  # pairs of cars whose points are found together


def ball_body(ball: Ball, asleep: jax.Array) -> Body:
    """Returns the ball for the solver; asleep, it feels no gravity."""
    fall = jnp.where(asleep, 0, c.GRAVITY * c.DT)
    return Body(
        velocity=ball.velocity,
        spin=ball.angular_velocity,
        forced_velocity=ball.velocity.replace(z=ball.velocity.z + fall),
        forced_spin=ball.angular_velocity,
        axes=None,
        inverse_mass=1 / c.BALL_MASS,
        inverse_inertia=Vec(1 / c.BALL_INERTIA, 1 / c.BALL_INERTIA, 1 / c.BALL_INERTIA),
    )


def car_bodies(body: Hitbox, cars: Cars, push: Push) -> Body:
    """Returns all cars for the solver, [P, B]."""
    velocity = cars.velocity + push.linear * c.DT
    return Body(
        velocity=cars.velocity,
        spin=cars.angular_velocity,
        forced_velocity=velocity.replace(z=velocity.z + c.GRAVITY * c.DT),
        forced_spin=cars.angular_velocity + push.angular * c.DT,
        axes=cars.axes,
        inverse_mass=1 / c.CAR_MASS,
        inverse_inertia=body.inverse_inertia,
    )


def touch_arena(geometry: Geometry | None, body: Hitbox, cars: Cars, present: jax.Array) -> tuple[Cars, Points]:
    """Contacts of bodies with the arena, leaves [N, P, B], and the cars with `world_contact`.

    The reference forgets these points from tick to tick: of each surface there are only those of this one.
    """
    points, normal = chassis_contacts(geometry, cars.position, cars.axes, body)
    points = points.replace(live=points.live & present)
    touches = points.live.any(axis=0)
    normal = where(touches, normal, cars.world_contact_normal)
    return cars.replace(world_contact=touches, world_contact_normal=normal), points


def pairs(count: int) -> tuple[list[int], list[int]]:
    """The first and the second car of each pair; the first is the one with the higher number, as in the reference."""
    both = list(itertools.combinations(range(count), 2))
    return [high for _, high in both], [low for low, _ in both]


def picked(tree, indices: list[int]):
    """Selects rows of [P, B]."""
    return jax.tree.map(lambda leaf: jnp.stack([leaf[index] for index in indices]), tree)


def cars_meet(body: Hitbox, cars: Cars, present: jax.Array) -> jax.Array:
    """bool[K, B]: which pairs of cars touch."""
    near, lanes = _near_pairs(body, cars, present)

    def touch(lanes):
        position, axes, other, others_axes = lanes
        return boxes_touch(position, axes, other, others_axes, body.half, body.offset)

    return gathered(near.reshape(1, -1), lanes, touch, jnp.zeros((1, near.size), bool)).reshape(near.shape)


def touch_cars(body: Hitbox, cars: Cars, present: jax.Array) -> Points:
    """Contacts of pairs of cars, leaves [4, K, B]; as on the arena, nothing is kept from tick to tick."""
    near, lanes = _near_pairs(body, cars, present)

    def touching(lanes):
        position, axes, other, others_axes = lanes
        return box_contacts(position, axes, other, others_axes, body.half, body.offset)

    none = jnp.zeros((PER_PAIR, 1, near.size))
    zero = Vec(none, none, none)
    points = gathered(near.reshape(1, -1), lanes, touching, Points(zero, zero, zero, none, none > 0), FEW_PAIRS)
    return jax.tree.map(lambda leaf: leaf.reshape(PER_PAIR, *near.shape), points)


def _near_pairs(body: Hitbox, cars: Cars, present: jax.Array) -> tuple[jax.Array, tuple[Vec, Axes, Vec, Axes]]:
    """bool[K, B]: which pairs of cars may touch; and positions and axes of both, leaves [1, K * B]."""
    one, two = (picked((cars.position, cars.axes, present), side) for side in pairs(cars.boost.shape[0]))
    away = one[0] - two[0]
    near = away.dot(away) < (2 * math.hypot(*body.half) + 2 * math.hypot(*body.offset)) ** 2
    lanes = jax.tree.map(lambda leaf: leaf.reshape(1, -1), (one[0], one[1], two[0], two[1]))
    return near & one[2] & two[2], lanes


def ball_on_arena(ball: Body, on_arena: BallContacts) -> tuple[list[Constraint], list[tuple[Vec, jax.Array]]]:
    """Returns the contact of the ball with the arena, and the walls that push it out."""
    arm, zero = on_arena.normal * -c.BALL_RADIUS, jnp.zeros_like(on_arena.normal.x)
    rolls = contact(ball, None, on_arena.normal, arm, None, zero, on_arena.count > 0, c.BALL_ARENA)
    push = jnp.where(on_arena.row_live, jnp.maximum(on_arena.row_gaps * (-c.PUSH / c.DT), 0), 0)
    return [Constraint(rolls, BALL, -1)], [(on_arena.row_normals.at(k), row) for k, row in enumerate(push)]


def cars_on_arena(cars: Body, points: Points) -> Contact:
    """Returns the contacts of cars with the arena, leaves [N, ..., B] as those of the points."""
    assert cars.axes is not None
    return contact(
        cars, None, points.normal, cars.axes.to_world(points.local), None, points.gap, points.live, c.CAR_ARENA
    )


def constraints(ball: Body, cars: Body, touch: Touch, points: Points, meetings: Points | None) -> list[Constraint]:
    """Returns all contacts but that of the ball with the arena, in order.

    Args:
      ball, cars: leaves [B], [P, B]. touch: leaves [P, B].
      points: contacts with the arena, leaves [N, P, B]. meetings: contacts of pairs, leaves [4, K, B].
    """
    count, arm = touch.gap.shape[0], touch.normal * -c.BALL_RADIUS
    hits = contact(ball, cars, touch.normal, arm, touch.arm, touch.gap, touch.live, c.BALL_CAR)
    stands, result = cars_on_arena(cars, points), []
    for car in range(count):
        result.append(Constraint(hits.at(car), BALL, car + 1))
        result += [Constraint(stands.at((k, car)), car + 1, -1) for k in range(points.gap.shape[0])]
    if meetings is not None:
        one, two = (picked(cars, side) for side in pairs(count))
        arms = one.axes.to_world(meetings.local), two.axes.to_world(meetings.anchor)
        meets = contact(one, two, meetings.normal, *arms, meetings.gap, meetings.live, c.CAR_CAR)
        for k, (a, b) in enumerate(zip(*pairs(count), strict=True)):
            result += [Constraint(meets.at((point, k)), a + 1, b + 1) for point in range(PER_PAIR)]
    return result
