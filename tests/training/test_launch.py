"""`train --processes` and `--continue`: who died is named, all start again as they began, none waits for ever."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.runs import distributed, heartbeat
from jaxrl.runs.heartbeat import LOST
from jaxrl.training.launching import launch, start

PLAYED = """
import os, signal, sys, time
rank, again = int(sys.argv[-1]), "--continue" in sys.argv
if "--allow=user" in sys.argv:
    sys.exit(2) if rank else time.sleep(1) or os.abort()
if again or "resume" in sys.argv:
    sys.exit(0)
if rank:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(100)
"""


def test_launch_names_who_died_and_starts_all_again(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "config.yaml").touch()
    monkeypatch.setattr(launch, "PROGRAM", (sys.executable, "-c", PLAYED))
    assert cli.main(["train", "--processes", "2", "--name", "x"]) == 0
    sentence = "jaxrl: process 1 of 2 was ended by SIGKILL; all are started again from the newest checkpoint, and 2"
    assert capfd.readouterr().err.startswith(sentence)
    assert cli.main(["train", "--processes", "3", "--restarts", "0"]) == 128 + signal.SIGKILL
    assert (
        "the restarts are used up: go on with jaxrl train --processes 3 --restarts 0 --continue"
        in capfd.readouterr().err
    )
    assert cli.main(["resume", "x", "--processes", "2"]) == 0
    assert cli.main(["train", "--processes", "2", "--allow=user"]) == 2  # a mistake of the user is not tried again
    assert cli.main(["train", "--processes", "0"]) == 2


HUNG_UP = """
import os, signal, sys, time
if sys.argv[-1] == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGHUP)
time.sleep(300)
"""


def test_launch_ends_when_it_is_told_to(capfd, monkeypatch):
    """When its terminal is closed the processes are told, and who does not end is killed."""
    monkeypatch.setattr(launch, "PROGRAM", (sys.executable, "-c", HUNG_UP))
    monkeypatch.setattr(launch, "GRACE", 0.2)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert cli.main(["train", "--processes", "2"]) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capfd.readouterr().err == "jaxrl: process 1 of 2 does not end and is killed\n"


def test_launch_knows_who_was_lost(monkeypatch):
    watching = launch.Processes(["train"], 3)
    assert watching._dead([None, 0, 2]) is watching._dead([LOST, 2, -signal.SIGABRT]) is None
    assert watching._dead([-signal.SIGABRT, -signal.SIGKILL, LOST]) == (137, "process 1 of 3 was ended by SIGKILL")
    assert watching._dead([None, -signal.SIGABRT, None]) == (134, "process 1 of 3 was ended by SIGABRT")
    assert watching._dead([LOST, None, LOST]) is None  # it may be about to end
    monkeypatch.setattr(launch, "SETTLE", -1.0)
    assert watching._dead([LOST, None, LOST]) == (LOST, "process 1 of 3 hangs")


def test_continue_refuses_other_settings(tmp_path, monkeypatch, capsys):
    """A run that is saved goes on as it was begun; where it is computed may be another place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])  # to which the command adds
    began: list[tuple[bool, int]] = []

    def trained(plan, run, *, resume, callbacks=()):
        began.append((resume, plan.config.run.devices))
        configs.save(plan.config, run.config_file)
        (run.path / ".checkpoints-saved").touch()
        return 0

    monkeypatch.setattr(start, "run_training", trained)
    words = ["train", "env.id=tests.support.games:TicTacToe", "--allow", "tests", "--name", "run", "--continue"]
    assert cli.main([*words, "run.devices=1"]) == cli.main([*words, "run.devices=2"]) == 0
    assert began == [(False, 1), (True, 2)]
    assert cli.main([*words, "ppo.clip=0.5"]) == 2
    said = "runs/run was begun with ppo.clip 0.05, not 0.5: change it with `jaxrl resume runs/run KEY=VALUE"
    assert said in capsys.readouterr().err and len(began) == 2


class Service:
    """The signs of life of three processes, of which one has fallen silent; this one is the second."""

    def __init__(self, silent: int):
        self._silent, self._number, self._signs = silent, 0, {}

    def key_value_set(self, key, value, allow_overwrite):
        if self._silent == 0:
            threading.Event().wait(5.0)  # the key-value store hangs, so no sign arrives
        self._signs[key] = value

    def key_value_dir_get(self, prefix):
        self._number += 1
        others = {f"{prefix}{rank}": str(0 if rank == self._silent else self._number) for rank in (0, 2)}
        return list((self._signs | others).items())


@pytest.mark.parametrize("silent", [0, 2])
def test_who_falls_silent_is_found(silent, monkeypatch):
    monkeypatch.setattr(heartbeat, "BEAT", 0.02)
    monkeypatch.setattr(heartbeat, "SILENT", 0.4)
    found, lost = threading.Event(), []
    one = heartbeat.Heartbeat(Service(silent), 1, 3)
    monkeypatch.setattr(one, "_lost", lambda other: (lost.append(other), found.set(), one.done.set()))
    one.start()
    assert found.wait(60.0) and lost == [silent]
    one.join()


@pytest.mark.parametrize("silent", [0, 2, 3])
def test_an_error_is_shown_only_where_all_others_live(silent, monkeypatch, capsys):
    """What jax raises when a process has died is told by the heartbeat, in a sentence and not as a traceback."""
    for module in (heartbeat, distributed):
        monkeypatch.setattr(module, "BEAT", 0.02)
        monkeypatch.setattr(module, "SILENT", 0.4)
    lost, ended, service = threading.Event(), [], Service(silent)
    one, wait = heartbeat.Heartbeat(service, 1, 3), time.sleep
    monkeypatch.setattr(one, "_lost", lambda other: (one.done.set(), lost.set()))
    monkeypatch.setattr(distributed, "_groups", [distributed.Group(1, 3, service, None, one)])
    monkeypatch.setattr(distributed, "_leave", ended.append)
    monkeypatch.setattr(distributed.time, "sleep", lambda seconds: lost.wait(60.0) if seconds > 0.1 else wait(seconds))
    one.start()

    def fails():
        wait(0.1)
        raise ValueError("an error that names no transport")

    assert distributed.exit_together(fails) == 1 and ended == [1]
    told = capsys.readouterr().err
    assert lost.is_set() == (silent != 3) and "ValueError: an error that names no transport" in told
    one.done.set()
    one.join()


def test_who_leaves_says_farewell_before(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(heartbeat, "exit_now", seen.append)
    one = heartbeat.Heartbeat(None, 0, 3)
    one.farewell = seen.append
    one._lost(2)
    assert seen == ["process 2 of 3 has died or hangs", LOST]
    assert capsys.readouterr().err.startswith("jaxrl: process 2 of 3 has died or hangs, so all of them end; ")
    monkeypatch.setattr(heartbeat, "FAREWELL", 0.01)
    one.farewell = lambda why: threading.Event().wait(60.0)  # a disk that hangs
    one._lost(2)
    assert seen[2:] == [LOST]
