"""A cluster of Ray for slow tests: its machines are families of processes of this one, and end as without power."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.paths import PYTHONPATH

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'jaxrl[fleet]'")

# Ports that would be the same on every machine, and an object store of 100 MB.
ALIKE = (
    *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0", "--metrics-export-port=0"),
    *("--object-store-memory=100000000", "--disable-usage-stats", "--block"),
)


class Machine:
    """What one `ray start` begins."""

    def __init__(self, environment: dict[str, str], address: str, *options: str, inside: Sequence[str] = ()):
        """Begins.

        Args:
          environment: beside that of this process.
          address: of its own.
          options: of `ray start`.
          inside: a command that runs another.
        """
        command = [*inside, sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={address}"]
        self._process = subprocess.Popen(
            [*command, *options, *ALIKE],
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def processes(self) -> list[int]:
        """All of them."""
        return family(self._process.pid)

    def begun(self) -> None:
        """Waits until its own process has begun all others."""
        ready = "ray::"  # what serves the machine names itself so
        wait(lambda: any(name_of(pid).startswith(ready) for pid in self.processes()), 120.0, "a machine has begun")

    def kill(self) -> None:
        """kill -9 of all its processes at once."""
        kill(self._process.pid)
        self._process.wait()


class Cluster:
    """A head that plays nothing, and machines with room for one worker each that come and go.

    Attributes:
      address: of the head.
      environment: what a training needs so that it is let in.
      machines: those that play.
    """

    def __init__(self, host: str = "127.0.0.1", inside: Sequence[str] = ()):
        """Starts the head; see `Machine`."""
        self._folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of its sockets must be short
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": PYTHONPATH}
        self.address, self.machines = f"{host}:{free_port()}", []
        port = self.address.rpartition(":")[2]
        options = (
            "--head",
            f"--port={port}",
            "--num-cpus=0",
            "--include-dashboard=false",
            f"--temp-dir={self._folder}",
        )
        self._head = Machine(self.environment, host, *options, inside=inside)
        self._head.begun()

    def add(self, address: str, inside: Sequence[str] = ()) -> Machine:
        """A machine joins."""
        options = (f"--address={self.address}", "--num-cpus=1")
        self.machines.append(Machine(self.environment, address, *options, inside=inside))
        self.machines[-1].begun()  # two that begin at once would choose the same socket in the common folder
        return self.machines[-1]

    def remove(self, machine: Machine) -> None:
        """A machine is gone."""
        machine.kill()
        self.machines.remove(machine)

    def close(self) -> None:
        """Nothing is left."""
        for machine in (*self.machines, self._head):
            machine.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def cluster(*arguments, **options) -> Iterator[Cluster]:
    """A `Cluster` that is ended in any case."""
    made = Cluster(*arguments, **options)
    try:
        yield made
    finally:
        made.close()


def workers_of(pid: int) -> list[int]:
    """Those of a family that play."""
    return [each for each in family(pid) if name_of(each).startswith("ray::EngineWorker")]


# ---- processes ------------------------------------------------------------------------------------------------------


def name_of(pid: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def family(pid: int) -> list[int]:
    """A process and all that it has started, and they."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def kill(pid: int) -> None:
    """kill -9 of a family."""
    for each in family(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(condition: Callable[[], object], seconds: float, what: str) -> float:
    """Seconds until something is so."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() < begin + seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - begin
