"""Done conditions by name: rules that end an episode (terminations) and limits that truncate it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.events import goals
from jaxrl_envs.car_soccer.field import TICKS
from jaxrl_envs.car_soccer.game import CarSoccerGame


def goal(game: CarSoccerGame) -> jax.Array:
    """bool[]: a goal was scored."""
    return jnp.any(goals(game.arena))


def match(game: CarSoccerGame) -> jax.Array:
    """bool[]: the match is over, see `scoreboard`."""
    return game.board.over


def touch(game: CarSoccerGame) -> jax.Array:
    """bool[]: the ball was touched."""
    return jnp.max(game.arena.counts.last_touch) >= 0


def no_touch(game: CarSoccerGame, seconds: float) -> jax.Array:
    """bool[]: no car has touched the ball for `seconds`."""
    last = jnp.maximum(jnp.max(game.arena.counts.last_touch), game.board.kickoff_tick)
    return game.arena.tick - last >= seconds * TICKS


def timeout(game: CarSoccerGame, seconds: float) -> jax.Array:
    """bool[]: `seconds` have been played."""
    return game.arena.tick >= seconds * TICKS


def ball_down(game: CarSoccerGame, seconds: float) -> jax.Array:
    """bool[]: the ball lies on the floor after `seconds`."""
    return (game.arena.ball.position.z < 110) & timeout(game, seconds)


TERMINATIONS: dict[str, Callable[[CarSoccerGame], jax.Array]] = {"goal": goal, "match": match, "touch": touch}
TRUNCATIONS: dict[str, Callable[[CarSoccerGame, float], jax.Array]] = {
    "no_touch": no_touch,
    "timeout": timeout,
    "ball_down": ball_down,
}
