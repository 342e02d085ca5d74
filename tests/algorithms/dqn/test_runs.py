"""DQN runs from the command line: evaluated, exported, and met by others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import GameForms, compare
from jaxrl.policies.export import load_policy
from jaxrl.runs.metric_log import read_rows
from jaxrl_envs.shared.errors import UserError
from tests.support.dqn_training import SMALL_DQN, dqn_config
from tests.support.nim import HostNim
from tests.support.small_runs import configure, train

pytestmark = pytest.mark.thorough

GAMES = {"compiled": "examples.nim:Nim", "host": "tests.support.nim:HostNim"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration for each game, and a run of each."""
    home = tmp_path_factory.mktemp("runs")
    for name, game in GAMES.items():
        configure(
            home,
            game,
            12,
            name=name,
            network={"hidden": [16]},
            seats=[{"learners": 1, "bots": ["random"]}],
            sebulba={"threads": 1},
            dqn=SMALL_DQN,
            train={"algorithm": "dqn", "num_steps": 8, "checkpoint_every": 4, "evaluate_every": 6},
            evaluate={"deals": 8, "training_deals": 8},
        )
        assert train(home, name, config=name) == 0
    return home


@pytest.mark.parametrize("game", GAMES)
def test_what_is_logged(home: Path, game: str) -> None:
    rows = read_rows(home / "runs" / game / "metrics.jsonl")
    found = {tag: value for row in rows for tag, value in row.items()}
    wanted = "loss td_error q_mean grad_norm learning_rate epsilon beta update_ratio replay".split()
    assert {f"train/{name}" for name in wanted} <= found.keys()
    assert {"rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/games", "time/fps"} <= found.keys()
    assert found["train/update_ratio"] == 0.5  # 2 batches of 16 for 8 x 8 steps
    assert found["time/total_timesteps"] == 12 * 64


@pytest.mark.parametrize("game", GAMES)
def test_evaluated_exported_and_met_by_others(home: Path, game: str, tmp_path: Path, capsys: Any) -> None:
    run = str(home / "runs" / game)
    assert cli.main(["evaluate", run, "--deals", "8"]) == 0
    assert cli.main(["tournament", run, "bots", "--deals", "8", "--out", str(tmp_path / "cup")]) == 0
    assert cli.main(["export", run, str(tmp_path / "nim.jaxrl")]) == 0
    assert json.loads((home / "runs" / game / "evaluation.json").read_text())
    policy = load_policy(tmp_path / "nim.jaxrl")
    spec = policy.env.observation_spec
    observation = np.asarray(np.arange(spec.shape[0]) == 2, spec.dtype)
    probabilities = policy.probabilities(observation, [True, True, False])
    assert probabilities[2] == 0.0 and sorted(probabilities) == [0.0, 0.0, 1.0]
    action = policy.act(observation, [True, True, False], greedy=False)
    assert action == int(np.argmax(probabilities)) == policy.act(observation, [True, True, False])
    assert np.isfinite(policy.value(observation, [True, True, False]))
    with pytest.raises(UserError, match="give the mask too"):
        policy.value(observation)


def test_what_needs_probabilities_says_so(home: Path, capsys: Any) -> None:
    run = str(home / "runs" / "compiled")
    assert cli.main(["exploit", run]) == 2
    assert "best responses cannot be trained with train.algorithm dqn" in capsys.readouterr().err


# ---- mistakes ----


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("dqn.learning_starts=200000", "dqn.learning_starts (200000) must be at most dqn.capacity (100000)"),
        ("dqn.capacity=512", "must hold two rounds of playing"),
        ("dqn.epsilon.start=1.5", "dqn.epsilon is a share of actions, at most 1"),
        ("league={opponents: [self, snapshots], snapshots: 2}", "league.snapshots is 2, but with train.algorithm dqn"),
        ("exploit.every=8", "exploit.every is 8, but"),
        ("run.devices=2", "DQN learns on one device"),
        ("train.from_run=other", "with train.algorithm dqn nothing of another run is taken over: leave it empty"),
        ("network.kind=recurrent", "network.kind is recurrent, but with train.algorithm dqn nothing is remembered"),
    ],
)
def test_mistakes_are_named(override: str, expected: str) -> None:
    with pytest.raises(UserError) as error:
        configs.load(None, ["train.algorithm=dqn", "dqn.learning_starts=100", override])
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_a_host_game_asks_for_one_seed_and_even_shares() -> None:
    with pytest.raises(UserError, match="run.seeds is 2"):
        compare(dqn_config(seeds=2), GameForms(HostNim(), HostNim()))
    with pytest.raises(UserError, match=r"divisible by sebulba.actors \* sebulba.groups \(2\)"):
        compare(dqn_config(num_envs=15), GameForms(HostNim(), HostNim()))
    dqn_config().check()
