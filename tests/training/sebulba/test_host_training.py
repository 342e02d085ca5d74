"""A host game in the programs made for compiled ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxrl.league.config import SeatMix
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.make import make_program
from tests.support.games import TicTacToe
from tests.support.host_games import HostTicTacToe
from tests.support.training import run, small_config, train


@pytest.mark.slow
def test_anakin_trains_it_like_the_compiled_game():
    """The same program, seeds and actions: also the same parameters, up to the order of sums."""
    seats = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("lowest",)))
    config = small_config(seats=seats, hidden=(8,), updates=2, calls=1, epochs=1)
    _, compiled, _ = train(TicTacToe(), config, 1)
    on_host = make_program(config, HostTicTacToe())
    fused = Anakin(config, on_host.setup, on_host.mesh)
    host, metrics = run(fused, fused.init(0))
    for left, right in zip(*(jax.tree.leaves(state.learner.params) for state in (compiled, host)), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-5)
    assert metrics["rollout/games"] > 10 and 0.0 < metrics["rollout/stat_won"] < 1.0
