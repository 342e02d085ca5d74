"""Trainings whose games are played by workers of Ray, and whatever happens to these: the same run as at home.

KILLS=10 python -m pytest -n0 -s -m slow tests/training/sebulba/test_ray_workers.py
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl.runs.directory import load_run
from tests.support.forge.fake import fake_home, fake_java
from tests.support.killing import rows
from tests.support.paths import PYTHONPATH
from tests.support.ray_cluster import Cluster, cluster, family, kill, needs_ray, wait, workers_of

pytestmark = [pytest.mark.slow, needs_ray]

KILLS, PAUSE = int(os.environ.get("KILLS", "10")), 30.0  # of machines, and seconds between two
LINES = 30  # updates for each of them
BATTLE: dict[str, Any] = {
    "env": {"id": "battle"},
    "league": {"opponents": ["self", "snapshots", "bots"], "snapshots": 2},
    "network": {"hidden": [32]},
    "sebulba": {"threads": 1},
    "train": {"num_envs": 16, "num_steps": 32, "total_steps": 16384, "updates_per_call": 2, "evaluate_every": 0},
    "evaluate": {"deals": 2, "opponents": ["random"]},
}


class Trainings:
    """Runs of one configuration in a folder.

    Attributes:
      environment: beside that of this process.
    """

    def __init__(self, home: Path):
        self.home, self.environment = home, {"PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"}
        self.processes: list[subprocess.Popen] = []

    def of(self, tree: dict[str, Any], **train: Any) -> None:
        """Says what is trained."""
        self.config = self.home / "config.yaml"
        self.config.write_text(yaml.safe_dump(tree | {"train": tree["train"] | train}))

    def start(self, name: str, *changes: str) -> subprocess.Popen:
        where = f"run.directory={self.home / 'runs'}"
        return self.jaxrl("train", "--config", str(self.config), "--name", name, where, *changes)

    def jaxrl(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "jaxrl", *words]
        self.processes.append(subprocess.Popen(command, env=os.environ | self.environment))
        return self.processes[-1]

    def whole(self, name: str, *changes: str) -> None:
        assert self.start(name, *changes).wait(1800) == 0

    def lines(self, name: str) -> int:
        """Of its metrics so far."""
        file = self.home / "runs" / name / "metrics.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def log(self, name: str) -> str:
        return (self.home / "runs" / name / "log.txt").read_text()

    def assert_same(self, name: str, other: str) -> None:
        """Parameters and metrics, bit by bit."""
        assert load_run(self.home / "runs" / name).params_hash == load_run(self.home / "runs" / other).params_hash
        assert rows(self.home, name) == rows(self.home, other)


@pytest.fixture
def trainings(tmp_path):
    """Trainings of battle; whatever still runs at the end of a test is ended."""
    made = Trainings(tmp_path)
    made.of(BATTLE)
    yield made
    for process in made.processes:
        if process.poll() is None:
            kill(process.pid)


def killed_now_and_then(trainings: Trainings, away: subprocess.Popen, name: str) -> int:
    """kill -9 of a worker whenever the run has come further since the last one; how many."""
    killed, drawn = 0, np.random.default_rng(0)
    while away.poll() is None:
        time.sleep(drawn.uniform(0.1, 2.0))
        if trainings.lines(name) > killed and (found := workers_of(away.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(drawn.choice(found)), signal.SIGKILL)
                killed += 1
    assert away.returncode == 0
    return killed


def test_a_run_of_killed_workers_is_that_of_a_quiet_life(trainings):
    trainings.whole("home")
    away = trainings.start("away", "fleet.workers=2")
    assert killed_now_and_then(trainings, away, "away") >= 3
    trainings.assert_same("home", "away")
    assert "are played again" in trainings.log("away")


def test_a_run_that_is_told_to_stop_is_saved_and_its_workers_end(trainings):
    """SIGTERM, then on with another number of workers; meanwhile nothing listens but on the loopback interface."""
    trainings.whole("home")
    away = trainings.start("away", "fleet.workers=2")
    wait(lambda: trainings.lines("away") >= 3, 300.0, "it trains")
    members = family(away.pid)
    assert len(workers_of(away.pid)) == 2
    listening = [line.split() for line in subprocess.check_output(["ss", "-ltnpH"], text=True).splitlines()]
    ours = [line[3] for line in listening if any(f"pid={pid}," in line[-1] for pid in members)]
    assert len(ours) >= 5 and all(each.startswith(("127.0.0.1:", "[::ffff:127.0.0.1]:")) for each in ours), ours
    away.terminate()
    assert away.wait(120) == 128 + signal.SIGTERM
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in members), 60.0, "all its processes have ended")
    saved = trainings.lines("away")
    assert 3 <= saved < trainings.lines("home")
    assert trainings.jaxrl("resume", str(trainings.home / "runs" / "away"), "fleet.workers=4").wait(600) == 0
    trainings.assert_same("home", "away")


def test_machines_that_come_and_go(trainings):
    """Every half minute one of two machines that play is gone, and a new one joins, which takes the worker over."""
    trainings.of(BATTLE, updates_per_call=1, total_steps=16 * 32 * LINES * KILLS)
    trainings.whole("home")
    with cluster() as machines, ThreadPoolExecutor(1) as thread:
        trainings.environment |= machines.environment
        machines.add("127.0.1.1"), machines.add("127.0.1.2")
        away = trainings.start("away", "fleet.workers=2", f"fleet.address={machines.address}")
        wait(lambda: trainings.lines("away") or away.poll() is not None, 300.0, "it trains")
        kills, seen = thread.submit(machines_killed, machines, away), []
        while away.poll() is None:
            seen.append((time.monotonic(), trainings.lines("away")))
            time.sleep(0.2)
        gone = kills.result()
    assert away.returncode == 0
    trainings.assert_same("home", "away")
    assert len(gone) == KILLS and "are played again" in trainings.log("away")
    for at, joined in gone:
        had = max((lines for when, lines in seen if when <= at), default=0)
        on = next((when for when, lines in seen if lines > had + 2), seen[-1][0])  # two may be of what had been played
        print(
            f"{at - seen[0][0]:.0f} s, line {had}: gone; {joined - at:.1f} s: another; {on - at:.1f} s: it trains again"
        )
    print(f"{seen[-1][1]} lines in {seen[-1][0] - seen[0][0]:.0f} s")


def machines_killed(machines: Cluster, training: subprocess.Popen) -> list[tuple[float, float]]:
    """Removes the oldest machine and adds a new one, time and again; when each was gone, and when another was there."""
    begin, done = time.monotonic(), []
    while len(done) < KILLS and training.poll() is None:
        time.sleep(max(0.0, begin + PAUSE * len(done) - time.monotonic()))
        machines.remove(machines.machines[0])
        gone = time.monotonic()
        machines.add(f"127.0.1.{3 + len(done)}")
        done.append((gone, time.monotonic()))
    return done


def test_engines_that_are_processes_end_with_their_worker_and_play_the_same_games(trainings, monkeypatch):
    """Magic, played by daemons of the tests: two workers with two each, of which one is killed amid its games."""
    (trainings.home / "scripted").touch()
    home, java = fake_home(trainings.home), fake_java(trainings.home)
    tree = {
        "env": {"id": "forge", "options": {"decks": ["sprint", "sprint"]}},
        "forge": {"home": str(home), "java": str(java), "daemons": 2, "decision_timeout": 5, "start_timeout": 60},
        "network": {"kind": "candidates", "candidates": {"dim": 8, "layers": 1, "embedding": 2}},
        "sebulba": {"actors": 2, "groups": 1, "timeout": 900},
        "train": {"num_envs": 4, "num_steps": 16, "total_steps": 64 * 12, "updates_per_call": 2, "evaluate_every": 0},
        "evaluate": {"deals": 2, "opponents": ["random"]},
    }
    trainings.of(tree)
    monkeypatch.setenv("JAXRL_ALLOW", f"{home},{java}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(trainings.home / "cache"))
    trainings.whole("home", "forge.daemons=4")
    away = trainings.start("away", "fleet.workers=2")
    wait(lambda: trainings.lines("away") >= 2, 300.0, "it trains")
    worker, other = workers_of(away.pid)
    engines = family(worker)[1:]
    assert len(engines) >= 2 and len(family(other)) >= 3
    os.kill(worker, signal.SIGKILL)
    wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in engines), 60.0, "its engines end with it")
    assert away.wait(1800) == 0
    trainings.assert_same("home", "away")
    assert "are played again" in trainings.log("away")
