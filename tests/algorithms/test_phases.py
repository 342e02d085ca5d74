"""Tests of metrics per phase of a game, in a training of one policy."""

from __future__ import annotations

import numpy as np

from tests.support.aim_game import Aim
from tests.support.training import program, run, small_config


def test_every_row_of_a_plain_training_has_the_phases_that_the_game_names() -> None:
    """A round of the game has two goals and four throws; its rounds are equally long."""
    anakin = program(Aim(), small_config(num_envs=16, num_steps=24))
    metrics = run(anakin, anakin.init(0))[1]
    shares = [metrics[f"{name}/share"] for name in ("phase/goal", "phase/throw", "round/1", "round/2")]
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 1 / 2, 1 / 2], atol=0.01)
    assert metrics["phase/goal/entropy"] > 0.9 > np.log(2) + 0.1 > metrics["phase/throw/entropy"] > 0.5
    assert all(np.isfinite(metrics[f"round/2/{name}"]) for name in ("return", "value_error"))
