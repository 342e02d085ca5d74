"""Games on the host in several processes that train together: each plays its share, the bits are those of one."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl.runs.checkpoints.checkpoint import CheckpointStore
from jaxrl.training.launching.start import check_processes
from jaxrl.training.sebulba.remote.config import FleetConfig
from jaxrl_envs.shared.errors import UserError
from tests.support.dqn_training import dqn_config
from tests.support.host_games import HostTicTacToe
from tests.support.killing import assert_same, newest, rows
from tests.support.sebulba_training import sebulba_config
from tests.training import test_distributed
from tests.training.test_distributed import TREE, alone, configure, start, together, trains, until_saved

home = test_distributed.home  # the fixture

BATTLE: dict[str, Any] = {
    "base": "battle_speed",
    "network": {"hidden": [8]},
    "league": {"opponents": ["self", "snapshots", "turtle"], "snapshots": 2, "snapshot_every": 2},
    "ppo": TREE["ppo"] | {"entropy_coef": {"kind": "constant", "start": 0.01}},  # whatever the steps at its end
    "sebulba": {"actors": 2, "threads": 2},
    "train": {"num_envs": 8, "num_steps": 8, "total_steps": 8 * 64, "updates_per_call": 2, "stagger": 3},
    "run": {"devices": 2, "cache_dir": ""},
}

# Trains, and continues from the checkpoint for further updates; process 0 prints the outcome.
PLAYING = """
import sys
from pathlib import Path
import jax
from jaxrl import config as configs
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.games import make_games
from jaxrl.training.launching.start import check_processes
from jaxrl.training.make import make_program

store = checkpoint.CheckpointStore(Path(sys.argv[1]))

def saved(program, state, step):
    store.save(checkpoint.take(step, program.saved(state), checkpoint.Stamp("game", "1", {})))
    store.wait()
    return store.newest(quarantine=True)

def run():
    if "--rank" in sys.argv:
        distributed.join(sys.argv[-5], int(sys.argv[-3]), int(sys.argv[-1]))
    distributed.connect_devices()
    config = configs.load("c.yaml")
    program = make_program(config, make_games(config).training)
    state = program.init(0)
    for update in (2, 4, 6):
        state, found, done = program.advance(state)
        assert done == 2
        if update == 4 and "again" in sys.argv:
            program.close()
            kept = saved(program, state, update)
            state = program.restored(checkpoint.unpack(kept.arrays, kept.meta["leaves"], program.abstract_state))
    program.close()
    saved(program, state, 6)
    return 0

sys.exit(distributed.exit_together(run))
"""


@pytest.mark.slow
def test_processes_share_the_games_on_the_host(home):
    """Battle with a pool and a lag: two processes, stopped and resumed, are one process with two devices."""
    (home / "c.yaml").write_text(yaml.safe_dump(BATTLE))
    found = together(2, "two", "again", program=("-c", PLAYING))
    assert {code for code, *_ in found} == {0}, found
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    command = [sys.executable, "-c", PLAYING, "one"]
    subprocess.run(command, check=True, env=os.environ | {"XLA_FLAGS": flags})
    one, two = (CheckpointStore(home / name).newest() for name in ("one", "two"))
    assert_same(one, two)
    assert two.meta["leaves"]["lanes.blobs"]["axis"] == 0 and "axis" not in one.meta["leaves"]["lanes.blobs"]
    assert one.arrays["pool.born"].max() > 0 and np.any(one.arrays["lanes.controllers"])


@pytest.mark.slow
def test_host_games_are_evaluated_and_go_on_in_another_number_of_processes(home):
    more: dict[str, Any] = {"evaluate": {"opponents": ["random"], "training_deals": 4, "deals": 4}}
    train = BATTLE["train"] | {"evaluate_every": 4, "checkpoint_every": 4}
    (home / "c.yaml").write_text(yaml.safe_dump(BATTLE | more | {"train": train}))
    alone("train", "--config", "c.yaml", "--name", "one")
    trains(2, "train", "--config", "c.yaml", "--name", "two", "train.total_steps=256")
    alone("resume", "runs/two", "--steps", "384")
    trains(2, "resume", "runs/two", "--steps", "512")
    assert_same(newest(home, "one"), newest(home, "two"))
    assert rows(home, "one")[-1] == rows(home, "two")[-1]
    codes, _, errors = zip(*together(4, "resume", "runs/two", "--steps", "1024", "run.devices=0"), strict=True)
    assert set(codes) == {2} and "sebulba.actors (2) must be divisible by the number of processes (4)" in errors[0]


@pytest.mark.slow
def test_an_engine_that_fails_ends_all_of_them(home, monkeypatch):
    """Its process says so; all have saved the state before, from which they go on as if nothing had happened."""
    trouble = home / "trouble"
    monkeypatch.setenv("TROUBLE", str(trouble))
    env = {
        "env": {"id": "tests.support.sebulba_training:Troubled"},
        "sebulba": {"actors": 2, "threads": 2, "timeout": 120.0},
    }
    configure(home, **env, train=TREE["train"] | {"num_envs": 32, "total_steps": 1 << 20, "evaluate_every": 0})
    started = start(2, "train", "--config", "c.yaml", "--name", "run", "run.devices=2")
    until_saved(home / "runs" / "run", 8)
    trouble.touch()
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [2, 2], errors
    assert "the engine of host_tic_tac_toe failed in game 17: " in errors[1] and "the dice are lost" in errors[1]
    assert "the training stopped and is saved after update" in errors[0] and "Traceback" not in errors[0]
    trouble.unlink()
    step = newest(home, "run").step
    trains(2, "resume", "runs/run", "--steps", str((step + 4) * 256))
    alone("train", "--config", "c.yaml", "--name", "one", "run.devices=2", f"train.total_steps={(step + 4) * 256}")
    assert_same(newest(home, "one"), newest(home, "run"))


@pytest.mark.slow
def test_a_signal_to_one_process_stops_the_games_of_all(home):
    (home / "c.yaml").write_text(yaml.safe_dump(BATTLE | {"train": BATTLE["train"] | {"total_steps": 1 << 20}}))
    settings = ("train.checkpoint_every=2", "train.updates_per_call=2", "train.evaluate_every=0")
    started = start(2, "train", "--config", "c.yaml", "--name", "run", *settings)
    until_saved(home / "runs" / "run", 2)
    started[1].send_signal(signal.SIGTERM)
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [128 + signal.SIGTERM] * 2, errors
    assert len(newest(home, "run").meta["shares"]) == 2


def test_host_games_that_stay_in_one_process_say_so(monkeypatch):
    test_distributed.as_process(monkeypatch, 0, 2)
    remote = HostTicTacToe(opening=True)
    remote.game.remote = True
    two = {"actors": 2}
    for config, env, sentence in (
        (dqn_config(), HostTicTacToe(opening=True), "dqn learns on one device and so trains in one process alone"),
        (sebulba_config(sebulba=two), remote, "is played by engines of other processes and so trains in one process"),
        (
            sebulba_config(),
            HostTicTacToe(opening=True),
            r"sebulba.actors \(1\) must be divisible by the number of proc",
        ),
        (
            dataclasses.replace(sebulba_config(sebulba=two), fleet=FleetConfig(workers=2)),
            HostTicTacToe(opening=True),
            "fleet.workers plays games on other machines already",
        ),
    ):
        with pytest.raises(UserError, match=sentence):
            check_processes(config, env)
