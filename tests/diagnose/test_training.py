"""A training as something to measure: what is switched off, what its threads count."""

from __future__ import annotations

import json

import pytest

from jaxrl import config as configs
from jaxrl.diagnose.training import MeasuredTraining, comparable
from jaxrl.games import make_env
from jaxrl.training.timers import NAMES

SMALL = ["train.num_envs=8", "train.num_steps=4", "ppo.minibatches=2", "ppo.epochs=1", "train.updates_per_call=1"]
SMALL += ["network.hidden=[8]", "run.devices=1"]
GAMES = "tests.support.games:TicTacToe", "tests.support.host_games:HostTicTacToe"


def test_early_stops_are_off_while_measuring():
    config = comparable(configs.load(None, [*SMALL, "env.id=" + GAMES[0], "ppo.target_kl=0.1", "run.seeds=3"]))
    assert config.ppo.target_kl == 0.0 and config.run.seeds == 1


@pytest.fixture(scope="module")
def learning():
    """A training with its counters on, after three calls."""
    config = configs.load(None, [*SMALL, "env.id=" + GAMES[1], "sebulba.actors=2", "sebulba.groups=2"])
    training = MeasuredTraining(config, make_env(config), profile=True)
    for _ in range(3):
        training.block()
    yield training
    training.close()


def test_training_counts_where_its_time_goes(learning):
    found, facts = learning.contestant("training"), learning.facts()
    assert found.units == 32.0
    assert {"action", "env_step", "backward"} <= set(facts["counters"]) <= set(NAMES)
    assert all(value > 0 for name, value in facts["counters"].items() if name != "opponent_turn")
    assert 0 < facts["figures"]["engine_busy"] <= 1 and facts["threads"]["actor"] == 2
    json.dumps(facts)
