"""When an episode ends by its rules (terminations) and when it is cut off (truncations), by name."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.events import goals
from jaxrl_envs.car_soccer.field import TICKS
from jaxrl_envs.car_soccer.game import Game


def goal(game: Game) -> jax.Array:
    """bool[]: a goal was scored."""
    return jnp.any(goals(game.arena))


def match(game: Game) -> jax.Array:
    """bool[]: the match is over, see `scoreboard`."""
    return game.board.over


def touch(game: Game) -> jax.Array:
    """bool[]: the ball was touched."""
    return jnp.max(game.arena.counts.last_touch) >= 0


def no_touch(game: Game, seconds: float) -> jax.Array:
    """bool[]: nobody has touched the ball for so long."""
    last = jnp.maximum(jnp.max(game.arena.counts.last_touch), game.board.kickoff_tick)
    return game.arena.tick - last >= seconds * TICKS


def timeout(game: Game, seconds: float) -> jax.Array:
    """bool[]: so much time has been played."""
    return game.arena.tick >= seconds * TICKS


def ball_down(game: Game, seconds: float) -> jax.Array:
    """bool[]: the ball lies on the floor after so many seconds."""
    return (game.arena.ball.position.z < 110) & timeout(game, seconds)


TERMINATIONS: dict[str, Callable[[Game], jax.Array]] = {"goal": goal, "match": match, "touch": touch}
TRUNCATIONS: dict[str, Callable[[Game, float], jax.Array]] = {
    "no_touch": no_touch,
    "timeout": timeout,
    "ball_down": ball_down,
}
