"""Evaluation beside a training: the same rows, best state and milestones as within it, through kills and a dead
evaluator too."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl.runs.directory import RunDirectory, find_run
from jaxrl.training.strength import beside
from tests.support.killing import assert_same, kill, newest, rows
from tests.support.small_runs import NIM

CONFIG = (
    NIM
    + """\
train: {num_envs: 16, num_steps: 8, total_steps: 1536, updates_per_call: 1, checkpoint_every: 3, evaluate_every: 2}
evaluate: {deals: 2, training_deals: 8, opponents: [random, perfect]}
"""
)
WANTED = "train.milestones={random: [0.01, 0.5]}"
BESIDE = "evaluate.beside=true"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a run that evaluates within the training."""
    home, patch = tmp_path_factory.mktemp("home"), pytest.MonkeyPatch()
    patch.chdir(home)
    (home / "nim.yaml").write_text(CONFIG)
    assert train("here") == 0
    yield home
    patch.undo()


def train(name: str, *overrides: str) -> int:
    return cli.main(["train", "--config", "nim.yaml", "--name", name, WANTED, *overrides])


def ordered(home: Path, name: str) -> list[dict]:
    """The rows of a run: evaluations beside it come when they are made."""
    return sorted(rows(home, name), key=lambda row: (row["update"], "eval/mean_win_rate" in row))


def assert_as_here(home: Path, name: str) -> None:
    """Asserts that a run is what the one without `evaluate.beside` is."""
    assert_same(newest(home, "here"), newest(home, name))
    assert ordered(home, name) == rows(home, "here")
    both = [find_run(each) for each in ("here", name)]
    best = [json.loads(run.best_file.read_text()) for run in both]
    reached = [json.loads(run.milestones_file.read_text()) for run in both]
    assert best[0] == best[1] and [run.best().steps() for run in both] == [[best[0]["update"]]] * 2
    assert [[each["update"] for each in one] for one in reached][0] == [each["update"] for each in reached[1]]
    assert_same(both[0].best().newest(), both[1].best().newest())
    tables = [json.loads(run.evaluation_file.read_text())[-1]["rows"] for run in both]
    assert [row["outcomes"] for row in tables[0]] == [row["outcomes"] for row in tables[1]]
    assert sorted(path.name for path in both[1].replays.iterdir()) == sorted(p.name for p in both[0].replays.iterdir())
    assert not list((both[1].path / "beside" / "states").glob("[0-9]*"))


@pytest.mark.thorough
def test_the_same_comes_of_it(home, capsys):
    assert train("beside", BESIDE) == 0
    assert "the training does it now" not in capsys.readouterr().err
    assert_as_here(home, "beside")
    assert cli.main(["resume", "beside"]) == 0 and "is finished" in capsys.readouterr().out
    assert_as_here(home, "beside")


@pytest.mark.thorough
def test_what_is_pending_at_a_kill_is_made_again(home):
    kill("train", "--config", "nim.yaml", "--name", "killed", WANTED, BESIDE, at=8)
    assert newest(home, "killed").step in (3, 6)  # the write of 6 may have been under way
    assert cli.main(["resume", "killed"]) == 0
    assert_as_here(home, "killed")


@pytest.mark.thorough
def test_a_dead_evaluator_loses_nothing(home, capsys, monkeypatch):
    monkeypatch.setattr(beside.sys, "executable", "/bin/false")
    assert train("dead", BESIDE) == 0
    said = capsys.readouterr().err
    assert said.count("the process that evaluates beside the training has ended with exit code 1 (see ") == 1
    assert "the training does it now" in said
    assert_as_here(home, "dead")


@pytest.mark.thorough
def test_the_training_waits_for_an_evaluator_that_lags_so_that_stop_rules_act(home, capsys):
    """The twelve updates take less time than the process that evaluates takes to start."""
    assert train("stopped", BESIDE, "train.stop.win_rate={random: 0.01}") == 0
    assert newest(home, "stopped").step <= 2 * (1 + beside.LAG)
    assert cli.main(["resume", "stopped"]) == 0 and "'stopped' has ended after" in capsys.readouterr().out


@pytest.mark.slow
def test_an_evaluator_that_hangs_is_left_by_ctrl_c_and_resume_makes_them(home, capsys, monkeypatch, tmp_path):
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(beside.sys, "executable", str(hanging))
    wait = beside.time.sleep

    def interrupted(seconds: float) -> None:
        wait(seconds)
        if seconds == beside.WAIT and not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))

    sent: list[None] = []
    monkeypatch.setattr(beside.time, "sleep", interrupted)
    assert threading.current_thread() is threading.main_thread()
    assert train("hung", BESIDE) == cli.INTERRUPTED and sent
    said = capsys.readouterr()
    assert "continue with: jaxrl resume" in said.out
    assert [each[0] for each in newest(home, "hung").meta["host"]["pending"]] == [2, 4, 6] and beside.LAG == 2
    monkeypatch.undo()
    assert cli.main(["resume", "hung", "evaluate.beside=false"]) == 0  # here and now
    assert_as_here(home, "hung")


def test_other_files_are_left_alone(tmp_path):
    for name in ("4", "8", "notes"):
        (tmp_path / "beside").mkdir(exist_ok=True)
        (tmp_path / "beside" / f"{name}.json").write_text("{}")
    beside.Evaluator(RunDirectory(tmp_path), 6).close()
    assert sorted(path.stem for path in (tmp_path / "beside").glob("*.json")) == ["4", "notes"]


def test_mistakes_are_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nim.yaml").write_text(CONFIG)
    stages = "curriculum=[{name: a, until: {steps: 1}}, {name: b}]"
    assert train("wrong", BESIDE, stages) == 2
    error = capsys.readouterr().err
    assert "evaluate.beside does not go with a curriculum" in error and error.count("\n") == 1
    assert train("wrong", "evaluate.beside=3") == 2
    assert "evaluate.beside must be true or false" in capsys.readouterr().err
