"""Bumps, demolitions, recordings of the reference simulator, where that is installed: pip install 'jaxrl[rlgym]'."""

from __future__ import annotations

import gzip
import json

import jax
import numpy as np
import pytest

from jaxrl_envs.car_soccer.physics.field.spawn import arena_at, cars_at
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Ball
from jaxrl_envs.car_soccer.physics.vector import axes, vec
from jaxrl_envs.car_soccer.simulators import rocketsim
from scripts import car_soccer_recordings
from tests.support.car_soccer_states import engine

ENCOUNTERS, TICKS = 1_000, 60
TEAMS = ((0, 1), (0, 0))


def encounters(count: int) -> dict[str, np.ndarray]:
    """Pairs of cars that drive or fly into each other within half a second."""
    rng = np.random.default_rng(11)
    yaw = rng.uniform(-np.pi, np.pi, (count, 2))
    pitch = np.where(rng.random((count, 1)) < 0.5, 0, rng.normal(size=(count, 2)) * 0.4)
    flying = (pitch != 0).any(-1)
    zero = np.zeros_like(yaw)
    turned = np.stack(
        [
            np.stack([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)], -1),
            np.stack([-np.sin(yaw), np.cos(yaw), zero], -1),
            np.stack([-np.sin(pitch) * np.cos(yaw), -np.sin(pitch) * np.sin(yaw), np.cos(pitch)], -1),
        ],
        -2,
    )
    speed = turned[..., 0, :] * rng.uniform(0, 2299, (count, 2, 1))
    fast = rng.random((count, 2)) < 0.3
    speed = np.where(fast[..., None], turned[..., 0, :] * 2295, speed)
    meeting = np.concatenate([rng.uniform(-1500, 1500, (count, 2)), np.where(flying, 800, 17)[:, None]], 1)
    time = rng.uniform(0.1, 0.35, (count, 1, 1))
    place = meeting[:, None] - speed * time + rng.normal(size=(count, 2, 3)) * 25 * [1, 1, 0]
    place[..., 2] = np.where(flying[:, None], place[..., 2] + rng.normal(size=(count, 2)) * 20, 17)
    keep = np.linalg.norm(place[:, 0] - place[:, 1], axis=-1) > 180
    return {"place": place[keep], "speed": speed[keep], "axes": turned[keep], "flying": flying[keep]}


def ours(found: dict[str, np.ndarray], teams: tuple[int, int]) -> np.ndarray:
    """i64[N, 2, 3]: bumps, demolitions, and the number of times demolished of each car."""

    def begin(place, speed, turned, flying):
        cars = cars_at(vec(place), axes(turned), np.full(2, 50, np.float32))
        fast = np.float32(2200) <= (speed**2).sum(-1) ** 0.5
        cars = cars.replace(velocity=vec(speed), on_ground=(flying == 0) & cars.on_ground, is_supersonic=fast)
        ball = Ball(*(vec(np.array(x, np.float32)) for x in ((0, 4500, 93.15), (0, 0, 0), (0, 0, 0))))
        return arena_at(PhysicsSettings(teams=teams), ball, cars, np.uint32(0))

    numbers = [np.float32(found[name]) for name in ("place", "speed", "axes", "flying")]
    arenas = jax.vmap(begin)(*numbers)
    idle = np.zeros((len(numbers[0]), 2, 8), np.float32)
    for _ in range(TICKS):
        arenas = engine(PhysicsSettings(teams=teams), 1)(arenas, idle)
    counts = arenas.counts
    return np.stack([counts.bumps, counts.demolitions, counts.demolished], -1)


def theirs(simulator, found: dict[str, np.ndarray], teams: tuple[int, int]) -> np.ndarray:
    """As `ours`, in the reference simulator."""
    result = np.zeros((len(found["place"]), 2, 3), int)
    arena = simulator.Arena(simulator.GameMode.SOCCAR)
    team = simulator.Team.BLUE, simulator.Team.ORANGE
    cars = [arena.add_car(team[number]) for number in teams]
    number = {car.id: k for k, car in enumerate(cars)}
    row = [0]

    def on_bump(*, bumper, victim, is_demo, **_):
        result[row[0], number[bumper.id], 1 if is_demo else 0] += 1
        result[row[0], number[victim.id], 2] += is_demo

    arena.set_car_bump_callback(on_bump)
    as_vec = lambda values: simulator.Vec(*(float(value) for value in values))  # noqa: E731
    ball = arena.ball.get_state()
    for row[0] in range(len(result)):
        ball.pos, ball.vel, ball.ang_vel = as_vec((0, 4500, 93.15)), as_vec((0, 0, 0)), as_vec((0, 0, 0))
        arena.ball.set_state(ball)
        for k, car in enumerate(cars):
            state = simulator.CarState()
            state.pos, state.vel = as_vec(found["place"][row[0], k]), as_vec(found["speed"][row[0], k])
            state.rot_mat = simulator.RotMat(*(as_vec(axis) for axis in found["axes"][row[0], k]))
            state.is_on_ground = not found["flying"][row[0]]
            state.is_supersonic = bool(np.linalg.norm(found["speed"][row[0], k]) >= 2200)
            state.boost = 50.0
            car.set_state(state)
        arena.step(TICKS)
    return result


@pytest.fixture(scope="module")
def simulator():
    pytest.importorskip("RocketSim", reason="pip install 'jaxrl[rlgym]'")
    return rocketsim.started()


@pytest.mark.slow
@pytest.mark.parametrize("teams", TEAMS)
def test_bumps_and_demolitions(teams, simulator) -> None:
    found = encounters(ENCOUNTERS)
    mine, right = ours(found, teams), theirs(simulator, found, teams)
    assert (right.sum((1, 2)) > 0).mean() > 0.3
    assert (right[..., 1].sum() > 20) == (teams == (0, 1))
    assert (mine == right).all((1, 2)).mean() >= 0.985


def test_the_first_tick_after_a_start_is_like_any_other(simulator) -> None:
    """A car that a ramp presses moves the same in a new arena and in a used one."""
    start = car_soccer_recordings.ramp(np.random.default_rng(0))
    new, used = (car_soccer_recordings.Recorder(simulator, (0,), start) for _ in range(2))
    used.arena.step(TICKS)
    used.arena.remove_car(used.cars[0])  # whose wheels remember their pushes
    used.cars = [used.arena.add_car(0, 0)]
    used.cars[0].set_state(new.cars[0].get_state())
    used.arena.ball.set_state(new.arena.ball.get_state())
    for recorder in (new, used):
        recorder.press(np.array([[1.0, 0, 0, 0, 0, 0, 0, 0]]))
        recorder.arena.step(5)
    places = [recorder.cars[0].get_state().pos.as_tuple() for recorder in (new, used)]
    np.testing.assert_allclose(*places, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_recordings_are_recorded_again(simulator, tmp_path) -> None:
    """`python -m scripts.car_soccer_recordings` writes the files that are in the repository."""
    assert car_soccer_recordings.main([str(tmp_path)]) == 0
    for name in car_soccer_recordings.FILES:
        folders = tmp_path, car_soccer_recordings.FOLDER
        read = [json.loads(gzip.decompress((folder / name).read_bytes())) for folder in folders]
        assert read[0] == read[1], name
