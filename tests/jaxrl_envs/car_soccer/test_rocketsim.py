"""Recordings of the reference simulator, where that is installed: pip install 'jaxrl[rlgym]'."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from jaxrl_envs.car_soccer.simulators import rocketsim
from scripts import car_soccer_recordings


@pytest.fixture(scope="module")
def simulator():
    pytest.importorskip("RocketSim", reason="pip install 'jaxrl[rlgym]'")
    return rocketsim.started()


def test_the_first_tick_after_a_start_is_like_any_other(simulator) -> None:
    """A car that a ramp presses moves the same in a new arena and in a used one."""
    start = car_soccer_recordings.ramp(np.random.default_rng(0))
    new, used = (car_soccer_recordings.Recorder(simulator, (0,), start) for _ in range(2))
    used.arena.step(60)
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
