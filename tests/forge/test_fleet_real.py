"""The fleet with JVMs of the engine itself, for those who have it: set FORGE_HOME."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from jaxrl.envs.forge.fleet.daemon import FleetError
from jaxrl.envs.forge.fleet.fleet import Fleet
from jaxrl.envs.forge.fleet.keeper import Patience
from jaxrl.envs.forge.settings import Deployment
from jaxrl.envs.forge.wire.lease import NO_START
from jaxrl.envs.forge.wire.link import LinkError
from tests.forge.fake import ROOT
from tests.forge.fleets import PARENT, alive, pids_of, stop, until

pytestmark = pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set")
PORT = 17540


@pytest.fixture(scope="module")
def engine():
    """A fleet of one JVM."""
    with Fleet(Deployment(daemons=1, port=PORT, start_timeout=300.0), Patience(answer=2.0)) as fleet:
        fleet.release(fleet.lease(300))
        yield fleet
        pids = pids_of(fleet)
    until(lambda: not any(map(alive, pids)), "the JVM has ended")


def begin_real(lease, seconds: float = 60.0) -> bytes:
    """A game of Forge's own, up to its first decision, which is left unanswered."""
    lease.link.send_line("NEWGAME aggro aggro -i -a -q -s 7")
    return lease.link.receive_line(seconds)


def ai_game(fleet: Fleet) -> None:
    lease = fleet.lease(300)
    lease.link.send_line("NEWGAME aggro aggro -q -s 7")
    assert lease.link.receive_line(300).startswith(b"GAME_RESULT: Ai(")
    fleet.release(lease)


def test_the_engine_is_found_started_and_plays(engine):
    ai_game(engine)
    found = engine.counters()["daemons"][0]
    assert found["version"] not in ("", "unknown") and found["cpu_seconds"] > 1 and found["rss_mib"] > 100


def test_a_missing_deck_leaves_the_connection_usable(engine):
    lease = engine.lease(300)
    lease.link.send_line('NEWGAME "no such deck" aggro -q')
    assert lease.link.receive_line(60).startswith(b"ERROR: no deck")
    engine.release(lease, finished=False)
    ai_game(engine)


def test_kill_9_of_the_engine_in_the_middle_of_a_game(engine):
    lease = engine.lease(300)
    line = begin_real(lease)
    restarts = engine.counters()["restarts"]
    os.kill(pids_of(engine)[0], signal.SIGKILL)
    with pytest.raises(LinkError):
        lease.link.receive_line(60)
    engine.failed(lease, "closed")
    again = engine.lease(300, replay=True)
    assert begin_real(again) == line  # the same seed is the same game in another JVM
    engine.release(again, finished=False)
    assert engine.counters()["restarts"] == restarts + 1


def test_a_stopped_engine_is_killed_and_started_again(engine):
    lease = engine.lease(300)
    begin_real(lease)
    pid = pids_of(engine)[0]
    stop(pid)
    engine.failed(lease, "timeout")
    ai_game(engine)
    assert not alive(pid) and pids_of(engine) != [pid]


def test_a_game_that_is_dropped_is_aborted(engine):
    """Without the death of the JVM: the daemon lets go of a game whose connection is closed."""
    pid = pids_of(engine)
    lease = engine.lease(300)
    begin_real(lease)
    engine.failed(lease, "garbage")
    ai_game(engine)
    assert pids_of(engine) == pid


def test_two_learners_on_the_engine(engine):
    """Another learner waits for its turn, gives up with a sentence, and plays once the first has let go."""
    daemon = engine.daemons[0]
    theirs = Fleet(Deployment(daemons=(daemon.name,), decision_timeout=2.0))
    holder, other = engine.lease(300), theirs.lease(60)
    begin_real(holder)
    with pytest.raises(LinkError):
        begin_real(other, theirs.deployment.decision_timeout)
    with pytest.raises(
        FleetError, match=rf"{daemon.name} has begun no game for 2 s: .*\(active games: 1, waiting: 1\)"
    ):
        theirs.failed(other, NO_START)
    engine.release(holder, finished=False)
    ai_game(theirs)
    theirs.close()
    ai_game(engine)


def test_a_second_learner_takes_other_ports_and_neither_outlives_its_process(engine, tmp_path):
    command = [sys.executable, "-c", PARENT, os.environ["FORGE_HOME"], "", str(PORT), "1"]
    with (tmp_path / "errors").open("wb") as errors:
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        parent = subprocess.Popen(command, **pipes, stderr=errors, cwd=ROOT, text=True)
    pid, port = int(parent.stdout.readline()), int(parent.stdout.readline())
    assert alive(pid) and port == PORT + 1
    parent.kill()
    parent.wait(10)
    until(lambda: not alive(pid), "the JVM has seen the end of its input")
