"""Rewards of events: goals, shots, saves, passes, demolitions. Every component is (one decision) -> f32[P]."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step
from jaxrl_envs.car_soccer.rewards.event import rewarded

goal = rewarded(lambda events: events.scored, "1 for every car of the team that has scored.")
concede = rewarded(lambda events: events.conceded, "1 for every car of the team that the other one has scored against.")
scorer = rewarded(lambda events: events.goal, "1 for the car that has scored.")
assist = rewarded(lambda events: events.assist, "1 for the car from which the scorer had the ball.")
shot = rewarded(lambda events: events.shot, "1 for a shot at the goal.")
save = rewarded(lambda events: events.save, "1 for a save.")
passed = rewarded(lambda events: events.passed, "1 for a car whose mate takes the ball over from it.")
demo = rewarded(lambda events: events.demos, "1 for every car demolished.")
demoed = rewarded(lambda events: events.demoed, "1 for the demolished car.")
bump = rewarded(lambda events: events.bumps, "1 for every car bumped.")


def own_goal(step: Step) -> jax.Array:
    """1 for the car that touched the ball last where its own team sent it into its goal; not for deflected shots."""
    return step.events.own_goal.astype(jnp.float32)


def goal_speed(step: Step) -> jax.Array:
    """Returns the speed of the ball, in 6,000 uu/s, for the team that has scored."""
    return jnp.where(step.events.scored, step.ball_was.velocity.length / field.BALL_SPEED, 0.0)


def shot_quality(step: Step) -> jax.Array:
    """Returns the speed of a shot, in 6,000 uu/s."""
    return jnp.where(step.events.shot, step.ball.velocity.length / field.BALL_SPEED, 0.0)


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
