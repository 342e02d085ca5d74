"""Learning on the host: a small game whose values are known, and everything that a run does besides training."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.metric_log import read_rows
from jaxrl_envs.shared.section import Schedule
from tests.support.host_games import HostTicTacToe
from tests.support.sebulba_training import sebulba_config, sebulba_program
from tests.support.small_runs import configure, train
from tests.support.training import run
from tests.training.test_learning import against_random


@pytest.mark.slow
def test_tic_tac_toe_by_self_play():
    """As in tests/training/test_learning.py, by actor threads and an engine in Python, in a tenth of the steps."""
    config = sebulba_config(
        hidden=(64, 64),
        updates=30,
        calls=2,
        num_envs=64,
        num_steps=32,
        epochs=4,
        minibatches=4,
        learning_rate=Schedule("linear", 3e-3, 3e-4),
        entropy_coef=Schedule("linear", 0.1, 0.01),
    )
    env = HostTicTacToe()
    program = sebulba_program(config, env)
    state, metrics = run(program, program.init(0), 2)
    program.close()
    first, second = (tally.rates() for tally in against_random(config, env, state.learner.params, deals=300))
    # A random player wins 0.585 from the first seat and 0.288 from the second, and loses 0.288 and 0.585.
    assert first[0] > 0.8 and first[2] < 0.1
    assert second[0] > 0.6 and second[2] < 0.2
    assert metrics["train/explained_variance"] > 0.1


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    configure(
        home,
        "tests.support.host_games:HostTicTacToe",
        8,
        env={"options": {"opening": True}},
        league={"opponents": ["self", "snapshots", "bots"], "snapshots": 2, "snapshot_every": 2},
        sebulba={"threads": 2, "profile": True},
        train={"num_envs": 16},
    )
    return home


@pytest.mark.thorough
def test_a_run_evaluates_exploits_and_is_continued(home, capsys):
    """The best checkpoint is kept, best responses join the pool, a new run goes on."""
    overrides = ["train.evaluate_every=4", "exploit.every=6", "exploit.updates=2"]
    assert train(home, "first", *overrides) == 0
    directory = runs.RunDirectory(home / "runs" / "first")
    rows = read_rows(directory.metrics_file)
    assert [row["update"] for row in rows if "eval/random/return" in row] == [4, 8]
    assert [row["update"] for row in rows if "exploit/gain" in row] == [6]
    best = json.loads(directory.best_file.read_text())
    assert directory.best().steps() == [best["update"]]
    training = [row for row in rows if "train/loss" in row]
    assert [row["time/total_timesteps"] for row in training] == [128, 256, 384, 512]
    parts = {tag.rsplit("/")[-1] for tag in training[-1] if tag.startswith("time/ms_per_1000_steps/")}
    assert parts >= {"action", "env_step", "opponent_turn", "forward", "backward", "log"}
    assert all(training[-1][f"time/ms_per_1000_steps/{part}"] > 0 for part in ("action", "env_step", "backward"))
    pool = {name: array for name, array in directory.checkpoints().read(6).arrays.items() if name.startswith("pool.")}
    assert pool["pool.order"].max() == 3  # after 2, 4 and 6 updates, and the best response
    assert pool["pool.role"].tolist() == [0, 1]
    printed = capsys.readouterr().out
    assert "\n| random " in printed and re.search(r"\n\| snapshot_1 +\| exploiter +\| 6 ", printed)

    assert train(home, "second", "train.from_run=first", f"train.total_steps={12 * 64}") == 0
    second = runs.RunDirectory(home / "runs" / "second")
    rows = [row for row in read_rows(second.metrics_file) if "train/loss" in row]
    assert [row["update"] for row in rows] == [10, 12] and rows[-1]["time/total_timesteps"] == 12 * 64
    begun, source = second.checkpoints().read(10), directory.checkpoints()
    assert begun.arrays["pool.born"].max() == 10  # a snapshot of its own, and the newest of the first run's
    assert begun.arrays["pool.born"].min() == 6 and source.read(6).meta["params_hash"]
    assert int(begun.arrays["games.lo"]) > int(source.read(8).arrays["games.lo"])


def test_a_continued_run_begins_with_the_parameters_of_the_other_one(home):
    """Also what the first rollouts in flight are played with."""
    from jaxrl import config as configs
    from jaxrl.training.launching.start import make_training
    from jaxrl.training.plan import make_plan

    if not (home / "runs" / "first" / "config.yaml").exists():
        assert train(home, "first") == 0
    config = configs.load(
        home / "tiny.yaml", ["run.name=third", "train.from_run=first", f"train.total_steps={99 * 64}"]
    )
    trainer = make_training(make_plan(config), runs.new_run(config), resume=False)
    trainer.close()
    saved = runs.RunDirectory(home / "runs" / "first").checkpoints().newest().meta["params_hash"]
    assert checkpoint.params_hash(trainer.params) == saved
    [acting] = trainer.state.acting
    assert checkpoint.params_hash(acting.policy.params) == saved and int(acting.version) == trainer.update == 8
    assert np.all(jax.device_get(acting.pool.born) == jax.device_get(trainer.state.pool.born))
    assert not np.any(trainer.state.pool.stale) and jnp.any(acting.pool.stale)
