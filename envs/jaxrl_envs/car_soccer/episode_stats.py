"""Episode statistics: sums over an episode in the state, turned into figures for tables and logs at its end."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import Step

_COUNTED = ("goals", "conceded", "assists", "touches", "shots", "saves", "demos", "kickoff_wins", "boost_used")
_AVERAGED = ("speed", "ball_distance", "air_share", "possession", "mate_distance")  # over time
_SUMS = (*_COUNTED, *_AVERAGED, "seconds")


def zeros(seats: int) -> jax.Array:
    """f32[M, P], zeros."""
    return jnp.zeros((len(_SUMS), seats), jnp.float32)


def sums(step: Step) -> jax.Array:
    """f32[M, P], what one decision adds."""
    events, cars, ones = step.events, step.cars, jnp.ones(step.teams.seats)
    used = (~cars.is_demoed & cars.is_boosting) * jnp.maximum(step.was.boost - cars.boost, 0.0)
    mate = jnp.where(jnp.isfinite(step.mate_distance), step.mate_distance, 0.0)  # 0 without a mate on the field
    counted = [events.scored, events.conceded, events.assist, events.touched, events.shot, events.save]
    counted += [events.demos, events.kickoff_won, used]
    there = ~cars.is_demoed
    averaged = [cars.velocity.length * there, step.distance, ~cars.on_ground & there, events.possession, mate]
    values = [*counted, *(value * step.seconds for value in averaged), ones * step.seconds]
    return jnp.stack([value * ones for value in values]).astype(jnp.float32)


def figures(total: jax.Array, *, mates: bool) -> dict[str, jax.Array]:
    """f32[P] by name.

    goals, conceded, kickoff_wins: of the team. touches: decisions with one. boost_used: of 100 a tank. speed: uu/s, 0
    while demolished. ball_distance, mate_distance: uu, the latter of teams only. air_share: share of the time with
    fewer than three wheels on something. possession: share of the time in which the team touched the ball last.
    seconds: length.
    """
    of = dict(zip(_SUMS, total, strict=True))
    length = jnp.maximum(of["seconds"], 1 / field.TICKS)
    found = {name: of[name] for name in _COUNTED}
    found |= {name: of[name] / length for name in _AVERAGED if mates or name != "mate_distance"}
    return found | {"seconds": of["seconds"]}
