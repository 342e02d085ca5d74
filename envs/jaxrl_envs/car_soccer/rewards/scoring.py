"""Rewards of events: goals, shots, saves, passes, demolitions. Every component is (one decision) -> f32[P]."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step


def goal(step: Step) -> jax.Array:
    """1 for every car of the team that has scored."""
    return step.events.scored.astype(jnp.float32)


def concede(step: Step) -> jax.Array:
    """1 for every car of the team that the other one has scored against."""
    return step.events.conceded.astype(jnp.float32)


def scorer(step: Step) -> jax.Array:
    """1 for the car that has scored."""
    return step.events.goal.astype(jnp.float32)


def assist(step: Step) -> jax.Array:
    """1 for the car from which the scorer had the ball."""
    return step.events.assist.astype(jnp.float32)


def own_goal(step: Step) -> jax.Array:
    """1 for the car that touched the ball last where its own team sent it into its goal; not for deflected shots."""
    return step.events.own_goal.astype(jnp.float32)


def goal_speed(step: Step) -> jax.Array:
    """Returns the speed of the ball, in 6,000 uu/s, for the team that has scored."""
    return jnp.where(step.events.scored, step.ball_was.velocity.length / field.BALL_SPEED, 0.0)


def shot(step: Step) -> jax.Array:
    """1 for a shot at the goal."""
    return step.events.shot.astype(jnp.float32)


def shot_quality(step: Step) -> jax.Array:
    """Returns the speed of a shot, in 6,000 uu/s."""
    return jnp.where(step.events.shot, step.ball.velocity.length / field.BALL_SPEED, 0.0)


def save(step: Step) -> jax.Array:
    """1 for a save."""
    return step.events.save.astype(jnp.float32)


def passed(step: Step) -> jax.Array:
    """1 for a car whose mate takes the ball over from it."""
    return step.events.passed.astype(jnp.float32)


def demo(step: Step) -> jax.Array:
    """1 for every car demolished."""
    return step.events.demos


def demoed(step: Step) -> jax.Array:
    """1 for the demolished car."""
    return step.events.demoed


def bump(step: Step) -> jax.Array:
    """1 for every car bumped."""
    return step.events.bumps


def kickoff_win(step: Step) -> jax.Array:
    """1 for the team that has the ball in the opponents' half two seconds after the first touch of a kickoff."""
    return step.events.kickoff_won.astype(jnp.float32)


def own_goal_risk(step: Step) -> jax.Array:
    """1 for a touch that sends the ball, fast, on a way into the own goal; a deflected shot was on it already."""
    sent = step.events.threat & step.after.tracks.own_doing  # bool[2]
    return (step.events.touched & sent[step.teams.of]).astype(jnp.float32)


def missed_easy_save(step: Step) -> jax.Array:
    """1 for a car within 800 uu of the ball, on its own goal's side, that let it in."""
    near = (step.distance_was < 800) & (step.was.position.y * step.teams.attack < -field.BACK + 1500)
    return (step.events.conceded & near & ~step.was.is_demoed).astype(jnp.float32)
