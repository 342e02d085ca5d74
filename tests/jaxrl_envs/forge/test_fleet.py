"""The fleet of daemons: leases, deaths, hangs, starts, tokens, other people's daemons.

The daemons are those of `tests.support.forge.fake`: the same processes, words and signals without a JVM.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from jaxrl_envs.forge.fleet import classes, supervisor
from jaxrl_envs.forge.fleet.daemon import TOKEN, FleetError, RemoteDaemon
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.scratch import LOCK, PREFIX
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.forge.wire.lease import NO_START
from jaxrl_envs.forge.wire.link import Link, LinkError
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.fake import VERSION, FakeDaemon, Fault, fake_home, fake_java
from tests.support.forge.fleets import (
    BRISK,
    alive,
    answer_all,
    begin,
    forge,
    pids_of,
    stop,
    until,
    whole_game,
    zombies,
)
from tests.support.forge.lines import failure, server

__all__ = ["forge"]


# ---- leases -------------------------------------------------------------------------------------------------------


def test_games_are_played_and_counted(forge):
    fleet = forge(daemons=2)
    assert fleet.capacity == 2 and not pids_of(fleet)
    for _ in range(4):
        whole_game(fleet)
    until(lambda: all(each.state == "ready" for each in fleet.daemons), "both are ready")
    found = fleet.counters()
    assert (found["games_started"], found["games_finished"], found["games_by_result"]) == (4, 4, {"won": 4})
    assert found["restarts"] == found["evictions"] == found["queue"] == 0 and found["faults_by_reason"] == {}
    assert found["game_seconds"]["counts"][1] == 4 and found["game_seconds"]["sum"] == pytest.approx(1.2)
    assert len(found["game_seconds"]["counts"]) == len(found["game_seconds"]["bounds"]) + 1
    for each in found["daemons"]:
        assert each["version"] == VERSION and each["pid"] and each["cpu_seconds"] > 0 and each["rss_mib"] > 1
        assert re.fullmatch("#[01]", each["name"]) and Path(each["log"]).read_text().startswith("== ")
    assert sum(each["games"] for each in found["daemons"]) == 4 and found["seconds"] > 0


def test_load_is_shared(forge):
    fleet = forge(daemons=2)
    fleet.start()
    until(lambda: all(each.state == "ready" for each in fleet.daemons), "both are ready")
    first, second = fleet.lease(20), fleet.lease(20)
    assert first.daemon is not second.daemon
    begin(first), answer_all(first)
    fleet.release(first)
    begin(second), answer_all(second)
    time.sleep(0.3)
    fleet.release(second)
    third = fleet.lease(20)
    assert third.daemon is first.daemon and third.link is not first.link  # held for the shorter time
    assert not first.enter()  # its owner cannot play with it any more


def test_an_idle_game_gives_way_to_one_that_has_waited(forge):
    fleet = forge(daemons=2)
    old, new = fleet.lease(20), fleet.lease(20)
    begin(old), begin(new)
    old.leave(), time.sleep(0.01), new.leave()
    started = time.monotonic()
    third = fleet.lease(5)
    assert 0.19 < time.monotonic() - started < 2.0
    assert third.daemon is old.daemon and not old.enter() and failure(old.link) == "closed"
    assert fleet.counters()["evictions"] == 1
    begin(third), answer_all(third)
    assert new.enter()  # the other one was left alone
    answer_all(new)


def test_a_running_game_keeps_its_daemon(forge):
    fleet = forge()
    lease = fleet.lease(20)
    with pytest.raises(FleetError, match=r"no Forge daemon was free for 0.5 s: #0 is ready"):
        fleet.lease(0.5)
    waiting = threading.Thread(target=lambda: fleet.release(fleet.lease(20)))
    waiting.start()
    until(lambda: fleet.counters()["queue"] == 1, "a game waits")
    fleet.release(lease)
    waiting.join(10)
    assert not waiting.is_alive() and fleet.counters()["evictions"] == 0


def test_a_daemon_is_busy_while_it_is_played_on(forge):
    fleet = forge()
    lease = fleet.lease(20)
    time.sleep(0.05)
    lease.leave()
    time.sleep(0.15)
    for _ in range(2):
        found = fleet.counters()["daemons"][0]
        assert 0.05 <= found["busy_seconds"] < 0.15 < found["held_seconds"]
        fleet.release(lease)


def test_what_the_user_should_know_at_a_start_is_said_once(forge, caplog):
    worse = Fault("ready", text="short-cuts=no repeats=no", times=0)
    fleet = forge(worse, daemons=2)
    for lease in [fleet.lease(60), fleet.lease(60)]:
        fleet.release(lease)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2 and "played without them, which takes two to three times the CPU" in said[0]
    assert f"the version of Forge is {VERSION}" in said[0] and "Java 17.0.9 does not let the daemons fix" in said[1]
    caplog.clear()
    quiet = forge(Fault("ready", text="short-cuts=no repeats=yes", times=0), stock=True)  # as it was asked for
    quiet.release(quiet.lease(60))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_logs_that_have_no_place(forge):
    with pytest.raises(UserError, match="the folder /dev/null/x for forge.log_dir cannot be made"):
        forge(log_dir="/dev/null/x")


def test_a_process_has_one_fleet_for_a_deployment(tmp_path):
    deployment = Deployment(home=str(fake_home(tmp_path)), java=str(fake_java(tmp_path)), daemons=1)
    first = Fleet.shared(deployment)
    assert Fleet.shared(Deployment(**vars(deployment))) is first
    first.close()
    with pytest.raises(FleetError, match="are stopped"):
        first.lease(1)
    second = Fleet.shared(deployment)
    assert second is not first
    second.close()


# ---- deaths and hangs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason", "hung"),
    [
        (Fault("die", start=1, decision=3), "closed", False),
        (None, "timeout", True),  # SIGSTOP
        (Fault("hang", start=1, decision=3), "timeout", True),  # it runs and does not answer
        (Fault("stuck", start=1, decision=2), "timeout", True),  # its game does not end with the connection
        (Fault("silent", start=1, decision=3), "garbage", False),  # no fault of the process, which costs nothing
    ],
    ids=["kill -9", "SIGSTOP", "deaf", "stuck", "well"],
)
def test_a_fault_in_the_middle_of_a_game(forge, fault, reason, hung):
    fleet = forge(*filter(None, [fault]))
    lease = fleet.lease(20)
    begin(lease), answer_all(lease, 1)
    [pid] = pids_of(fleet)
    if fault is None:
        stop(pid)
    lease.link.send_line("7")
    with pytest.raises(LinkError) as error:
        lease.link.receive_line(20.0 if reason == "closed" else 0.3)  # a busy machine may tell of a death late
    assert error.value.kind == ("closed" if reason == "closed" else "timeout")
    fleet.failed(lease, reason)
    whole_game(fleet)
    found, well = fleet.counters(), reason == "garbage"
    assert found["faults_by_reason"] == {reason: 1} | ({"hung daemon": 1} if hung else {})
    assert found["restarts"] == (not well) and (pids_of(fleet) == [pid]) == well and found["games_started"] == 2
    assert fleet.daemons[0].failures == 0  # a finished game makes up for a death
    assert not zombies()


def test_a_daemon_that_dies_while_its_game_is_idle(forge):
    fleet = forge()
    lease = fleet.lease(20)
    begin(lease)
    lease.leave()
    os.kill(pids_of(fleet)[0], signal.SIGKILL)
    until(lambda: lease.status == "gone", "the owner can see it")
    whole_game(fleet)
    assert fleet.counters()["restarts"] == 1


def test_a_hang_is_found_while_no_game_is_played(forge):
    fleet = forge(patience=BRISK._replace(health=0.2, answer=0.5))
    fleet.release(fleet.lease(20))
    pid = pids_of(fleet)[0]
    stop(pid)
    until(lambda: not alive(pid), "the daemon is killed")
    whole_game(fleet)
    assert fleet.supervisor.hung == 1


def test_a_daemon_that_keeps_dying_is_given_up(forge):
    fleet = forge(Fault("die", decision=2), Fault("say", text="java.lang.OutOfMemoryError: Java heap space"))
    for _ in range(fleet.patience.deaths):
        lease = fleet.lease(20)
        begin(lease)
        with pytest.raises(LinkError):
            answer_all(lease, 1)
        fleet.failed(lease, "closed")
    with pytest.raises(FleetError) as error:
        fleet.lease(20)
    text = str(error.value)
    assert "#0 ended 5 times in a row without a finished game (signal 9, its last words: " in text
    assert "Java heap space" in text and str(fleet.daemons[0].log) in text and "\n" not in text
    assert fleet.capacity == 0 and fleet.counters()["restarts"] == 4


def test_the_others_go_on_without_one_that_is_given_up(forge):
    fleet = forge(Fault("fail", start=1, text="the cards cannot be read"), daemons=2)
    for _ in range(3):
        whole_game(fleet)
    until(lambda: fleet.capacity == 1, "one is given up")
    assert sorted(each["state"] for each in fleet.counters()["daemons"]) == ["given up", "ready"]


# ---- starts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([Fault("fail", text="res has no cardsfolder")], r"\(res has no cardsfolder\)"),
        (
            [Fault("exit"), Fault("say", text="Unrecognized VM option 'Use'")],
            "exit code 1, its last words: Unrecognized VM option",
        ),
    ],
)
def test_what_would_fail_again_is_not_tried_again(forge, faults, expected):
    fleet = forge(*faults)
    started = time.monotonic()
    with pytest.raises(FleetError, match=expected):
        fleet.lease(20)
    assert time.monotonic() - started < 5 and fleet.counters()["restarts"] == 0


def test_a_daemon_that_is_never_ready(forge):
    fleet = forge(Fault("late"), start_timeout=0.3, patience=BRISK._replace(deaths=2))
    with pytest.raises(FleetError, match="2 times in a row.*it was not ready after 0.3 s"):
        fleet.lease(20)


def test_as_many_daemons_start_at_a_time_as_there_are_cores(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "cores", lambda: 1)
    fleet = forge(Fault("late", seconds=0.05), daemons=3)
    fleet.start()
    most = 0
    while sum(each.state == "ready" for each in fleet.daemons) < 3:
        most = max(most, len(pids_of(fleet)) - sum(each.state == "ready" for each in fleet.daemons))
        time.sleep(0.01)
    assert most == 1


def test_wrong_program_in_the_place_of_java(forge, tmp_path):
    fleet = forge()
    broken = Path(fleet.deployment.java)
    broken.write_text("#!/nowhere/at/all\n")
    with pytest.raises(FleetError, match=r"java cannot be run: No such file"):
        fleet.lease(5)


def test_the_daemon_is_compiled_once_for_all(forge, tmp_path):
    """And what a killed compiler left behind is removed."""
    cache = tmp_path / "cache" / "jaxrl" / "forge"
    (cache / f"{PREFIX}killed").mkdir(parents=True)
    (cache / f"{PREFIX}killed" / LOCK).touch()
    fleet = forge(daemons=2)
    fleet.release(fleet.lease(20))
    until(lambda: all(each.state == "ready" for each in fleet.daemons), "both are ready")
    sources = " ".join(path.name for path in sorted(classes.SOURCES.rglob("*.java")))
    assert "ForgeDaemon.java" in sources and (tmp_path / "0" / "compiles").read_text() == f"{sources}\n"
    folder = next(cache.iterdir())
    assert list(cache.iterdir()) == [folder]
    command = Path(f"/proc/{pids_of(fleet)[0]}/cmdline").read_text().split("\0")
    assert classes.MAIN in command and command[command.index("-cp") + 1].startswith(f"{folder}:")


def test_a_daemon_that_cannot_be_compiled_is_given_up(forge, tmp_path):
    fleet = forge()
    (tmp_path / "0" / "cannot_compile").write_text("Seat.java:7: error: cannot find symbol\n    symbol: class Game")
    with pytest.raises(FleetError, match=rf"cannot be compiled for Forge {VERSION}: Seat.java:7: error: cannot find"):
        fleet.lease(20)
    assert "symbol: class Game" in fleet.daemons[0].log.read_text() and fleet.counters()["restarts"] == 0


def test_a_compiler_that_was_killed_is_started_again(forge, tmp_path):
    fleet = forge()
    (tmp_path / "0" / "cannot_compile").touch()
    fleet.release(fleet.lease(20))
    assert fleet.counters()["restarts"] == 1 and len(list((tmp_path / "cache" / "jaxrl" / "forge").iterdir())) == 1


def test_where_no_classes_can_be_kept_it_is_said(forge, tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(FleetError, match=r"its classes cannot be kept in .*/cache/jaxrl/forge .*: set XDG_CACHE_HOME"):
        forge().lease(20)


# ---- other people's daemons ---------------------------------------------------------------------------------------


def test_two_learners_on_one_daemon(forge):
    """The second waits its turn; if the first never lets go, it stops with one sentence."""
    daemon = FakeDaemon()
    address = (daemon.address,)
    mine, theirs = forge(daemons=address), forge(daemons=address, decision_timeout=0.3)
    holder, other = mine.lease(20), theirs.lease(20)
    begin(holder)
    other.link.send_line("NEWGAME a b -i")
    with pytest.raises(LinkError):
        other.link.receive_line(theirs.deployment.decision_timeout)
    with pytest.raises(FleetError) as error:
        theirs.failed(other, NO_START)
    text = str(error.value)
    assert f"127.0.0.1:{daemon.port} has begun no game for 0.3 s" in text
    assert "active games: 1, waiting: 1" in text and "forge.daemons" in text
    answer_all(holder)
    mine.release(holder)
    whole_game(theirs)
    daemon.close()


def test_a_remote_daemon_that_comes_back_is_connected_to_again(forge):
    first = FakeDaemon()
    fleet = forge(daemons=(first.address,), patience=BRISK._replace(health=0.1))
    whole_game(fleet)
    lease = fleet.lease(20)
    begin(lease)
    lease.leave()
    first.close()
    until(lambda: fleet.daemons[0].state == "down", "it is missed")
    assert not lease.enter()
    second = FakeDaemon(port=first.port)
    whole_game(fleet)
    second.close()
    found = fleet.counters()["daemons"][0]
    assert found["restarts"] == 0 and "pid" not in found


def test_a_remote_daemon_that_was_never_there(forge):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fleet = forge(daemons=(f"127.0.0.1:{port}",))
    started = time.monotonic()
    with pytest.raises(FleetError, match=rf"127.0.0.1:{port}: .*refused.*start them, or set forge.daemons to auto"):
        fleet.lease(60)
    assert time.monotonic() - started < 10


def test_the_token_of_a_daemon_elsewhere(forge, monkeypatch):
    daemon = FakeDaemon(token="open sesame")
    with pytest.raises(FleetError, match="it says: HELLO 1 and the token of this daemon come first"):
        forge(daemons=(daemon.address,)).lease(60)
    monkeypatch.setenv(TOKEN, "open sesame")
    whole_game(forge(daemons=(daemon.address,)))
    daemon.close()


def test_daemons_of_ours_have_tokens_of_their_own(forge):
    fleet = forge(daemons=2)
    fleet.release(fleet.lease(20))
    assert len({each.token for each in fleet.daemons}) == 2
    stranger = Link.to("127.0.0.1", next(each.port for each in fleet.daemons if each.port))
    stranger.send_line("STATUS")
    assert stranger.receive_line(5).startswith(b"ERROR: HELLO 1 and the token")
    with pytest.raises(LinkError):
        stranger.receive_line(5)


def test_a_status_without_end(forge):
    def serve(connection):
        with connection.makefile("rb") as stream:
            stream.readline()
            connection.sendall(b"HELLO 1 forge=x\n" + b"".join(b"a%d: b\n" % i for i in range(1000)))
            stream.read()

    with server(serve) as port, pytest.raises(OSError, match="its status has no end"):
        RemoteDaemon(0, "127.0.0.1", port).status(5.0)


def test_a_daemon_of_another_protocol(forge):
    daemon = FakeDaemon(faults=[Fault("protocol")])
    with pytest.raises(FleetError, match=r"no Forge daemon of protocol 1 \(it says 'HELLO 2"):
        forge(daemons=(daemon.address,)).lease(60)
    daemon.close()
