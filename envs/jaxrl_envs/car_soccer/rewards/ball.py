"""Rewards of what cars do to the ball and of how they approach it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.rewards.event import rewarded

_CROSSING = 6000.0  # uu, the scale of distances between ball and goal

touch = rewarded(lambda events: events.touched, "1 for a decision with a touch of the ball.")
possession = rewarded(lambda events: events.possession, "1 while the own team has touched the ball last.")


def last_man_touch(step: Step) -> jax.Array:
    """1 for a touch of the team's last car in its own half."""
    return (step.events.touched & step.last_of_team & (step.y < 0)).astype(jnp.float32)


def touch_acceleration(step: Step) -> jax.Array:
    """Returns the change of the ball's velocity by a touch, in 2,300 uu/s."""
    change = (step.ball.velocity - step.ball_was.velocity).length / field.CAR_SPEED
    return jnp.where(step.events.touched, change, 0.0)


def touch_to_goal(step: Step) -> jax.Array:
    """Returns the change of the ball's velocity towards the opponents' goal by a touch, in 2,300 uu/s."""
    change = (step.ball.velocity - step.ball_was.velocity).dot(step.ball_to_goal.unit()) / field.CAR_SPEED
    return jnp.where(step.events.touched, change, 0.0)


def touch_height(step: Step) -> jax.Array:
    """Returns the height of the ball at a touch, in heights of the field."""
    return jnp.where(step.events.touched, step.ball.position.z / field.CEILING, 0.0)


def velocity_to_ball(step: Step) -> jax.Array:
    """Returns the speed towards the ball, in 2,300 uu/s; never negative."""
    return jnp.maximum(step.cars.velocity.dot(step.to_ball.unit()), 0.0) / field.CAR_SPEED


def approach(step: Step) -> jax.Array:
    """Decrease of the distance to the ball, in units of the distance covered at 2,300 uu/s; sums to the way made."""
    return (step.distance_was - step.distance) / (field.CAR_SPEED * step.seconds)


def distance_to_ball(step: Step) -> jax.Array:
    """exp(-distance / 1,410 uu)."""
    return jnp.exp(-step.distance / 1410)


def face_ball(step: Step) -> jax.Array:
    """Returns the cosine of the angle between the car's front and the ball."""
    return step.cars.axes.forward.dot(step.to_ball.unit())


def ball_velocity_to_goal(step: Step) -> jax.Array:
    """Returns the speed of the ball towards the opponents' goal, in 6,000 uu/s; negative towards the own one."""
    return step.ball.velocity.dot(step.ball_to_goal.unit()) / field.BALL_SPEED


def ball_velocity_to_own_goal(step: Step) -> jax.Array:
    """Returns the speed of the ball towards the own goal, in 6,000 uu/s; never negative."""
    return jnp.maximum(step.ball.velocity.dot(step.ball_to_own_goal.unit()), 0.0) / field.BALL_SPEED


def ball_nearer_goal(step: Step) -> jax.Array:
    """Change of exp(-d / 6,000) of the opponents' goal less that of the own goal; sums to the ground gained."""
    now = jnp.exp(-step.ball_to_goal.length / _CROSSING) - jnp.exp(-step.ball_to_own_goal.length / _CROSSING)
    to_goal, to_own = step.goal(1.0) - step.ball_was.position, step.goal(-1.0) - step.ball_was.position
    return now - jnp.exp(-to_goal.length / _CROSSING) + jnp.exp(-to_own.length / _CROSSING)


def attacking_third(step: Step) -> jax.Array:
    """1 while the ball is in the third of the field before the opponents' goal."""
    return (step.ball_y > field.BACK / 3).astype(jnp.float32)


def defensive_third(step: Step) -> jax.Array:
    """1 while the ball is in the third of the field before the own goal."""
    return (step.ball_y < -field.BACK / 3).astype(jnp.float32)


def whiff(step: Step) -> jax.Array:
    """1 for a dodge or jump beside the ball: it was within 300 uu, is left behind now, and has not been touched."""
    receding = (step.distance > step.distance_was) & (step.distance_was < 300)
    tried = step.cars.is_flipping | step.cars.is_jumping
    coming = (step.was.velocity - step.ball_was.velocity).dot(step.ball_was.position - step.was.position) > 0
    return (receding & tried & coming & ~step.events.touched).astype(jnp.float32)
