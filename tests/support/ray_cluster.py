"""A cluster of Ray for slow tests: its machines are process trees on this machine, which end as by a power failure."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jaxrl.training.launching.launch import free_port
from tests.support.paths import PYTHONPATH

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'jaxrl[fleet]'")

# Ports that would be the same on every machine, and an object store of 100 MB.
ALIKE = (
    *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0", "--metrics-export-port=0"),
    *("--object-store-memory=100000000", "--disable-usage-stats", "--block"),
)


class Machine:
    """The processes of one `ray start`."""

    def __init__(self, environment: dict[str, str], address: str, *options: str):
        """Starts the processes.

        Args:
          environment: variables beside those of this process.
          address: its own address.
          options: options of `ray start`.
        """
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={address}"]
        self._process = subprocess.Popen(
            [*command, *options, *ALIKE],
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def processes(self) -> list[int]:
        """Returns all processes of the machine."""
        return family(self._process.pid)

    def begun(self) -> None:
        """Waits until the first process has started all others."""
        ready = "ray::"  # what serves the machine names itself so
        wait(lambda: any(name_of(pid).startswith(ready) for pid in self.processes()), 120.0, "a machine has begun")

    def kill(self) -> None:
        """Kills all its processes at once with SIGKILL."""
        kill(self._process.pid)
        self._process.wait()


class Cluster:
    """A head without workers, and machines that join and leave, each with room for one worker.

    Attributes:
      address: address of the head.
      environment: variables with which a training may join.
      machines: the machines with workers.
    """

    def __init__(self) -> None:
        """Starts the head; see `Machine`."""
        self._folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of its sockets must be short
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": PYTHONPATH}
        self.address, self.machines = f"127.0.0.1:{free_port()}", []
        port = self.address.rpartition(":")[2]
        options = (
            "--head",
            f"--port={port}",
            "--num-cpus=0",
            "--include-dashboard=false",
            f"--temp-dir={self._folder}",
        )
        self._head = Machine(self.environment, "127.0.0.1", *options)
        self._head.begun()

    def add(self, address: str) -> Machine:
        """Adds a machine."""
        options = (f"--address={self.address}", "--num-cpus=1")
        self.machines.append(Machine(self.environment, address, *options))
        self.machines[-1].begun()  # two that begin at once would choose the same socket in the common folder
        return self.machines[-1]

    def remove(self, machine: Machine) -> None:
        """Removes a machine."""
        machine.kill()
        self.machines.remove(machine)

    def close(self) -> None:
        """Ends all processes."""
        for machine in (*self.machines, self._head):
            machine.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A context manager: a `Cluster` that is always ended."""
    made = Cluster()
    try:
        yield made
    finally:
        made.close()


def workers_of(pid: int) -> list[int]:
    """Returns the workers in a process tree."""
    return [each for each in family(pid) if name_of(each).startswith("ray::EngineWorker")]


# ---- processes ------------------------------------------------------------------------------------------------------


def name_of(pid: int) -> str:
    """Returns the command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def family(pid: int) -> list[int]:
    """Returns a process and all its descendants."""
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
    """Kills a process tree with SIGKILL."""
    for each in family(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def wait(condition: Callable[[], object], seconds: float, what: str) -> float:
    """Seconds until a condition holds."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() < begin + seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - begin
