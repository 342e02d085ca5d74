"""The fleet with JVMs of the engine itself, for those who have it: set FORGE_HOME."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from jaxrl_envs.forge.fleet.daemon import TOKEN, RemoteDaemon
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.supervisor import Patience
from jaxrl_envs.forge.recordings.recording import quoted
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.forge.wire.link import Link, LinkError
from tests.support.forge.fleets import alive, pids_of, until

pytestmark = pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set")


@pytest.fixture(scope="module")
def engine():
    """A fleet of one JVM."""
    with Fleet(Deployment(daemons=1, start_timeout=300.0), Patience(answer=2.0)) as fleet:
        fleet.release(fleet.lease(300))
        yield fleet
        pids = pids_of(fleet)
    until(lambda: not any(map(alive, pids)), "the JVM has ended")


def first_decision(link: Link, seconds: float) -> bytes:
    """What comes behind the facts of the cards that it names."""
    while (line := link.receive_line(seconds)).startswith(b"INFO:"):
        pass
    return line


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


# ---- strangers ------------------------------------------------------------------------------------------------------


def stranger(daemon, *lines) -> Link:
    link = Link.to("127.0.0.1", daemon.port)
    for line in lines:
        link.send_line(line)
    return link


def is_over(link) -> bool:
    with pytest.raises(LinkError):
        link.receive_line(30)
    return True


@pytest.mark.parametrize("first", ["STATUS", "HELLO 1", "HELLO 1 guess", "NEWGAME aggro aggro -i", "SHUTDOWN"])
def test_clients_without_the_token_are_not_served(engine, first):
    link = stranger(engine.daemons[0], first)
    assert link.receive_line(30).startswith(b"ERROR: HELLO 1 and the token") and is_over(link)


def test_clients_that_send_no_token_are_not_waited_for(engine):
    link = stranger(engine.daemons[0])
    assert link.receive_line(60).startswith(b"ERROR: nothing was said") and is_over(link)


def test_lines_connections_and_games_have_limits(engine):
    daemon, pid = engine.daemons[0], pids_of(engine)
    hello = f"HELLO 1 {daemon.token}"
    link = stranger(daemon, hello, "x" * 70_000)
    assert link.receive_line(30).startswith(b"HELLO 1 forge=")
    assert link.receive_line(30) == b"ERROR: line too long" and is_over(link)
    busy = stranger(daemon, hello, *["NEWGAME aggro aggro -i -q -s 7"] * 70)
    said = [busy.receive_line(60) for _ in range(4)]
    assert b"ERROR: too many games wait" in said, said
    others = [Link.to("127.0.0.1", daemon.port) for _ in range(70)]
    last = others[-1]
    assert last.receive_line(30) == b"ERROR: too many connections" and is_over(last)
    for each in (busy, *others):
        each.close()
    ai_game(engine)
    assert daemon.status(30)["Waiting"] == "0" and pids_of(engine) == pid


@pytest.fixture(scope="module")
def elsewhere(engine, tmp_path_factory):
    """(daemon, folder of its decks): one that is started by hand for other machines."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "decks").mkdir()
    for name in ("decks/mine.dck", "outside.dck"):
        shutil.copy(DECKS / "aggro.dck", place / name)
    command = engine.daemons[0]._launch.command(7)
    command = command[: command.index("--decks")] + ["--decks", str(place / "decks"), "--host", "0.0.0.0"]
    with pytest.raises(AssertionError, match="FAILED: --host 0.0.0.0 serves other machines: set FORGE_DAEMON_TOKEN"):
        started(command, "")
    process, port = started(command, "open sesame")
    daemon = RemoteDaemon(0, "127.0.0.1", port)
    daemon.token = "open sesame"
    yield daemon, place / "decks"
    process.stdin.close()
    assert process.wait(30) == 0


def started(command, token):
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    environment = os.environ | {TOKEN: token}
    process = subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL, env=environment, text=True)
    line = process.stdout.readline()
    assert line.startswith("FORGE DAEMON READY"), line
    return process, int(line.split("port=")[1].split()[0])


@pytest.mark.parametrize("deck", ["{0}/../outside.dck", "../outside", "/etc/passwd", "{0}", "", "a\0b"])
def test_decks_lie_below_their_folders(elsewhere, deck):
    daemon, decks = elsewhere
    link = daemon.hello(60)
    link.send_line(f"NEWGAME mine {quoted(deck.format(decks))} -q -s 7")
    assert link.receive_line(60).startswith(b"ERROR: ")
    link.send_line(f"NEWGAME mine {quoted(str(decks / 'mine'))} -i -q -s 7")
    assert first_decision(link, 120).startswith(b"DECISION:")
    link.close()
