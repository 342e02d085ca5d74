"""Whole runs: Ctrl-C, a full disk, mistakes of the user, files that continue."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import make_games
from jaxrl.runs import directory as runs
from jaxrl.runs import metrics
from jaxrl.training import checkpoints, loop, memory_budget, reports
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.loop import UpdateTrace
from jaxrl.training.make import make_program
from jaxrl.training.reports import StallDetector
from jaxrl.training.stopping import StopRequest
from jaxrl_envs.shared.errors import UserError
from tests.support.killing import assert_same, kill, newest, rows
from tests.support.paths import PYTHONPATH
from tests.support.small_runs import configure, resume, train

UPDATES, STEPS_PER_UPDATE = 12, 8 * 4


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a tiny configuration that all tests here share."""
    home = tmp_path_factory.mktemp("runs")
    more = {"checkpoint_every": 4}
    configure(home, "tests.support.games:HighCard", UPDATES, train=more, evaluate={"deals": 4, "training_deals": 4})
    return home


def command(*arguments: str, **environment: str) -> subprocess.Popen:
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": PYTHONPATH} | environment
    start = [sys.executable, "-m", "jaxrl", *arguments]
    return subprocess.Popen(start, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def newest_steps(home: Path, name: str) -> list[int]:
    return runs.RunDirectory(home / "runs" / name).checkpoints().steps()


@pytest.fixture(scope="module")
def two_updates(home) -> Callable[[str], Path]:
    """Makes a run of two updates under another name, as a copy of one that was trained."""
    assert train(home, "two_updates", f"train.total_steps={2 * STEPS_PER_UPDATE}") == 0
    return lambda name: shutil.copytree(home / "runs" / "two_updates", home / "runs" / name)


@pytest.mark.thorough
def test_a_start_that_failed_is_not_in_the_way(home):
    """Killed before its first checkpoint: both `resume` and `train` begin again, with clean logs."""
    kill("train", "--config", str(home / "tiny.yaml"), "--name", "early", at=2)
    assert not newest_steps(home, "early") and [row["update"] for row in rows(home, "early")] == [2]
    assert resume(home, "early", f"train.total_steps={4 * STEPS_PER_UPDATE}") == 0
    assert [row["update"] for row in rows(home, "early")] == [2, 4]
    assert train(home, "early") == 2  # now there is something to lose


@pytest.mark.thorough
def test_ctrl_c_saves_and_exits_cleanly(home):
    """In a process that compiles as users' processes do; see conftest.py."""
    start = ["--config", str(home / "tiny.yaml"), "--name", "stop", "train.total_steps=1000000000"]
    child = command("train", *start, XLA_FLAGS="")
    file = home / "runs" / "stop" / "metrics.jsonl"
    deadline = time.monotonic() + 180
    while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == cli.INTERRUPTED, errors
    assert "continue with: jaxrl resume" in output
    assert newest(home, "stop").step == rows(home, "stop")[-1]["update"]
    assert resume(home, "stop", f"train.total_steps={2 * STEPS_PER_UPDATE}") == 0
    assert newest(home, "stop").step >= rows(home, "stop")[-1]["update"]


def test_ctrl_c_is_heard_after_the_output_was_closed(monkeypatch):
    """`jaxrl train … 2>&1 | tee log`: Ctrl-C ends tee first, and the state is to be saved all the same."""
    monkeypatch.setattr(sys, "stderr", os.fdopen(os.open(os.devnull, os.O_RDONLY)))  # refuses to be written
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wanted == signal.SIGINT


@pytest.mark.thorough
def test_a_run_can_be_extended(home, capsys, monkeypatch):
    monkeypatch.setattr(checkpoints, "AT_RISK", 0.0)  # what a kill may lose: every call is saved
    assert train(home, "short", f"train.total_steps={4 * STEPS_PER_UPDATE}") == 0
    assert newest_steps(home, "short") == [2, 4]
    assert resume(home, "short", "--steps", str(8 * STEPS_PER_UPDATE)) == 0
    assert newest(home, "short").step == 8
    assert runs.find_run(home / "runs" / "short").config().num_updates == 8
    table = json.loads((home / "runs" / "short" / "evaluation.json").read_text())
    assert [record["update"] for record in table] == [4, 8]
    assert "| random " in capsys.readouterr().out
    assert resume(home, "short") == 0
    assert "'short' is finished: all 256 steps (8 updates)" in capsys.readouterr().out
    assert len(json.loads((home / "runs" / "short" / "evaluation.json").read_text())) == 2


@pytest.mark.parametrize("what", ["state", "program"])
def test_too_little_memory_is_told_before_the_start_and_leaves_no_folder(home, monkeypatch, capsys, what):
    if what == "state":
        monkeypatch.setattr(memory_budget, "free_bytes", lambda host: 1)
    else:
        monkeypatch.setattr(Anakin, "working_bytes", lambda self, state: 2**60)
    assert train(home, "large", f"run.directory={home / 'new' / 'runs'}") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("jaxrl: this training needs about ") and "(rollouts and updates" in error or what == "state"
    assert error.endswith("lower train.num_envs (8), train.num_steps (4) or the size of the network.")
    assert not (home / "new").exists()


def test_the_memory_of_a_training(home, caplog):
    """Of the state what its arrays take, of the program what XLA says; of this machine what is free. The program that
    was compiled beside the state is the one that runs."""
    config = configs.load(home / "tiny.yaml")
    program = make_program(config, make_games(config).training)
    with jax.log_compiles():
        program.begin_compiling()
        state = program.init(0)
        assert memory_budget.size_of(program.abstract_state, host=True) == sum(
            leaf.nbytes for leaf in jax.tree.leaves(state)
        )
        assert 0 < program.working_bytes(state) < 2**24 < memory_budget.free_bytes(host=True) < 2**46
        program.advance(state)
    assert "Compiling jit(_init_one)" in caplog.text and "jit(_run_seeds)" not in caplog.text  # logs of this thread


@pytest.fixture(scope="module")
def plain(home):
    """A run as the configuration is."""
    assert train(home, "plain") == 0


def test_a_damaged_newest_checkpoint_falls_back(home, plain, capsys):
    shutil.copytree(home / "runs" / "plain", home / "runs" / "damaged")
    before = newest(home, "damaged")
    (home / "runs" / "damaged" / "checkpoints" / str(UPDATES) / "record.json").unlink()
    assert resume(home, "damaged") == 0
    said = capsys.readouterr().err
    assert "is damaged" in said and "falling back to the one before" in said
    assert_same(before, newest(home, "damaged"))
    assert [row["update"] for row in rows(home, "damaged")] == [2, 4, 6, 8, 10, 12]


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A disk of that size at `place`; what is given can change the size."""
    place.mkdir()

    def mount(*arguments: str) -> int:
        return subprocess.run(["mount", *arguments, str(place)], capture_output=True, check=False).returncode

    if mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        pytest.skip("needs the right to mount a small disk")
    try:
        yield lambda size: mount("-o", f"remount,size={size}")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.thorough
def test_no_space_left_is_one_sentence_and_a_larger_disk_goes_on_exactly(home, plain, tmp_path, capfd):
    disk = tmp_path / "disk"
    with small_disk(disk, "200k") as resize:
        capfd.readouterr()
        assert train(home, "full", f"run.directory={disk / 'runs'}", "train.checkpoint_every=2") == 2
        said = [line for line in capfd.readouterr().err.splitlines() if "[" not in line]  # without progress
        saved = newest(disk, "full").step
        assert len(said) == 3 and 2 <= saved < UPDATES
        assert (
            said[-1].startswith("jaxrl: no space left on the disk of") and f"checkpoint {saved} is intact" in said[-1]
        )
        resize("5m")
        assert cli.main(["resume", str(disk / "runs" / "full")]) == 0
        assert_same(newest(home, "plain"), newest(disk, "full"))
        assert rows(home, "plain") == rows(disk, "full")


def test_a_disk_that_is_full_at_the_start_is_one_sentence(home, tmp_path, capfd):
    with small_disk(tmp_path / "disk", "12k"):  # room for process.json, config.yaml and a log
        assert train(home, "full", f"run.directory={tmp_path / 'disk' / 'runs'}") == 2
        said = capfd.readouterr().err.splitlines()
        assert len(said) == 3 and "no space left" in said[-1] and said[-1].endswith("free some and start again.")


def test_mistakes_end_in_one_sentence_and_exit_code_2(home, two_updates, capsys):
    two_updates("first")
    capsys.readouterr()

    def sentence(*arguments: str) -> str:
        assert cli.main(list(arguments)) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len([line for line in lines if line.startswith("jaxrl: ")]) == 1 and "Traceback" not in "".join(lines)
        return lines[-1]

    run = str(home / "runs" / "first")
    assert "exists already" in sentence("train", "--config", str(home / "tiny.yaml"), "--name", "first")
    assert "there is no run" in sentence("resume", str(home / "runs" / "frist"))
    told = sentence("resume", f"{run}@99")
    assert "leave '@99' out" in told and f"checkpoints (2) by train.from_run={run}@UPDATE" in told
    started = ("train", "--config", str(home / "tiny.yaml"), "--name", "second")
    assert "has no checkpoint '9': use newest, best, or one of 2" in sentence(*started, f"train.from_run={run}@9")
    assert "checkpoints (2)" in sentence(*started, f"train.from_run={run}@best")
    assert "of another game" in sentence("resume", run, "env.id=tests.support.games:TicTacToe")
    assert "does not fit" in sentence("resume", run, "network.hidden=[9]")
    with runs.find_run(run).lock():
        assert "trained by another process" in sentence("resume", run)


def test_resume_tells_which_keys_are_changed(home, two_updates, capsys):
    two_updates("changed")
    capsys.readouterr()
    assert resume(home, "changed", "ppo.gamma=0.9") == 0
    told = capsys.readouterr().err
    assert re.match(r"changed from here on: ppo.gamma \S+ -> 0.9\n", told), told
    assert resume(home, "changed") == 0
    assert "changed from here on" not in capsys.readouterr().err


def test_a_run_whose_checkpoints_are_gone_does_not_start_over(home, two_updates, capsys):
    two_updates("gone")
    run, logged = home / "runs" / "gone", rows(home, "gone")
    shutil.rmtree(run / "checkpoints")
    assert cli.main(["resume", str(run)]) == 2
    assert f"the checkpoints in {run / 'checkpoints'} are gone" in capsys.readouterr().err
    assert train(home, "gone") == 2 and rows(home, "gone") == logged


def test_a_refused_change_leaves_the_saved_configuration_alone(home, two_updates):
    two_updates("kept")
    before = (home / "runs" / "kept" / "config.yaml").read_text()
    assert resume(home, "kept", "network.hidden=[9]") == 2
    assert (home / "runs" / "kept" / "config.yaml").read_text() == before


@pytest.mark.thorough
def test_games_in_progress_keep_their_opponents(home, capsys):
    """Controllers are stored by number: other bots would take over games in the middle (PufferLib 620)."""
    seats = "seats=[{{weight: {}, learners: 1, bots: [{}]}}]"
    assert train(home, "opponents", "train.total_steps=64", seats.format(1, "random, lowest")) == 0
    run = str(home / "runs" / "opponents")
    assert cli.main(["resume", run, "--steps", "128", seats.format(1, "lowest")]) == 2
    assert "begun with self, random, lowest" in capsys.readouterr().err
    assert cli.main(["resume", run, "--steps", "128", seats.format(3, "random, lowest")]) == 0


def test_changed_hyper_parameters_apply_after_a_resume(home, two_updates):
    two_updates("hyper")
    rate = "ppo.learning_rate={kind: constant, start: 0.125, end: 0}"
    assert resume(home, "hyper", "--steps", str(4 * STEPS_PER_UPDATE), rate) == 0
    assert [row["train/learning_rate"] for row in rows(home, "hyper")][-1] == 0.125


def test_a_policy_that_does_not_move_is_told(home, capsys, monkeypatch):
    monkeypatch.setattr(reports, "LEAST_UPDATES", 3)
    assert train(home, "still", "ppo.learning_rate=1e-9") == 0
    told = capsys.readouterr().err
    assert told.count("the policy has hardly moved in") == 1 and "raise the learning rate" in told
    row = {"train/approx_kl": 1e-8, "train/clip_fraction": 0.0, "train/entropy_loss": -1.5, "train/updates": 8}
    for divergence in (1e-8, 1e-3):
        watch = StallDetector(100)
        assert not watch(8, row) and not watch(16, row | {"train/approx_kl": divergence})  # a quarter is not over
        assert bool(watch(32, row)) == (divergence < 1e-3) and not watch(40, row)
    assert not StallDetector(100)(50, {"train/td_error": 1.0})


def test_updates_are_traced(home, monkeypatch):
    """`run.profile`: whole calls after the first, until they have made that number of updates."""
    began = []
    start = jax.profiler.start_trace
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: (began.append(folder), start(folder)))
    assert train(home, "traced", "run.profile=3", "train.total_steps=256") == 0
    folder = home / "runs" / "traced" / "profile"
    assert began == [str(folder)] and len(list(folder.rglob("*.xplane.pb"))) == 1
    trace = UpdateTrace(folder, 3)
    for updates in (2, 2, 2, 2):
        trace.before()
        trace.after(updates)
    assert len(began) == 2  # it ended after the third call, and did not begin again
    with pytest.raises(RuntimeError):
        jax.profiler.stop_trace()


@pytest.mark.thorough
def test_the_best_checkpoint_is_kept_apart(home):
    assert train(home, "best", "train.evaluate_every=2", "train.keep=1") == 0
    run = runs.RunDirectory(home / "runs" / "best")
    best = json.loads(run.best_file.read_text())
    scores = {r["update"]: r["eval/random/return"] for r in rows(home, "best") if "eval/random/return" in r}
    assert best["update"] == max(scores, key=lambda update: (scores[update], -update))
    assert run.best().steps() == [best["update"]] and run.checkpoints().steps() == [UPDATES]
    assert runs.load_run(run.path, "best").update == best["update"]
    with pytest.raises(UserError, match="no checkpoint '3'"):
        runs.load_run(run.path, "3")


@pytest.mark.thorough
def test_several_seeds_log_their_mean_and_each(home):
    assert train(home, "seeds", "run.seeds=2", "train.total_steps=128", "train.evaluate_every=0") == 0
    row = next(row for row in rows(home, "seeds") if "train/loss" in row)
    assert row["train/loss"] == pytest.approx((row["seed_0/train/loss"] + row["seed_1/train/loss"]) / 2)
    assert row["seed_0/train/loss"] != row["seed_1/train/loss"]
    kernels = [np.asarray(p["heads"]["policy"]["kernel"]) for p in runs.load_run(home / "runs" / "seeds").params]
    assert len(kernels) == 2 and not np.array_equal(*kernels)


@pytest.mark.thorough
def test_a_best_response_that_diverges_does_not_cost_the_policy(home, capsys, monkeypatch):
    def diverge(*_):
        raise UserError("the training of a best response diverged: lower exploit.learning_rate.")

    monkeypatch.setattr(loop.Exploiter, "__call__", diverge)
    assert train(home, "exploited", "exploit.every=6") == 2
    assert newest_steps(home, "exploited") == [4, 6], "the policy is sound, and is saved where it was measured"
    error = capsys.readouterr().err
    assert "exploit.learning_rate" in error and "saved after update 6" in error and "jaxrl resume" in error


def test_a_diverged_training_stops_before_it_is_saved(home, capsys, monkeypatch):
    check = loop.Training._check_sound

    def diverge(self, found):
        check(self, found | ({"train/loss": metrics.measured(float("nan"))} if self.update > 4 else {}))

    monkeypatch.setattr(loop.Training, "_check_sound", diverge)
    assert train(home, "diverged") == 2
    assert "training diverged" in capsys.readouterr().err
    assert newest_steps(home, "diverged") == [4]
