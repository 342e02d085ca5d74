"""Playback of car soccer in three dimensions, see `jaxrl_envs.shared.display.playback`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from jaxrl_envs.car_soccer import field, golden
from jaxrl_envs.car_soccer.display.drawing import COLOURS, NET
from jaxrl_envs.car_soccer.display.render import TEAMS, describe
from jaxrl_envs.car_soccer.physics.field import pads
from jaxrl_envs.car_soccer.physics.settings import HITBOXES
from jaxrl_envs.contract.env import State
from jaxrl_envs.shared.display.playback import Playback, PlaybackMoment
from jaxrl_envs.shared.errors import UserError

SMOOTH = 20  # key frames a second of an episode that was recorded more seldom


def fits(name: str, first: Mapping[str, Any]) -> bool:
    """Episodes of the reference simulator, by name."""
    episode = next(iter(first.values()), None)
    return isinstance(episode, Mapping) and {"meta", "controls_rle", "states", "ticks"} <= set(episode)


def games(path: Path) -> list[str]:
    """Returns titles of the episodes in a file: their names."""
    return list(golden.unchecked(path))


def play(path: Path, number: int) -> Playback:
    """Returns one of them, as it was recorded: nothing is computed."""
    episodes = list(golden.unchecked(path).items())
    if number >= len(episodes):
        raise UserError(f"{path.name} has no episode {number}.")
    name, record = episodes[number]
    golden.check(path, name, record)
    team = record["meta"]["teams"]
    states, seconds = record["states"], np.array(record["ticks"]) / field.TICKS
    empty = np.zeros((0, 3))
    sketches = [
        {
            "ball": np.array(state["ball"]["pos"]),
            "cars": np.array([car["pos"] for car in state["cars"]]) if team else empty,
            "forward": np.array([car["rot"][0] for car in state["cars"]]) if team else empty,
            "up": np.array([car["rot"][2] for car in state["cars"]]) if team else empty,
            "demolished": np.array([car.get("is_demoed", False) for car in state["cars"]]),
        }
        for state in states
    ]
    hitbox = HITBOXES.get(record["meta"]["car"].lower(), HITBOXES["octane"])
    walls = record["meta"]["arena"] == "SOCCAR"
    frames = max(2, round(float(seconds[-1]) * SMOOTH) + 1)
    return Playback(
        title=f"{name}, recorded by the reference simulator",
        seats=[f"{TEAMS[each]} {seat}" for seat, each in enumerate(team)],
        view="space",
        frames=frames,
        moments=[PlaybackMoment(0, "the recorded episode begins")],
        curves={"height of the ball": _heights(seconds, sketches, frames)},
        seconds=float(seconds[-1]) / (frames - 1),
        space=scene(team, hitbox.size, hitbox.offset, seconds, sketches, walls=walls),
    )


def mark(env: Any, before: State, after: State) -> str:
    """Returns touches, goals and demolitions in words."""
    return describe(env, before, after)


def curves(env: Any, states: Sequence[State]) -> dict[str, list[list[float]]]:
    """Returns the rewards and the boost of the seats."""
    earned = np.cumsum([np.zeros(env.num_players), *(np.asarray(state.rewards) for state in states[1:])], axis=0)
    boost = [np.asarray(state.game.arena.cars.boost).round(1).tolist() for state in states]
    return {"return": earned.round(4).tolist(), "boost": boost}


def space(env: Any, sketches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the scene of an episode from what `CarSoccer.sketch` tells, or from what replays hold of it."""
    seconds = np.array([float(np.asarray(sketch["tick"])) for sketch in sketches]) / field.TICKS
    body = env.settings.body
    return scene(list(map(int, env.teams.of)), body.size, body.offset, seconds - seconds[0], sketches)


def scene(
    team: Sequence[int],
    size: Sequence[float],
    offset: Sequence[float],
    seconds: np.ndarray,
    sketches: Sequence[Mapping[str, Any]],
    *,
    walls: bool = True,
) -> dict[str, Any]:
    """See `jaxrl_envs.shared.display.playback.Playback.space`.

    Args:
      team: team of every car, 0 or 1.
      size, offset: size of a car's box, and its middle as seen from the car's place, uu.
      seconds: times of the sketches, [N].
      sketches: ball, cars, forward, up, and where they are known boost, demolished, pads.
      walls: whether there is an arena.
    """
    ball = np.array([np.asarray(sketch["ball"]) for sketch in sketches], float)
    known = [{name: np.asarray(sketch[name]) for name in sketch} for sketch in sketches]
    bodies = [_body("ball", "ball", -1, [field.BALL_RADIUS], ball, np.tile([0.0, 0.0, 0.0, 1.0], (len(ball), 1)))]
    for seat, side in enumerate(team):
        ways = (np.array([each[name][seat] for each in known], float) for name in ("forward", "up"))
        turns = quaternions(*ways)
        places = np.array([each["cars"][seat] for each in known], float)
        gone = [bool(each["demolished"][seat]) for each in known]
        body = _body(f"{TEAMS[side]} {seat}", "car", int(side), list(size), places, turns)
        bodies.append(body | {"offset": list(offset), "gone": gone})
    there = [each["pads"].astype(bool).tolist() for each in known] if "pads" in known[0] else []
    spots = [
        {"place": place.tolist(), "radius": float(radius) / 2, "there": [row[index] for row in there]}
        for index, (place, radius) in enumerate(zip(pads.POSITIONS, pads.BOX, strict=True))
    ]
    return {
        "times": np.round(seconds, 4).tolist(),
        "bodies": bodies,
        "spots": spots if walls else [],
        "arena": _arena() if walls else None,
        "colours": list(COLOURS),
        "unit": 100.0,
    }


def _body(name: str, shape: str, team: int, size: list[float], places: np.ndarray, turns: np.ndarray) -> dict[str, Any]:
    flat = {"places": np.round(places, 1).ravel().tolist(), "turns": np.round(turns, 4).ravel().tolist()}
    return {"name": name, "shape": shape, "team": team, "size": size, **flat}


def _arena() -> dict[str, Any]:
    """Walls as one outline, x and y, anticlockwise; goals stand at +y (of team 1) and -y (of team 0)."""
    cut = field.CORNER - field.BACK  # x of the walls' corners at the back
    turn = field.CORNER - field.SIDE  # y of the corners at the side
    right = [(field.SIDE, -turn), (field.SIDE, turn), (cut, field.BACK), (-cut, field.BACK)]
    outline = [*right, (-field.SIDE, turn), (-field.SIDE, -turn), (-cut, -field.BACK), (cut, -field.BACK)]
    goal = {"half": float(field.GOAL_HALF_WIDTH), "height": float(field.GOAL_HEIGHT), "depth": NET}
    goals = [{"y": -field.BACK, "team": 0} | goal, {"y": field.BACK, "team": 1} | goal]
    return {"outline": [list(map(float, point)) for point in outline], "height": field.CEILING, "goals": goals}


def quaternions(forward: Any, up: Any, xp: Any = np, rotation: Any = Rotation) -> Any:
    """[N, 4], x, y, z, w >= 0 of the turns that bring x, y, z to forward, left, up.

    Args:
      forward, up: [N, 3], at right angles and of length 1.
      xp, rotation: numpy and scipy's class, or jax.numpy and jax's.
    """
    return rotation.from_matrix(xp.stack([forward, xp.cross(up, forward), up], -1)).as_quat(canonical=True)


def _heights(seconds: np.ndarray, sketches: Sequence[Mapping[str, Any]], frames: int) -> list[list[float]]:
    height = np.interp(np.linspace(0, seconds[-1], frames), seconds, [sketch["ball"][2] for sketch in sketches])
    return [[float(value)] for value in height.round(1)]
