"""Scoreboard of whole matches: goals, clock, overtime and kickoffs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

_BALL_DOWN = 110.0  # uu: at 0:00 play goes on until the ball is lower than this


@struct.dataclass
class Scoreboard:
    """Attributes:
    goals: i32[2], of both teams.
    left: f32[], seconds on the clock; in overtime it stands at 0.
    overtime: bool[], the next goal wins.
    over: bool[], the match has ended.
    kickoffs: i32[], kickoffs after goals so far.
    kickoff_tick: i32[], when play last began.
    """

    goals: jax.Array
    left: jax.Array
    overtime: jax.Array
    over: jax.Array
    kickoffs: jax.Array
    kickoff_tick: jax.Array


def begin(seconds: float) -> Scoreboard:
    """Returns the board before a match of `seconds` seconds."""
    return Scoreboard(
        goals=jnp.zeros(2, jnp.int32),
        left=jnp.float32(seconds),
        overtime=jnp.bool_(False),
        over=jnp.bool_(False),
        kickoffs=jnp.int32(0),
        kickoff_tick=jnp.int32(0),
    )


def advance(board: Scoreboard, scored: jax.Array, seconds: float, ball_height: jax.Array) -> Scoreboard:
    """Returns the board after a decision.

    Args:
      board: scoreboard before the step.
      scored: bool[2], the teams that have scored; never both.
      seconds: duration of the step.
      ball_height: f32[], uu.

    Returns:
      The new board: a match is over when time is up, the ball is down and the score is not even, or with a goal in
      overtime. Which goals lead to a kickoff is decided by the caller.
    """
    goals = board.goals + scored
    left = jnp.where(board.overtime, 0.0, jnp.maximum(board.left - seconds, 0.0))
    up = (left == 0) & ((ball_height < _BALL_DOWN) | jnp.any(scored))
    even = goals[0] == goals[1]
    return board.replace(goals=goals, left=left, overtime=board.overtime | (up & even), over=board.over | (up & ~even))
