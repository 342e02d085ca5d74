"""The learner learns: small games whose values are known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.registry import trained_player
from jaxrl.config import Config
from jaxrl.league.config import SeatMix
from jaxrl.matches.evaluate import evaluate_players
from jaxrl.matches.outcomes import GameTally
from jaxrl.players.player import bot_player
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe
from tests.support.training import small_config, train, values_of


def against_random(config: Config, env: Env, params, deals: int = 1000) -> list[GameTally]:
    """Results of the learner, sampling, from each seat against a random player."""
    learner = trained_player(config, env, "learner", params, greedy=False)
    (row,) = evaluate_players(env, [learner], [bot_player(env, "random")], deals=deals, seed=123)
    return row.samples.outcomes.by_place()


@pytest.mark.thorough
def test_tic_tac_toe_by_self_play() -> None:
    """The first seat hardly ever loses to a random player, who would lose 0.585 - 0.288 more than it wins."""
    config = small_config(
        hidden=(64, 64),
        updates=50,
        calls=3,
        num_envs=128,
        num_steps=32,
        epochs=4,
        minibatches=4,
        learning_rate=Schedule("linear", 2e-3, 2e-4),
        entropy_coef=Schedule("linear", 0.1, 0.005),
    )
    env = TicTacToe()
    _, state, metrics = train(env, config, 3)
    first, second = (tally.rates() for tally in against_random(config, env, state.learner.params))
    assert first[0] > 0.8 and first[2] < 0.03
    assert second[0] > 0.6 and second[2] < 0.08
    assert metrics["rollout/ep_len_mean"] > 8.0  # between equals the game is a draw


def test_corridor_values_with_truncation() -> None:
    """Always right is learnt, and from every cell the value is gamma to the power of the steps to go: the cuts, which a
    learner cannot foresee, do not lower it. Taken for ends they would."""
    gamma, length = 0.9, 6
    config = small_config(
        updates=60, num_envs=32, num_steps=16, gamma=gamma, value_clip=0.0, learning_rate=Schedule("linear", 5e-3, 1e-4)
    )
    env = Corridor(length=length, limit=3)
    anakin, state, metrics = train(env, config, 2)
    values = values_of(anakin, state.learner.params, jnp.eye(length, dtype=bool)[:-1])
    np.testing.assert_allclose(values, gamma ** np.arange(length - 2, -1, -1), atol=0.06)
    assert metrics["train/entropy_loss"] > -0.2


@pytest.mark.thorough
def test_a_learner_between_bots_beats_them() -> None:
    """High card against two players of the lowest card: rewards reach a seat between its turns."""
    config = small_config(
        seats=(SeatMix(learners=1, bots=("lowest",)),),
        hidden=(64,),
        updates=60,
        num_envs=64,
        num_steps=27,
        epochs=4,
        learning_rate=Schedule("linear", 3e-3, 3e-4),
    )
    _, _, metrics = train(HighCard(), config, 1)
    assert metrics["rollout/ep_rew_mean"] > 1.1  # the mean over the whole call, the random beginning included
    assert metrics["train/explained_variance"] > 0.2


def test_a_simultaneous_game_keeps_its_value() -> None:
    """A uniformly random opponent cannot be exploited: the value stays near 0, and no seat plays an illegal action."""
    config = small_config(seats=(SeatMix(learners=1, bots=("random",)),), updates=20, num_envs=64)
    _, _, metrics = train(RockPaperScissors(no_repeat=True), config, 2)
    assert abs(metrics["rollout/ep_rew_mean"]) < 0.5
    assert metrics["rollout/illegal"] == 0.0
