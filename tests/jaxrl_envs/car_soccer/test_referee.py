"""The plain referee against recordings of the reference simulator."""

from __future__ import annotations

import functools
import gzip
import json

import numpy as np
import pytest

from scripts.car_soccer_recordings import ENCOUNTERS
from tests.jaxrl_envs.car_soccer.referee import car_soccer as referee
from tests.jaxrl_envs.car_soccer.referee.car_soccer_car import Car
from tests.support.car_soccer_states import referee_mesh
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "car_soccer"
FLAGS = ("boost", "is_jumping", "has_jumped", "has_double_jumped", "has_flipped", "is_flipping", "is_supersonic")
TIMERS = ("jump_time", "flip_time", "air_time_since_jump")
# Share of random episodes in which ball and worst car are within 1 uu after 1, 2 and 3 s, where they last so long.
TABLE = {
    "ball": (0.98, 0.95, 0.94),
    "hit": (0.95, 0.9),
    "drive": (0.95, 0.95),
    "tumble": (0.95, 0.95),
    "carcar": (0.95, 0.9),
    "carcar_air": (0.95, 0.9),
    "play1": (0.95, 0.9, 0.8),
    "play2": (0.85, 0.7, 0.6),
    "play3": (0.85, 0.7, 0.4),
}


@functools.cache
def recordings(name: str) -> dict:
    with gzip.open(FOLDER / f"{name}.json.gz", "rt") as file:
        return json.load(file)


def begin(record: dict) -> referee.Arena:
    state, cars = record["states"][0], []
    for values, team in zip(state["cars"], record["meta"]["teams"], strict=True):
        numbers = {name: values.get(name, False) for name in FLAGS}
        numbers |= {name: np.float32(values.get(name, 0)) for name in TIMERS}
        body = (np.array(values[name], float) for name in ("pos", "vel", "ang_vel", "rot"))
        cars.append(Car(team, *body, on_ground=values["is_on_ground"], **numbers))
    ball = referee.Ball(*(np.array(state["ball"][name], float) for name in ("pos", "vel", "ang_vel")))
    return referee.Arena(ball, cars, None if record["meta"]["arena"] == "THE_VOID" else referee_mesh())


def errors(record: dict, length: int) -> dict[int, float]:
    """By recorded tick how far ball or worst car are from the recording, uu."""
    arena, recorded, result = begin(record), dict(zip(record["ticks"], record["states"], strict=True)), {}
    pressed = [rows for count, rows in record["controls_rle"] for _ in range(count)]
    for tick, rows in enumerate(pressed[:length], start=1):
        arena.step([np.array(row, float) for row in rows])
        if tick in recorded:
            state = recorded[tick]
            found = [arena.ball.position, *(car.position for car in arena.cars)]
            right = [state["ball"]["pos"], *(car["pos"] for car in state["cars"])]
            result[tick] = max(np.linalg.norm(a - b) for a, b in zip(found, right, strict=True))
    return result


def scenarios() -> list[dict]:
    """Without ties (corners of a box at exactly the same height)."""
    return [record for record in recordings("trajectories").values() if not record["meta"]["ties"]]


def test_scenarios() -> None:
    found = {record["meta"]["name"]: max(errors(record, 40).values()) for record in scenarios()}
    assert len(found) > 40
    assert max(found.values()) < 0.01, found


@pytest.mark.parametrize("place", ["air", "floor", "ramp", "wall", "ceiling", "goal"])
def test_wherever_a_car_begins(place) -> None:
    found = [errors(recordings("own")[f"from_{place}_{number}"], 60)[60] for number in range(3)]
    assert max(found) < 0.01, found


def test_triangles_are_solved_subtree_by_subtree() -> None:
    """In the tree's order of leaves this car, which touches three triangles after 150 ticks, is 3 uu away."""
    assert errors(recordings("own")["from_ramp_57"], 180)[180] < 0.1


@pytest.mark.parametrize("name", ENCOUNTERS)
def test_two_cars_that_meet(name) -> None:
    """Bumps and demolitions, square too, where contacts rub that do not slip. Head on a wheel passes above the wreck,
    which hides the floor from it in the reference."""
    found = errors(recordings("encounters")[f"meets_{name}"], 60)
    assert max(found.values()) < (1.0 if name == "head_on" else 0.01), found


@pytest.mark.slow
def test_scenarios_to_their_end() -> None:
    for record in scenarios():
        found = errors(record, 240)
        flat = [error for tick, error in found.items() if tick <= record["meta"]["flat_until_tick"]]
        assert max(flat) < 0.05, record["meta"]["name"]


@pytest.mark.slow
@pytest.mark.parametrize("suite", TABLE)
def test_random_episodes(suite) -> None:
    found = [errors(record, 360) for record in recordings("random").values() if record["meta"]["suite"] == suite]
    for tick, least in zip((120, 240, 360), TABLE[suite], strict=False):
        near = [episode[tick] < 1 for episode in found if tick in episode]
        assert not near or np.mean(near) >= least, (suite, tick, np.mean(near))
