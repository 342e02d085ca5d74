"""Fleets of the daemons of `tests.support.forge.fake`, and what tests ask about processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.supervisor import Patience
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.fake import DECISIONS, Fault, fake_home, fake_java
from tests.support.waiting import wait_until

# A process with a fleet of its own: it leases all its daemons, prints their process numbers in a line,
# and waits for a line of input. Arguments: home, java, number of daemons.
PARENT = """
import sys
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.settings import Deployment
home, java, daemons = sys.argv[1:]
fleet = Fleet.shared(Deployment(home=home, java=java, daemons=int(daemons)))
leases = [fleet.lease(300) for _ in fleet.daemons]
print(*[each.pid for each in fleet.daemons], flush=True)
sys.stdin.readline()
"""


BRISK = Patience(answer=1.0, abort=0.3, restart=0.02, longest=0.1)


@pytest.fixture
def forge(tmp_path: Path, monkeypatch) -> Iterator[Callable[..., Fleet]]:
    """(faults, patience, **settings) -> a fleet; all are closed at the end, and no process may be left."""
    made: list[Fleet] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(*faults: Fault, patience: Patience = BRISK, **settings) -> Fleet:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        defaults = {"daemons": 1, "log_dir": str(folder / "logs"), "start_timeout": 20.0}
        places = {"home": str(fake_home(folder)), "java": str(fake_java(folder, faults))}
        if "daemons" in settings and not isinstance(settings["daemons"], int):
            places = {}
        made.append(Fleet(Deployment(**(defaults | places | settings)), patience))
        return made[-1]

    yield make
    pids = [pid for fleet in made for pid in pids_of(fleet)]
    for fleet in made:
        fleet.close()
    until(lambda: not any(map(alive, pids)), "all processes have ended")
    assert not zombies()


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    assert wait_until(condition, seconds), f"not in {seconds} s: {what}"


def pids_of(fleet: Fleet) -> list[int]:
    return [pid for each in fleet.daemons if (pid := getattr(each, "pid", None)) is not None]


def state_of(pid: int) -> str:
    """Z: it is dead and not buried, T: stopped; "": there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z")


def stop(pid: int) -> None:
    """Stops a process, so that it does nothing any more."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "it has stopped")


def zombies() -> list[str]:
    """Returns the children of this process that were not reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and fields[1] == str(os.getpid()):
            found.append(stat.parent.name)
    return found


def begin(lease) -> None:
    """Begins a game, up to the first decision."""
    lease.link.send_line("NEWGAME a b -i")
    while not lease.link.receive_line(5).startswith(b"DECISION"):
        pass


def answer_all(lease, answers: int = DECISIONS) -> None:
    """Answers a game under way; the last answer brings what was left to the AI, and the result."""
    for _ in range(answers):
        lease.link.send_line("7")
        while (line := lease.link.receive_line(5)).startswith(b"INFO:"):
            pass
    if answers == DECISIONS:
        assert line.startswith(b"GAME_RESULT")


def whole_game(fleet: Fleet, timeout: float = 20.0) -> None:
    lease = fleet.lease(timeout)
    begin(lease)
    answer_all(lease)
    fleet.release(lease)
    fleet.game_finished(0.3, "won")
