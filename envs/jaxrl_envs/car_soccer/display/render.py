"""Text of car soccer for a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.game import CarSoccerGame
from jaxrl_envs.contract.env import State

TEAMS = ("blue", "orange")
_COLUMNS, _ROWS = 65, 25  # of the map; the first team attacks to the right


def render_text(env: Any, state: State) -> str:
    """Returns the field from above and a line for everybody on it."""
    game: CarSoccerGame = state.game
    arena, teams = game.arena, env.teams
    lines = [headline(env, game), *_map(game, teams.of)]
    ball = arena.ball
    lines.append(f"ball    {_place(ball.position.array)}  {float(ball.velocity.length):5.0f} uu/s")
    positions, speeds = arena.cars.position.array, arena.cars.velocity.length
    for seat, team in enumerate(teams.of):
        words = [f"boost {float(arena.cars.boost[seat]):3.0f}"]
        words += ["demolished"] if arena.cars.is_demoed[seat] else []
        words += ["in the air"] if not arena.cars.on_ground[seat] else []
        words += ["supersonic"] if arena.cars.is_supersonic[seat] else []
        place = f"{_place(positions[seat])}  {float(speeds[seat]):5.0f} uu/s"
        lines.append(f"seat {seat}  {place}  {TEAMS[team]}, {', '.join(words)}")
    return "\n".join(lines)


def headline(env: Any, game: CarSoccerGame) -> str:
    """Returns the score and clock."""
    goals = [int(number) for number in game.board.goals]
    seconds = float(game.arena.tick) / field.TICKS
    if not env.kicks_off:
        return f"{TEAMS[0]} {goals[0]} : {goals[1]} {TEAMS[1]}, {seconds:.1f} s"
    left = float(game.board.left)
    clock = "overtime" if game.board.overtime else f"{int(left) // 60}:{int(left) % 60:02d} left"
    return f"{TEAMS[0]} {goals[0]} : {goals[1]} {TEAMS[1]}, {'the match is over' if game.board.over else clock}"


def describe(env: Any, before: State, after: State) -> str:
    """Text of a decision, as sentences; empty if nothing worth a word happened."""
    then: CarSoccerGame = before.game
    now: CarSoccerGame = after.game
    said = []
    for team in range(2):
        if now.board.goals[team] > then.board.goals[team]:
            said.append(f"{TEAMS[team]} scores, {int(now.board.goals[0])} : {int(now.board.goals[1])}")
    counts = {
        "touches": "touches the ball",
        "bumps": "bumps a car",
        "demolitions": "demolishes a car",
        "big_pads": "fills its tank",
    }
    for name, words in counts.items():
        more = np.asarray(getattr(now.arena.counts, name)) > np.asarray(getattr(then.arena.counts, name))
        said += [f"seat {seat} {words}" for seat in np.flatnonzero(more)]
    if bool(now.board.overtime) and not bool(then.board.overtime):
        said.append("overtime")
    if bool(after.truncated) and not bool(before.truncated):
        said.append("the episode is cut off")
    return ", ".join(said)


def _map(game: CarSoccerGame, team: np.ndarray) -> list[str]:
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]
    goal_rows = range(*(int(_ROWS * (0.5 + side * field.GOAL_HALF_WIDTH / (2 * field.SIDE))) for side in (-1, 1)))
    for column, mark in ((0, "<"), (_COLUMNS - 1, ">")):
        for row in goal_rows:
            grid[row][column] = mark
    for row in range(_ROWS):
        grid[row][_COLUMNS // 2] = ":"

    def put(position: np.ndarray, mark: str) -> None:
        column = round((position[1] / (2 * field.GOAL_LINE) + 0.5) * (_COLUMNS - 1))
        row = round((position[0] / (2 * field.SIDE) + 0.5) * (_ROWS - 1))
        grid[int(np.clip(row, 0, _ROWS - 1))][int(np.clip(column, 0, _COLUMNS - 1))] = mark

    for seat, position in enumerate(np.asarray(game.arena.cars.position.array)):
        if not game.arena.cars.is_demoed[seat]:
            put(position, str(seat))
    put(np.asarray(game.arena.ball.position.array), "o")
    edge = "+" + "-" * _COLUMNS + "+"
    return [edge, *("|" + "".join(row) + "|" for row in grid), edge]


def _place(position: Any) -> str:
    x, y, z = (round(float(value)) for value in position)
    return f"({x:5d}, {y:5d}, {z:4d})"
