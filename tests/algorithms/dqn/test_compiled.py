"""DQN for compiled games learns: games whose values are known."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl.league.config import LeagueConfig
from tests.support.dqn_training import action_values, dqn_config, train
from tests.support.games import Corridor, HighCard


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"exploration": "noisy"}], ids=["epsilon", "noisy"])
def test_corridor_values_with_truncation(settings: dict) -> None:
    """From cell p the best value is gamma ** (4 - p), after a step to the left gamma times that of the cell there. The
    cuts, which a learner cannot foresee, do not lower it."""
    gamma, length = 0.9, 6
    env = Corridor(length=length)
    config = dqn_config(
        hidden=(64,), updates=100, calls=3, n_step=1, gamma=gamma, target_every=100, batch=64, **settings
    )
    _, state, metrics = train(env, config, 3)
    q = action_values(config, env, state, np.eye(length, dtype=bool)[:-1], np.ones((length - 1, 2), bool))
    cells = np.arange(length - 1)
    np.testing.assert_allclose(q[:, 1], gamma ** (length - 2.0 - cells), atol=0.06)
    if not settings:  # noise does not go left for long
        np.testing.assert_allclose(q[:, 0], gamma ** (length - 1.0 - np.maximum(cells - 1, 0)), atol=0.1)
    assert np.all(np.argmax(q, axis=1) == 1)
    assert metrics["rollout/ep_rew_mean"] > 0.99 and metrics["train/update_ratio"] == pytest.approx(2.0)


@pytest.mark.thorough
def test_rewards_between_turns_and_a_pool_of_bots() -> None:
    """High card for three: rewards reach a seat between its turns; the league counts results and shifts its weights."""
    league = LeagueConfig(opponents=("self", "lowest", "random"), self_play=0.2)
    settings = {"alpha": 0.0, "batch": 64, "gamma": 1.0}
    config = dqn_config(hidden=(64,), updates=100, calls=3, league=league, **settings)
    _, state, metrics = train(HighCard(), config, 3)
    assert metrics["league/win_rate/lowest"] > 0.5 and metrics["league/games/lowest"] > 0
    assert float(state.pool.elo[0]) > 1000.0 and np.isfinite(metrics["rollout/stat_tricks"])
    assert np.unique(state.learner.replay.priority).tolist() == [0.0, 1.0]
