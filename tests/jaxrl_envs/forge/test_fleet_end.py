"""The end of a fleet of daemons, in every way that it can end, and its settings."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxrl_envs.forge.fleet.supervisor import Patience
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.forge.wire.link import LinkError
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.fake import FakeDaemon, Fault, fake_home, fake_java
from tests.support.forge.fleets import BRISK, PARENT, alive, begin, forge, pids_of, until
from tests.support.paths import ROOT

__all__ = ["forge"]


# ---- the end ------------------------------------------------------------------------------------------------------


def test_a_stubborn_daemon_is_killed_in_the_end(forge):
    fleet = forge(Fault("stubborn"), patience=BRISK._replace(stop=0.2))
    fleet.release(fleet.lease(20))
    pid = pids_of(fleet)[0]
    fleet.close()
    until(lambda: not alive(pid), "it is killed")


def test_a_fleet_is_closed_while_its_daemons_start(forge):
    fleet = forge(Fault("late"), daemons=2)
    fleet.start()
    until(lambda: len(pids_of(fleet)) == 2, "they are starting")
    pids, started = pids_of(fleet), time.monotonic()
    fleet.close()
    assert time.monotonic() - started < 8 and not any(map(alive, pids))


def test_waiters_for_a_remote_daemon_are_told_of_the_end(forge):
    with contextlib.closing(FakeDaemon(faults=[Fault("silent", decision=2)])) as daemon:
        fleet = forge(daemons=(daemon.address,))
        lease = fleet.lease(20)
        begin(lease)
        lease.link.send_line("7")
        threading.Timer(0.1, fleet.close).start()
        with pytest.raises(LinkError) as error:
            lease.link.receive_line(20)
        assert error.value.kind == "closed"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_no_jvm_outlives_its_parent(tmp_path, how):
    arguments = [str(fake_home(tmp_path)), str(fake_java(tmp_path)), "2"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *arguments], **pipes, cwd=ROOT, text=True)
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(map(alive, pids))
    if how is not None:
        started = time.monotonic()
        parent.send_signal(how)
        parent.wait(10)
        assert time.monotonic() - started < 1.0  # nothing holds a signal up
    output = parent.communicate("\n" if how is None else None, timeout=10)
    assert parent.returncode == (-how if how else 0), output
    until(lambda: not any(map(alive, pids)), "the daemons have ended")


FORKS = """
import os, sys
child = os.fork()
if child == 0:
    sys.exit(0)  # the end of a process closes its fleets
assert os.waitpid(child, 0)[1] == 0
for lease in leases:
    lease.link.send_line("NEWGAME a b -i")
    print(lease.link.receive_line(5).decode(), flush=True)
"""


def test_a_child_of_a_fork_leaves_its_parents_daemons_alone(tmp_path):
    """The fork is of another process, because this one may have threads of XLA."""
    arguments = [str(fake_home(tmp_path)), str(fake_java(tmp_path)), "2"]
    command = [sys.executable, "-c", PARENT + FORKS, *arguments]
    parent = subprocess.run(command, input="\n", capture_output=True, cwd=ROOT, text=True, timeout=60)
    assert parent.returncode == 0, parent.stderr
    assert len(parent.stdout.splitlines()) == 3, parent.stdout  # one of the parent, and an answer of each daemon


# ---- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"daemons": 0}, "forge.daemons must be auto"),
        ({"daemons": True}, "forge.daemons must be auto"),
        ({"daemons": ("here",)}, "'here' is no address"),
        ({"daemons": ("a..b:1",)}, "'a..b:1' is no address"),
        ({"profile": "serail"}, "forge.profile must be serial, parallel, g1 or g1_common"),
        ({"decision_timeout": 0}, "forge.decision_timeout must be"),
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
    from jaxrl_envs.forge import settings

    monkeypatch.setattr(settings, "cores", lambda: 8)
    monkeypatch.setattr(settings, "available_mb", lambda: 100_000)
    assert Deployment().local_count() == 7 and Deployment(daemons=12).local_count() == 12
    monkeypatch.setattr(settings, "available_mb", lambda: 4000)
    assert Deployment().local_count() == 3
    monkeypatch.setattr(settings, "available_mb", lambda: None)
    monkeypatch.setattr(settings, "cores", lambda: 1)
    assert Deployment().local_count() == 1


def test_the_section_of_a_configuration_is_the_deployment():
    from jaxrl import config as configs
    from jaxrl.games import deployment

    keys = ["env.id=forge", "forge.daemons=[a:1]", "forge.home=/x", "forge.heap_mb=300"]
    config = configs.load(None, keys)
    assert config.forge == Deployment(**deployment(config)) == Deployment(home="/x", daemons=("a:1",), heap_mb=300)
    assert deployment(configs.Config()) == {}


def test_logs_go_to_the_run(tmp_path):
    from jaxrl import config as configs
    from jaxrl.games import deployment

    overrides = ["env.id=forge", f"run.directory={tmp_path}", "run.name=mine"]
    assert deployment(configs.load(None, overrides))["log_dir"] == ""
    (tmp_path / "mine").mkdir()
    assert deployment(configs.load(None, overrides))["log_dir"] == str(tmp_path / "mine")
    with_place = configs.load(None, [*overrides, "forge.log_dir=/logs"])
    assert deployment(with_place)["log_dir"] == "/logs"


def test_patience_is_what_the_documentation_says():
    patience = Patience()
    assert (patience.idle, patience.deaths) == (0.2, 5)
    assert [patience.backoff(failures) for failures in (1, 2, 3, 7, 99)] == [0.5, 1.0, 2.0, 30.0, 30.0]
