"""The fleet of daemons: leases, deaths, hangs, ports, other people's daemons, and the end of it all.

The daemons are those of `tests.forge_fake`: the same processes, words and signals without a JVM. What needs the engine
itself is at the end, for those who have it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envs.errors import UserError
from envs.forge import fleet as fleets
from envs.forge import supervisor
from envs.forge.daemon import FleetError
from envs.forge.fleet import NO_START, Fleet
from envs.forge.settings import Deployment
from envs.forge.wire import LinkError
from tests.forge_fake import DECISIONS, ROOT, VERSION, FakeDaemon, fake_home, fake_java

PORT = 17520


@pytest.fixture
def forge(tmp_path, monkeypatch):
    """(faults, **settings) -> a fleet; all are closed at the end, and no process may be left."""
    made: list[Fleet] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(supervisor, "ABORT_SECONDS", 0.5)

    def make(faults=None, **settings) -> Fleet:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        defaults = {"daemons": 1, "port": PORT, "log_dir": str(folder / "logs"), "start_timeout": 20.0}
        places = {"home": str(fake_home(folder)), "java": str(fake_java(folder, faults))}
        if "daemons" in settings and not isinstance(settings["daemons"], int):
            places = {}
        made.append(Fleet(Deployment(**(defaults | places | settings))))
        return made[-1]

    yield make
    pids = [pid for fleet in made for pid in pids_of(fleet)]
    for fleet in made:
        fleet.close()
    until(lambda: not any(map(alive, pids)), "all processes have ended")
    assert not zombies()


def until(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.01)


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
    """So that it does nothing any more."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "it has stopped")


def zombies() -> list[str]:
    """Children of this process that nobody has buried."""
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
    """NEWGAME, up to the first decision."""
    lease.link.send_line("NEWGAME a b -i")
    while not lease.link.receive_line(5).startswith(b"DECISION"):
        pass


def play(lease, answers: int = DECISIONS) -> None:
    """Answers to a game under way; the last one brings the result."""
    for _ in range(answers):
        lease.link.send_line("7")
        line = lease.link.receive_line(5)
    if answers == DECISIONS:
        assert line.startswith(b"GAME_RESULT")


def whole_game(fleet: Fleet, timeout: float = 20.0) -> None:
    lease = fleet.lease(timeout)
    begin(lease)
    play(lease)
    fleet.release(lease)
    fleet.game_finished(0.3, "won")


# ---- leases -------------------------------------------------------------------------------------------------------


def test_games_are_played_and_counted(forge):
    fleet = forge(daemons=2)
    heard: list[tuple[float, str]] = []
    fleet.on_game.append(lambda seconds, how: heard.append((seconds, how)))
    assert fleet.capacity == 2 and not pids_of(fleet)
    for _ in range(4):
        whole_game(fleet)
    found = fleet.counters()
    assert (found["games_started"], found["games_finished"], found["games_by_result"]) == (4, 4, {"won": 4})
    assert found["restarts"] == found["evictions"] == found["queue"] == 0 and found["faults_by_reason"] == {}
    assert found["game_seconds"]["counts"][1] == 4 and found["game_seconds"]["sum"] == pytest.approx(1.2)
    assert len(found["game_seconds"]["counts"]) == len(found["game_seconds"]["bounds"]) + 1
    assert heard == [(0.3, "won")] * 4
    for each in found["daemons"]:
        assert each["version"] == VERSION and each["pid"] and each["cpu_seconds"] > 0 and each["rss_mib"] > 1
        assert each["name"].startswith("127.0.0.1:175") and Path(each["log"]).read_text().startswith("== ")
    assert sum(each["games"] for each in found["daemons"]) == 4 and found["seconds"] > 0


def test_a_connection_is_used_again_and_load_is_shared(forge):
    fleet = forge(daemons=2)
    first, second = fleet.lease(20), fleet.lease(20)
    assert first.daemon is not second.daemon
    begin(first), play(first)
    fleet.release(first)
    begin(second), play(second)
    time.sleep(0.5)
    fleet.release(second)
    third = fleet.lease(20)
    assert third.daemon is first.daemon and third.link is first.link  # held for the shorter time
    assert not first.enter()  # whoever kept it cannot play with it any more


def test_an_idle_game_gives_way_to_one_that_has_waited(forge):
    fleet = forge(daemons=2)
    old, new = fleet.lease(20), fleet.lease(20)
    begin(old), begin(new)
    old.leave(), time.sleep(0.01), new.leave()
    started = time.monotonic()
    third = fleet.lease(5)
    assert 0.19 < time.monotonic() - started < 2.0
    assert third.daemon is old.daemon and not old.enter() and old.link.closed
    assert fleet.counters()["evictions"] == 1
    begin(third), play(third)
    assert new.enter()  # the other one was left alone
    play(new)


def test_a_running_game_keeps_its_daemon(forge):
    fleet = forge()
    lease = fleet.lease(20)
    with pytest.raises(FleetError, match=r"no Forge daemon was free for 0.5 s: 127.0.0.1:17520 is ready"):
        fleet.lease(0.5)
    waiting = threading.Thread(target=lambda: fleet.release(fleet.lease(20)))
    waiting.start()
    until(lambda: fleet.counters()["queue"] == 1, "somebody waits")
    fleet.release(lease)
    waiting.join(10)
    assert not waiting.is_alive() and fleet.counters()["evictions"] == 0


def test_a_daemon_is_busy_while_it_is_played_on(forge):
    fleet = forge()
    lease = fleet.lease(20)
    time.sleep(0.1)
    lease.leave()
    time.sleep(0.3)
    for _ in range(2):
        found = fleet.counters()["daemons"][0]
        assert 0.1 <= found["busy_seconds"] < 0.3 < found["held_seconds"]
        fleet.release(lease)


def test_a_dropped_game_frees_its_daemon(forge):
    fleet = forge()
    lease = fleet.lease(20)
    begin(lease)
    fleet.release(lease, finished=False)
    whole_game(fleet)
    assert fleet.counters()["daemons"][0]["games"] == 1


def test_logs_that_have_no_place(forge):
    with pytest.raises(UserError, match="forge.log_dir is '/dev/null/x', which cannot be made"):
        forge(log_dir="/dev/null/x")


def test_a_process_has_one_fleet_for_a_deployment(tmp_path):
    deployment = Deployment(home=str(fake_home(tmp_path)), java=str(fake_java(tmp_path)), daemons=1, port=PORT)
    first = Fleet.shared(deployment)
    assert Fleet.shared(Deployment(**vars(deployment))) is first
    first.close()
    with pytest.raises(FleetError, match="are stopped"):
        first.lease(1)
    second = Fleet.shared(deployment)
    assert second is not first
    second.close()


# ---- deaths and hangs ---------------------------------------------------------------------------------------------


def test_kill_9_in_the_middle_of_a_game(forge):
    fleet = forge({"1": {"die": 3}})
    lease = fleet.lease(20)
    begin(lease), play(lease, 2)
    with pytest.raises(LinkError) as error:
        play(lease, 1)
    assert error.value.kind == "closed"
    fleet.failed(lease, "closed")
    whole_game(fleet)
    found = fleet.counters()
    assert found["restarts"] == 1 and found["faults_by_reason"] == {"closed": 1} and found["games_started"] == 2
    assert fleet.daemons[0].deaths == 0  # a finished game makes up for a death
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


def test_a_daemon_that_stops_answering_is_killed_and_restarted(forge):
    fleet = forge()
    lease = fleet.lease(20)
    begin(lease)
    pid = pids_of(fleet)[0]
    stop(pid)
    lease.link.send_line("1")
    with pytest.raises(LinkError) as error:
        lease.link.receive_line(0.3)
    assert error.value.kind == "timeout"
    fleet.failed(lease, "timeout")
    whole_game(fleet)
    assert not alive(pid) and fleet.counters()["faults_by_reason"] == {"timeout": 1, "hung daemon": 1}


def test_a_hang_is_found_though_nobody_plays(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "HEALTH_SECONDS", 0.2)
    fleet = forge()
    fleet.release(fleet.lease(20))
    pid = pids_of(fleet)[0]
    stop(pid)
    until(lambda: not alive(pid), "the daemon is killed")
    whole_game(fleet)
    assert "it does not answer" in Path(fleet.daemons[0].log).read_text() or fleet.hung == 1


def test_a_deaf_daemon_is_killed_although_its_process_runs(forge):
    fleet = forge({"1": {"deaf": 2}})
    lease = fleet.lease(20)
    begin(lease), play(lease, 1)
    lease.link.send_line("7")
    with pytest.raises(LinkError):
        lease.link.receive_line(0.3)
    fleet.failed(lease, "timeout")
    whole_game(fleet)
    assert fleet.counters()["restarts"] == 1


def test_a_game_that_does_not_end_with_its_connection_costs_the_daemon_its_life(forge):
    fleet = forge({"1": {"stuck": True}})
    lease = fleet.lease(20)
    begin(lease)
    fleet.failed(lease, "timeout")
    whole_game(fleet)
    assert fleet.counters()["restarts"] == 1 and fleet.hung == 1


def test_a_fault_that_was_not_the_daemons_costs_nothing(forge):
    fleet = forge()
    lease = fleet.lease(20)
    begin(lease)
    pid = pids_of(fleet)
    fleet.failed(lease, "bad utf-8")
    whole_game(fleet)
    assert pids_of(fleet) == pid and fleet.counters()["faults_by_reason"] == {"bad utf-8": 1}


def test_a_daemon_that_keeps_dying_is_given_up(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "backoff", lambda failures: 0.01)
    fleet = forge({"*": {"die": 1, "say": "java.lang.OutOfMemoryError: Java heap space"}})
    for _ in range(supervisor.MOST_DEATHS):
        lease = fleet.lease(20)
        begin(lease)
        with pytest.raises(LinkError):
            play(lease, 1)
        fleet.failed(lease, "closed")
    with pytest.raises(FleetError) as error:
        fleet.lease(20)
    text = str(error.value)
    assert "127.0.0.1:17520 ended 5 times in a row without a finished game (signal 9, its last words: " in text
    assert "Java heap space" in text and str(fleet.daemons[0].log) in text and "\n" not in text
    assert fleet.capacity == 0 and fleet.counters()["restarts"] == 4


def test_the_others_go_on_without_one_that_is_given_up(forge):
    fleet = forge({"1": {"fail": "the cards cannot be read"}}, daemons=2)
    for _ in range(3):
        whole_game(fleet)
    until(lambda: fleet.capacity == 1, "one is given up")
    assert sorted(each["state"] for each in fleet.counters()["daemons"]) == ["given up", "ready"]


# ---- starts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"fail": "res has no cardsfolder"}, r"\(res has no cardsfolder\)"),
        ({"exit": 1, "say": "Unrecognized VM option 'Use'"}, "exit code 1, its last words: Unrecognized VM option"),
    ],
)
def test_what_would_fail_again_is_not_tried_again(forge, fault, expected):
    fleet = forge({"*": fault})
    started = time.monotonic()
    with pytest.raises(FleetError, match=expected):
        fleet.lease(20)
    assert time.monotonic() - started < 5 and fleet.counters()["restarts"] == 0


def test_a_daemon_that_is_never_ready(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_DEATHS", 2)
    fleet = forge({"*": {"ready": -1}}, start_timeout=0.3)
    with pytest.raises(FleetError, match="2 times in a row.*it was not ready after 0.3 s"):
        fleet.lease(20)


def test_only_so_many_start_at_a_time(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "cores", lambda: 1)
    fleet = forge({"*": {"ready": 0.3}}, daemons=3)
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
    fleet = forge(daemons=2)
    (tmp_path / "0" / "compiles").touch()
    fleet.release(fleet.lease(20))
    until(lambda: all(each.state == "ready" for each in fleet.daemons), "both are ready")
    assert (tmp_path / "0" / "compiles").read_text() == "once\n"
    folders = list((tmp_path / "cache" / "jaxrl" / "forge").iterdir())
    assert len(folders) == 1 and [path.name for path in folders[0].iterdir()] == ["ForgeDaemon.class"]
    command = Path(f"/proc/{pids_of(fleet)[0]}/cmdline").read_text().split("\0")
    assert "ForgeDaemon" in command and command[command.index("-cp") + 1].endswith(f":{folders[0]}")


def test_where_nothing_can_be_compiled_or_kept_the_source_is_started(forge, tmp_path):
    (tmp_path / "cache").touch()
    fleet = forge()
    fleet.release(fleet.lease(20))
    assert Path(f"/proc/{pids_of(fleet)[0]}/cmdline").read_text().count("ForgeDaemon.java\0--port") == 1


# ---- ports --------------------------------------------------------------------------------------------------------


def test_port_in_use(forge, caplog):
    """Another daemon at the first port, something else at the second: ours goes behind both, and says why."""
    stranger = FakeDaemon(PORT).in_thread()
    with socket.create_server(("127.0.0.1", PORT + 1)):
        fleet = forge()
        whole_game(fleet)
        assert fleet.daemons[0].port == PORT + 2
    stranger.close()
    assert f"port {PORT} is taken by another Forge daemon (Forge {VERSION})" in caplog.text
    assert f"port {PORT + 1} is taken by another program" in caplog.text


def test_a_port_that_is_lost_in_a_race(forge):
    fleet = forge({"1": {"fail": "cannot listen on 127.0.0.1:17520: Address already in use"}})
    whole_game(fleet)
    assert fleet.daemons[0].port == PORT + 1 and fleet.counters()["restarts"] == 0


def test_a_restarted_daemon_keeps_its_port(forge):
    fleet = forge(daemons=2)
    whole_game(fleet)
    until(lambda: len(pids_of(fleet)) == 2, "both run")
    os.kill(pids_of(fleet)[0], signal.SIGKILL)
    until(lambda: fleet.counters()["restarts"] == 1 and fleet.daemons[0].state == "ready", "it is back")
    assert [each.port for each in fleet.daemons] == [PORT, PORT + 1]


# ---- other people's daemons ---------------------------------------------------------------------------------------


def test_two_learners_on_one_daemon(forge, monkeypatch):
    """The second waits its turn; if the first never lets go, it stops with one sentence."""
    daemon = FakeDaemon().in_thread()
    address = (f"127.0.0.1:{daemon.port}",)
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
    play(holder)
    mine.release(holder)
    whole_game(theirs)
    daemon.close()


def test_a_remote_daemon_that_comes_back_is_connected_to_again(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "HEALTH_SECONDS", 0.2)
    first = FakeDaemon().in_thread()
    fleet = forge(daemons=(f"127.0.0.1:{first.port}",))
    whole_game(fleet)
    lease = fleet.lease(20)
    begin(lease)
    lease.leave()
    first.close()
    until(lambda: fleet.daemons[0].state == "down", "it is missed")
    assert not lease.enter()
    second = FakeDaemon(first.port).in_thread()
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


def test_a_daemon_of_another_protocol(forge):
    daemon = FakeDaemon(0, {"protocol": 2}).in_thread()
    with pytest.raises(FleetError, match=r"no Forge daemon of protocol 1 \(it says 'HELLO 2"):
        forge(daemons=(f"127.0.0.1:{daemon.port}",)).lease(60)
    daemon.close()


# ---- the end ------------------------------------------------------------------------------------------------------


def test_a_stubborn_daemon_is_killed_in_the_end(forge, monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.2)
    fleet = forge({"*": {"stubborn": True}})
    fleet.release(fleet.lease(20))
    pid = pids_of(fleet)[0]
    fleet.close()
    until(lambda: not alive(pid), "it is killed")


def test_a_fleet_is_closed_while_its_daemons_start(forge):
    fleet = forge({"*": {"ready": -1}}, daemons=2)
    fleet.start()
    until(lambda: len(pids_of(fleet)) == 2, "they are starting")
    pids, started = pids_of(fleet), time.monotonic()
    fleet.close()
    assert time.monotonic() - started < 3 and not any(map(alive, pids))


PARENT = """
import sys, time
from envs.forge.fleet import Fleet
from envs.forge.settings import Deployment
fleet = Fleet.shared(Deployment(home=sys.argv[1], java=sys.argv[2], daemons=2, port=int(sys.argv[3])))
leases = fleet.lease(20), fleet.lease(20)
print(*[each.pid for each in fleet.daemons], flush=True)
if len(sys.argv) == 4:
    time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_no_jvm_outlives_its_parent(tmp_path, how):
    arguments = [str(fake_home(tmp_path)), str(fake_java(tmp_path)), str(PORT), *([] if how else ["end"])]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(map(alive, pids))
    if how is not None:
        started = time.monotonic()
        parent.send_signal(how)
        parent.wait(10)
        assert time.monotonic() - started < 1.0  # nothing holds a signal up
    output = parent.communicate(timeout=10)
    assert parent.returncode == (-how if how else 0), output
    until(lambda: not any(map(alive, pids)), "the daemons have ended")


def test_a_child_of_a_fork_leaves_its_parents_daemons_alone(forge):
    fleet = forge()
    whole_game(fleet)
    if (child := os.fork()) == 0:
        fleet.close()
        os._exit(0 if not supervisor._OPEN else 1)
    assert os.waitpid(child, 0)[1] == 0
    whole_game(fleet)


def test_a_fleet_costs_next_to_nothing_while_it_waits(forge):
    fleet = forge(daemons=2)
    whole_game(fleet)
    until(lambda: all(each.state == "ready" for each in fleet.daemons), "both are ready")
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.02


# ---- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"daemons": 0}, "forge.daemons must be auto"),
        ({"daemons": ()}, "forge.daemons must be auto"),
        ({"daemons": True}, "forge.daemons must be auto"),
        ({"daemons": ("here",)}, "'here' is no address"),
        ({"daemons": ("here:0",)}, "'here:0' is no address"),
        ({"daemons": ("a..b:1",)}, "'a..b:1' is no address"),
        ({"profile": "serail"}, "did you mean 'serial'"),
        ({"heap_mb": 100}, "forge.heap_mb must be a whole number from 256"),
        ({"port": 70000}, "forge.port must be"),
        ({"decision_timeout": 0}, "forge.decision_timeout must be"),
        ({"start_timeout": True}, "forge.start_timeout must be"),
    ],
)
def test_settings_that_make_no_sense(settings, expected):
    with pytest.raises(UserError, match=expected):
        Deployment(**settings)


def test_addresses():
    deployment = Deployment(daemons=["a.b-c:1", "[::1]:65535", "10.0.0.7:17171"])
    assert deployment.remote and hash(deployment)
    assert deployment.addresses == (("a.b-c", 1), ("::1", 65535), ("10.0.0.7", 17171))
    assert Deployment(daemons="host:5").addresses == (("host", 5),)
    assert not Deployment().remote and Deployment().addresses == ()


def test_automatic_is_one_less_than_the_cores_and_what_fits_into_memory(monkeypatch):
    from envs.forge import settings

    monkeypatch.setattr(settings, "cores", lambda: 8)
    monkeypatch.setattr(settings, "available_mb", lambda: 100_000)
    assert Deployment().local_count() == 7 and Deployment(daemons=12).local_count() == 12
    monkeypatch.setattr(settings, "available_mb", lambda: 4000)
    assert Deployment().local_count() == 3
    monkeypatch.setattr(settings, "available_mb", lambda: None)
    monkeypatch.setattr(settings, "cores", lambda: 1)
    assert Deployment().local_count() == 1


def test_the_section_of_a_configuration_is_the_deployment():
    """Same keys, same defaults, and all of them are handed over."""
    import dataclasses

    from jaxrl import config as configs
    from jaxrl.games import deployment

    section = configs.Config().forge
    assert {f.name: f.default for f in dataclasses.fields(section)} == {
        f.name: f.default for f in dataclasses.fields(Deployment)
    }
    config = configs.load(None, ["forge.daemons=[a:1]", "forge.home=/x", "forge.heap_mb=300"], check_env=False)
    assert Deployment(**deployment(config)) == Deployment(home="/x", daemons=("a:1",), heap_mb=300)


def test_logs_go_to_the_run(tmp_path):
    from jaxrl import config as configs
    from jaxrl.games import deployment

    overrides = [f"run.directory={tmp_path}", "run.name=mine"]
    assert deployment(configs.load(None, overrides, check_env=False))["log_dir"] == ""
    (tmp_path / "mine").mkdir()
    assert deployment(configs.load(None, overrides, check_env=False))["log_dir"] == str(tmp_path / "mine")
    with_place = configs.load(None, [*overrides, "forge.log_dir=/logs"], check_env=False)
    assert deployment(with_place)["log_dir"] == "/logs"


def test_patience_is_what_the_documentation_says():
    assert fleets.PATIENCE == 0.2 and supervisor.MOST_DEATHS == 5


# ---- the engine itself --------------------------------------------------------------------------------------------

real = pytest.mark.skipif(not os.environ.get("FORGE_HOME"), reason="FORGE_HOME is not set: there is no Forge to start")
REAL_PORT = 17540


@pytest.fixture(scope="module")
def engine():
    """A fleet of one JVM."""
    with Fleet(Deployment(daemons=1, port=REAL_PORT, start_timeout=300.0)) as fleet:
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


@real
def test_the_engine_is_found_started_and_plays(engine):
    ai_game(engine)
    found = engine.counters()["daemons"][0]
    assert found["version"] not in ("", "unknown") and found["cpu_seconds"] > 1 and found["rss_mib"] > 100


@real
def test_a_missing_deck_leaves_the_connection_usable(engine):
    lease = engine.lease(300)
    lease.link.send_line('NEWGAME "no such deck" aggro -q')
    assert lease.link.receive_line(60).startswith(b"ERROR: no deck")
    engine.release(lease, finished=False)
    ai_game(engine)


@real
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


@real
def test_a_stopped_engine_is_killed_and_started_again(engine, monkeypatch):
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 2.0)
    lease = engine.lease(300)
    begin_real(lease)
    pid = pids_of(engine)[0]
    stop(pid)
    engine.failed(lease, "timeout")
    ai_game(engine)
    assert not alive(pid) and pids_of(engine) != [pid]


@real
def test_a_game_that_is_dropped_is_aborted(engine):
    """Without the death of the JVM: the daemon lets go of a game whose connection is closed."""
    pid = pids_of(engine)
    lease = engine.lease(300)
    begin_real(lease)
    engine.failed(lease, "garbage")
    ai_game(engine)
    assert pids_of(engine) == pid


@real
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


@real
def test_a_second_learner_takes_other_ports_and_neither_outlives_its_process(engine, tmp_path):
    arguments = [os.environ["FORGE_HOME"], "", str(REAL_PORT)]
    program = PARENT.replace("daemons=2", "daemons=1").replace("fleet.lease(20), fleet.lease(20)", "fleet.lease(300)")
    program += "\nprint(fleet.daemons[0].port, flush=True)\ntime.sleep(300)\n"
    program = program.replace("if len(sys.argv) == 4:\n    time.sleep(60)\n", "")
    with (tmp_path / "errors").open("wb") as errors:
        parent = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True
        )
    pid, port = int(parent.stdout.readline()), int(parent.stdout.readline())
    assert alive(pid) and port == REAL_PORT + 1
    parent.kill()
    parent.wait(10)
    until(lambda: not alive(pid), "the JVM has seen the end of its input")
