"""Rewards of places on the field, alone and in a team."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.physics.vector import Vec


def optimal(step: Step) -> jax.Array:
    """Cosine of the angle at the ball between the way from the car and the way to the opponents' goal: 1 behind it."""
    return step.to_ball.unit().dot(step.ball_to_goal.unit())


def defensive(step: Step) -> jax.Array:
    """1 for a car between the ball and its own goal while the ball is in its half."""
    return ((step.ball_y < 0) & (step.y < step.ball_y)).astype(jnp.float32)


def offensive(step: Step) -> jax.Array:
    """1 for a car behind the ball and within 2,500 uu of it while the ball is in the opponents' half."""
    return ((step.ball_y > 0) & (step.y < step.ball_y) & (step.distance < 2500)).astype(jnp.float32)


def midfield(step: Step) -> jax.Array:
    """1 for a car in the middle of the field while a mate is nearer to the ball."""
    return ((jnp.abs(step.y) < 1500) & ~step.closest_of_team & step.has_mates).astype(jnp.float32)


def goal_line(step: Step) -> jax.Array:
    """1 for the team's last car within 1,200 uu of its goal while the ball is in the third before it."""
    near = (step.goal(-1.0) - step.cars.position).length < 1200
    return (near & step.last_of_team & (step.ball_y < -field.BACK / 3)).astype(jnp.float32)


def shadow(step: Step) -> jax.Array:
    """Returns the speed towards the own goal, in 2,300 uu/s, ahead of an opponent who is bringing the ball."""
    theirs = step.nearest(step.teams.rivals, step.distance) < step.nearest(step.teams.mates, step.distance)
    coming = step.ball.velocity.y * step.teams.attack < -300
    back = jnp.maximum(-step.cars.velocity.y * step.teams.attack, 0.0) / field.CAR_SPEED
    return jnp.where(theirs & coming & (step.y < step.ball_y) & (step.distance > 600), back, 0.0)


def stale(step: Step) -> jax.Array:
    """1 for a car that hardly moves, below 200 uu/s."""
    return ((step.cars.velocity.length < 200) & ~step.cars.is_demoed).astype(jnp.float32)


def speed(step: Step) -> jax.Array:
    """Returns the car's speed, in 2,300 uu/s."""
    return step.cars.velocity.length / field.CAR_SPEED


# ---- in a team: 0 for a car without mates ---------------------------------------------------------------------------


def spacing(step: Step) -> jax.Array:
    """1 with the nearest mate 1,000 to 3,500 uu away, less the nearer or farther it is."""
    apart = step.mate_distance
    near, far = apart / 1000, 1 - (apart - 3500) / 2500
    return jnp.where(step.has_mates, jnp.clip(jnp.minimum(near, far), 0.0, 1.0), 0.0)


def coverage(step: Step) -> jax.Array:
    """1 while a car of the team goes for the ball and another one stays behind it."""
    chased = (step.distance < 1000) & step.present
    behind = (step.y < step.ball_y - 500) & step.present
    pair = step.teams.mates & (chased[:, None] & behind[None, :] | behind[:, None] & chased[None, :])
    return jnp.any(pair, axis=1).astype(jnp.float32)


def rotation(step: Step) -> jax.Array:
    """Speed towards the far post of the own goal, in 2,300 uu/s, of a car ahead of the ball whose mate is nearer."""
    post = step.goal(-1.0) + Vec(-jnp.sign(step.ball.position.x) * 800, zero := jnp.zeros(()), zero)
    back = jnp.maximum(step.cars.velocity.dot((post - step.cars.position).unit()), 0.0) / field.CAR_SPEED
    return jnp.where(~step.closest_of_team & (step.y > step.ball_y) & step.has_mates, back, 0.0)


def double_commit(step: Step) -> jax.Array:
    """1 for a car that goes for the ball where a nearer mate does too: both within 800 uu, faster than 500 uu/s."""
    going = (step.distance < 800) & (step.cars.velocity.dot(step.to_ball.unit()) > 500) & step.present
    nearer = step.distance[None, :] < step.distance[:, None]
    return jnp.any(step.teams.mates & nearer & going[:, None] & going[None, :], axis=1).astype(jnp.float32)


def overcommit(step: Step) -> jax.Array:
    """1 while the whole team is ahead of the ball and an opponent is nearest to it."""
    ahead = step.y > step.ball_y + 300
    all_ahead = ahead & ~jnp.any(step.teams.mates & ~ahead & step.present, axis=1)
    ours = jnp.minimum(step.distance, step.nearest(step.teams.mates, step.distance))
    return (all_ahead & (step.nearest(step.teams.rivals, step.distance) < ours)).astype(jnp.float32)
