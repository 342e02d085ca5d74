"""DQN for games on the host: whole trainings, which learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.training.make import make_program
from jaxrl.training.program import Failed
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs.shared.section import Schedule
from tests.support.dqn_training import action_values, dqn_config, train
from tests.support.host_games import HostTicTacToe
from tests.support.nim import LARGEST, HostNim, best
from tests.support.training import assert_identical, run


@pytest.mark.thorough
def test_threads_groups_and_actors_change_nothing_but_the_clock() -> None:
    results = []
    for sebulba in (SebulbaConfig(threads=1, groups=1), SebulbaConfig(threads=2, groups=4, actors=2, profile=True)):
        config = dqn_config(seats=(SeatMix(learners=1, bots=("random", "lowest")),), sebulba=sebulba, updates=3)
        _, state, metrics = train(HostTicTacToe(), config, 2)
        results.append(state)
        assert metrics["train/update_ratio"] == 1.0 and 0.0 <= metrics["time/engine_busy"] <= 1.0
        assert ("time/ms_per_1000_steps/replay_sample" in metrics) == sebulba.profile
    assert_identical(results[0], results[1])


@pytest.mark.thorough
def test_nim_by_self_play() -> None:
    """Every won heap is played right, and its value is near 1."""
    config = dqn_config(
        hidden=(64, 64), updates=100, calls=4, batch=64, gamma=1.0, epsilon=Schedule("linear", 1.0, 0.02, until=0.25)
    )
    env = HostNim()
    _, state, _ = train(env, config, 4)
    heaps = np.arange(1, LARGEST + 1)
    q = action_values(config, env, state, np.eye(LARGEST + 1, dtype=np.float32)[1:], np.arange(3) < heaps[:, None])
    won = np.array([bool(best(heap)) for heap in heaps])
    for heap, values in zip(heaps[won], q[won], strict=True):
        assert int(np.argmax(values)) in best(heap), heap
    np.testing.assert_allclose(q.max(axis=1)[won], 1.0, atol=0.25)
    assert np.all(q.max(axis=1)[~won] < 0.0)


@pytest.mark.thorough
def test_beats_random_play_and_counts_the_results_of_a_pool() -> None:
    league = LeagueConfig(opponents=("random", "lowest"))
    config = dqn_config(
        league=league,
        hidden=(64,),
        updates=100,
        calls=3,
        batch=64,
        gamma=1.0,
        epsilon=Schedule("linear", 1.0, 0.0, until=0.25),
    )
    _, state, metrics = train(HostTicTacToe(), config, 3)
    assert metrics["rollout/ep_rew_mean"] > 0.8 and metrics["rollout/stat_won"] > 0.9
    assert metrics["league/win_rate/lowest"] > 0.9 and metrics["league/games/random"] > 100
    assert float(state.pool.elo[0]) > 1100


def test_a_broken_engine_stops_the_run_and_leaves_a_good_state() -> None:
    class Broken(HostTicTacToe):
        def __init__(self) -> None:
            super().__init__()
            self.game.fault = self._fault

        def _fault(self, board: Any, action: int) -> None:
            if board.slot == 5 and board.episode == 9:
                raise ZeroDivisionError("house rule 7")

    config = dqn_config(updates=20, calls=1, sebulba=SebulbaConfig(threads=1))
    broken = make_program(config, Broken())
    state, _, updates = broken.advance(broken.init(0))
    assert 0 < int(state.update) < 20 and updates == int(state.update)
    with pytest.raises(Failed, match="the engine of host_tic_tac_toe failed in game 5: .*house rule 7"):
        broken.advance(state)
    broken.close()
    broken.game.fault = None  # type: ignore[attr-defined]
    state, _ = run(broken, state)
    broken.close()
    assert int(state.update) == 20


def test_a_state_is_not_changed_by_the_next_call_but_for_the_big_arrays() -> None:
    """Those of the memory are handed on, as the protocol says: the state is donated."""
    config = dqn_config(updates=3, learning_starts=250)
    dqn, state, _ = train(HostTicTacToe(), config, 1)
    lanes, blobs = state.lanes, state.lanes.blobs.copy()
    dqn.advance(state)
    dqn.close()
    np.testing.assert_array_equal(lanes.blobs, blobs)
