"""The ball: air, the touch of cars and the extra hit (parts b, 9 and c, 6 and 9)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.state import Ball, Cars
from jaxrl_envs.car_soccer.physics.vector import Vec, where


@struct.dataclass
class Touch:
    """Of each car and the ball; leaves [P, B].

    Attributes:
      live: bool. normal: from the car to the ball. arm: from the car's centre to its point of contact.
      gap: distance between the two, uu.
    """

    live: jax.Array
    normal: Vec
    arm: Vec
    gap: jax.Array


def is_asleep(ball: Ball) -> jax.Array:
    """bool[B]: a ball without any motion feels nothing until a car touches it."""
    still = jnp.ones(ball.velocity.x.shape, bool)
    for value in jax.tree.leaves((ball.velocity, ball.angular_velocity)):
        still = still & (value == 0)
    return still


def touches(body: Hitbox, cars: Cars, ball: Ball, present: jax.Array) -> Touch:
    """Returns the contacts of the ball with each car's box, rounded by its margin."""
    box = cars.axes.to_local(ball.position - cars.position) - Vec(*body.offset)
    parts = zip((box.x, box.y, box.z), body.inner, strict=True)
    nearest = Vec(*(jnp.clip(value, -half, half) for value, half in parts))
    away = box - nearest
    distance = away.length
    normal = cars.axes.to_world(away.unit())
    gap = distance - (body.margin + c.BALL_RADIUS)
    return Touch(
        live=present & (gap < c.BALL_REACH) & (distance > 0),
        normal=normal,
        arm=cars.axes.to_world(nearest + Vec(*body.offset)) + normal * body.margin,
        gap=gap,
    )


def hits(cars: Cars, ball: Ball, touch: Touch, tick: jax.Array) -> tuple[Cars, Vec]:
    """The extra hit, at most every second tick of each car: cars with `hit_tick`, and what it adds to the ball."""
    live = touch.live & (tick > cars.hit_tick + 1)
    way = ball.position - cars.position
    relative = ball.velocity - cars.velocity
    speed = jnp.minimum(relative.length, c.HIT_SPEED)
    direction = way.replace(z=way.z * c.HIT_HEIGHT).unit()
    forward = cars.axes.forward
    direction = (direction - forward * (direction.dot(forward) * c.HIT_FORWARD)).unit()
    change = where(live, direction * (speed * c.HIT(speed)), Vec(0.0, 0.0, 0.0))
    return cars.replace(hit_tick=jnp.where(live, tick, cars.hit_tick)), jax.tree.map(lambda x: x.sum(axis=0), change)
