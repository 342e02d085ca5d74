"""Rewards of play in the air and on walls, and of how cars move."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.actions import has_flip
from jaxrl_envs.car_soccer.game import Step

_HIGH = 300.0  # uu: a ball above this is in the air
_BELOW = 180.0  # uu, from a car to a ball that its wheels touch, at most, with what a decision moves them


def in_air(step: Step) -> jax.Array:
    """1 while fewer than three wheels touch anything."""
    return (~step.cars.on_ground & ~step.cars.is_demoed).astype(jnp.float32)


def aerial_touch(step: Step) -> jax.Array:
    """The lesser of the time in the air (in 1.75 s) and the height of the ball (in heights of the field) at a touch."""
    worth = jnp.minimum(step.was.air_time / 1.75, step.ball.position.z / field.CEILING)
    return jnp.where(step.events.touched & ~step.was.on_ground, jnp.minimum(worth, 1.0), 0.0)


def aerial_goal(step: Step) -> jax.Array:
    """1 for a goal whose last touch was above 300 uu."""
    return (step.events.goal & _high_touch(step)).astype(jnp.float32)


def aerial_shot(step: Step) -> jax.Array:
    """1 for a shot above 300 uu."""
    return (step.events.shot & _high_touch(step)).astype(jnp.float32)


def aerial_save(step: Step) -> jax.Array:
    """1 for a save above 300 uu."""
    return (step.events.save & _high_touch(step)).astype(jnp.float32)


def aerial_positioning(step: Step) -> jax.Array:
    """1 in the air within 800 uu of a ball above 500 uu."""
    near = (step.distance < 800) & (step.ball.position.z > 500)
    return jnp.where(near, in_air(step), 0.0)


def air_control(step: Step) -> jax.Array:
    """Returns the cosine of the angle between the car's front and a ball above 300 uu, in the air; never negative."""
    facing = jnp.maximum(step.cars.axes.forward.dot(step.to_ball.unit()), 0.0)
    return jnp.where(step.ball.position.z > _HIGH, facing * in_air(step), 0.0)


def redirect(step: Step) -> jax.Array:
    """Returns the deflection of a moving ball by a touch in the air: 0 not at all, 1 back to where it came from."""
    turned = (1 - step.ball.velocity.unit().dot(step.ball_was.velocity.unit())) / 2
    moving = (step.ball_was.velocity.length > 500) & (step.ball.position.z > _HIGH)
    return jnp.where(step.events.touched & moving, turned, 0.0)


def wall_touch(step: Step) -> jax.Array:
    """1 for a touch by a car that drives on a wall."""
    on_wall = step.was.on_ground & (jnp.abs(step.was.axes.up.z) < 0.5)
    return (step.events.touched & on_wall).astype(jnp.float32)


def fast_aerial(step: Step) -> jax.Array:
    """1 for a double jump with boost within half a second of the jump, below a ball above 500 uu."""
    now = step.cars.has_double_jumped & ~step.was.has_double_jumped
    return (now & step.cars.is_boosting & (step.cars.air_time < 0.5) & (step.ball.position.z > 500)).astype(jnp.float32)


def missed_aerial(step: Step) -> jax.Array:
    """1 for a landing after a second in the air near a high ball that was not touched in that time."""
    landed = step.cars.on_ground & ~step.was.on_ground & (step.was.air_time > 1)
    since = (step.after.arena.tick - step.after.arena.counts.last_touch) / field.TICKS
    close = (step.ball.position.z > 500) & (step.distance < 1200)
    return (landed & (since > step.was.air_time) & close).astype(jnp.float32)


def flip_reset(step: Step) -> jax.Array:
    """1 for getting the dodge back by the wheels on the ball, which its body need not touch."""
    below = ((-step.cars.axes.up).dot(step.to_ball.unit()) > 0.7) & (step.distance < _BELOW)
    return (has_flip(step.cars) & ~has_flip(step.was) & below).astype(jnp.float32)


def wavedash(step: Step) -> jax.Array:
    """1 for a landing in the middle of a dodge."""
    landed = step.cars.on_ground & ~step.was.on_ground
    return (landed & (step.cars.is_flipping | step.was.is_flipping)).astype(jnp.float32)


def bad_recovery(step: Step) -> jax.Array:
    """1 for a car that lies on its roof or side on the floor."""
    lying = step.cars.world_contact & ~step.cars.on_ground & (step.cars.position.z < 100) & (step.cars.axes.up.z < 0.3)
    return (lying & ~step.cars.is_demoed).astype(jnp.float32)


def _high_touch(step: Step) -> jax.Array:
    return step.after.tracks.touch_height > _HIGH
