"""Whole runs with actors that are stopped in every way: what is lost are games in flight, and a resumed run goes on as
if nothing had happened."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxrl import cli
from jaxrl.runs import directory as runs
from jaxrl.runs import distributed
from jaxrl.training.sebulba.actor import ActorThread
from jaxrl.training.sebulba.learner import HostLearner
from jaxrl.training.sebulba.loop import FAULT, STOPPED, Diverged, Fault, Sebulba, Stopped
from jaxrl.training.sebulba.pipeline import Pipeline
from tests.support.killing import assert_same, rows
from tests.support.sebulba_training import sebulba_config, sebulba_program, threads_left
from tests.support.small_runs import configure, resume, train
from tests.support.training import assert_identical
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

GAMES, STEPS, UPDATES = 64, 4, 8
LEAGUE = "league={opponents: [self, snapshots, random], snapshots: 2, snapshot_every: 2}"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a tiny configuration and a compilation cache that all tests here share."""
    home = tmp_path_factory.mktemp("runs")
    constant = {
        "entropy_coef": {"kind": "constant", "start": 0.01},
        "learning_rate": {"kind": "constant", "start": 1e-3},
    }
    configure(
        home,
        "tests.support.host_games:HostTicTacToe",
        UPDATES,
        env={"options": {"opening": True}},
        ppo=constant,
        sebulba={"threads": 2},
        train={"num_envs": GAMES, "num_steps": STEPS},
    )
    return home


def store(home: Path, name: str):
    return runs.RunDirectory(home / "runs" / name).checkpoints()


@pytest.fixture(scope="module")
def whole(home):
    """The last state and the logs of a run that nothing has happened to."""
    assert train(home, "whole", LEAGUE) == 0
    return store(home, "whole").newest(), learnt(home, "whole")


def learnt(home: Path, name: str) -> list[dict]:
    """The metrics of training."""
    return [row for row in rows(home, name) if "train/loss" in row]


def assert_as_if_nothing_had_happened(home: Path, name: str, whole) -> None:
    assert whole[0].step == UPDATES
    assert_same(whole[0], store(home, name).newest())
    assert [row["update"] for row in learnt(home, name)] == [2, 4, 6, 8]


# ---- stops ----------------------------------------------------------------------------------------------------------


def test_sigterm_in_the_middle_of_an_update(home, whole, monkeypatch, capsys):
    """The update in hand is finished and saved, also between two calls of two updates; the resumed run is the same."""
    learn = HostLearner.update

    def terminated(self, state, *rest):
        if int(state.update) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return learn(self, state, *rest)

    monkeypatch.setattr(HostLearner, "update", terminated)
    start = time.monotonic()
    assert train(home, "terminated", LEAGUE) == 128 + signal.SIGTERM
    assert "continue with: jaxrl resume" in capsys.readouterr().out
    assert store(home, "terminated").newest().step == 5 and not threads_left()
    assert time.monotonic() - start < 60
    monkeypatch.undo()
    assert resume(home, "terminated") == 0
    assert_as_if_nothing_had_happened(home, "terminated", whole)
    ours, theirs = (found[-2] for found in (learnt(home, "terminated"), whole[1]))  # the line of a call in two parts
    assert ours["train/updates"] == 2 and ours["rollout/games"] == theirs["rollout/games"]
    assert ours["train/explained_variance"] == pytest.approx(theirs["train/explained_variance"], abs=1e-5)


def test_sigterm_while_the_learner_waits_for_a_slow_engine(home, whole, monkeypatch):
    take, deliver = Pipeline.take, Pipeline.deliver

    def silent(self, actor, rollout):
        if rollout != 4:
            deliver(self, actor, rollout)

    def terminated(self, rollout, stopped):
        if rollout == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self, rollout, stopped)

    monkeypatch.setattr(Pipeline, "take", terminated)
    monkeypatch.setattr(Pipeline, "deliver", silent)
    assert train(home, "waiting", LEAGUE) == 128 + signal.SIGTERM
    assert store(home, "waiting").newest().step == 4
    monkeypatch.undo()
    assert resume(home, "waiting") == 0
    assert_as_if_nothing_had_happened(home, "waiting", whole)


def test_a_second_ctrl_c_aborts_without_a_thread_left(home, monkeypatch, capsys):
    def interrupted(self, *_):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(HostLearner, "update", interrupted)
    assert train(home, "aborted", LEAGUE) == cli.INTERRUPTED
    assert not store(home, "aborted").steps() and not threads_left()


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mistake", "killed", "vanished"])
def test_an_actor_thread_that_dies(home, whole, monkeypatch, capsys, kind):
    """Mava 1148 and Stoix: the learner must not wait for ever. A mistake of ours is loud, with its own traceback."""
    fill, play = ActorThread._fill, ActorThread._play

    def dying(self, storage, *rest):
        self.count = getattr(self, "count", 0) + 1
        if self.count == 5:
            raise {"mistake": KeyError("seat"), "killed": SystemExit(0), "vanished": ReferenceError}[kind]
        fill(self, storage, *rest)

    def vanishing(self):
        try:
            play(self)
        except ReferenceError:
            self._pipeline.fail = None  # it cannot say anything any more
            self.pool.close()

    monkeypatch.setattr(ActorThread, "_fill", dying)
    monkeypatch.setattr(ActorThread, "_play", vanishing)
    expected = {"mistake": KeyError, "killed": RuntimeError, "vanished": RuntimeError}[kind]
    with pytest.raises(expected, match={"mistake": "seat", "killed": "SystemExit", "vanished": "gone without"}[kind]):
        train(home, f"actor-{kind}", LEAGUE)
    errors = capsys.readouterr().err
    assert "saved after update" in errors and "jaxrl resume" in errors and not threads_left()
    assert store(home, f"actor-{kind}").newest().step == 4
    monkeypatch.undo()
    if kind == "killed":
        assert resume(home, f"actor-{kind}") == 0
        assert_as_if_nothing_had_happened(home, f"actor-{kind}", whole)


def test_a_queue_that_is_full_for_long_loses_nothing(caplog):
    """Actors wait for a learner that does not come, with the memory they have; it is noted, and nothing else."""
    config = sebulba_config(sebulba={"lag": 2, "timeout": 0.2}, updates=1)
    caplog.set_level(logging.INFO, "jaxrl")
    states = []
    for pause in (False, True):
        program = sebulba_program(config)
        state, *_ = program.advance(program.init(0))
        storages = list(program.storages)
        if pause:
            played = program._session.pipeline._complete
            assert wait_until(lambda played=played: played == {0: 3} and "nothing is lost" in caplog.text)
            time.sleep(0.3)
            assert played == {0: 3}  # two ahead of the learner, no further
        for _ in range(3):
            state, *_ = program.advance(state)
        assert all(one is two for one, two in zip(storages, program.storages, strict=True))
        program.close()
        states.append(state)
    assert_identical(*states)


def test_what_went_wrong_elsewhere_counts_for_more_than_a_signal_here(monkeypatch):
    """All processes must go the same way, or they wait for each other for ever."""
    asked_to_stop = SimpleNamespace(_stop=True)
    for gravest, kind, cause in (
        (STOPPED, Stopped, type(None)),
        (FAULT, Fault, distributed.PeerFailed),
        (9, Fault, Diverged),
    ):
        monkeypatch.setattr(distributed, "maximum", lambda own, gravest=gravest: max(own, gravest))
        with pytest.raises(kind) as told:
            Sebulba._taken(asked_to_stop, None, 0)
        assert isinstance(told.value.__cause__, cause)


def test_many_sessions_leave_nothing_behind():
    """Threads and memory do not grow with updates, nor with stops and starts."""
    program = sebulba_program(sebulba_config(updates=1))
    state, resident = program.init(0), []
    for number in range(60):
        state, *_ = program.advance(state)
        if number % 3 == 0:
            program.close()
            assert not threads_left()
        if number % 20 == 19:
            resident.append(resident_mb())
    program.close()
    assert resident[-1] - resident[0] < 30


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
