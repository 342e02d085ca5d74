"""`jaxrl train --processes N`: a training in several processes of this machine, which are watched: if one dies, all
are started again from the newest checkpoint.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType

from jaxrl import xla
from jaxrl.runs.distributed import USER_ERROR
from jaxrl.runs.heartbeat import LOST
from jaxrl.runs.presence import how_ended
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.resources import cores

PROGRAM = (sys.executable, "-m", "jaxrl")
LOOK = 0.2  # seconds between two looks at the processes
GRACE = 30.0  # seconds that the others have to end by themselves after one has ended with a sentence
SETTLE = 10.0  # seconds in which all that have lost the same one end: it is who is left then
WELL = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes: at its end, or stopped and saved
OTHERS = (-signal.SIGABRT, LOST)  # and how processes end for want of another one
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def launch(words: Sequence[str], processes: int, restarts: int) -> int:
    """Runs a command, given with its arguments, in several processes, which all start again after one has died; returns
    the exit code. Raises UserError: `processes` is 0, or the accelerators cannot be divided."""
    if processes < 1:
        raise UserError("--processes must be at least 1.")
    for left in reversed(range(restarts + 1)):
        code, died = Processes(words, processes).watched()
        if not died:
            return code
        if words[0] == "train" and "--continue" not in words:
            words = [*words, "--continue"]
        again = f"all are started again from the newest checkpoint, and {left - 1} more times at most"
        over = f"the restarts are used up: go on with jaxrl {shlex.join(words)}"
        print(f"jaxrl: {died}; {again if left else over}", file=sys.stderr)
    return code


class Processes:
    """The processes of one start."""

    def __init__(self, words: Sequence[str], count: int):
        """Starts nothing yet."""
        self._words, self._count = words, count
        self._each: list[subprocess.Popen[bytes]] = []
        self._signals: list[int] = []  # to this process, in turn
        self._told = 0  # how many of them the processes know of
        self._lost = 0.0  # when the first ended for want of another one that still ran

    def watched(self) -> tuple[int, str]:
        """Starts them; their exit code when all have ended, and what has happened to the first that died."""
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup's is not
        previous = {number: signal.signal(number, self._hear) for number in heard}
        try:
            self._start()
            return self._watched()
        finally:
            for process in self._each:
                process.kill()
                process.wait()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        address = f"127.0.0.1:{free_port()}"
        more = ["--distributed", "--coordinator", address, "--processes", str(self._count)]
        for rank in range(self._count):
            process = subprocess.Popen(
                [*PROGRAM, *self._words, *more, "--rank", str(rank)],
                env=os.environ | devices_of(rank, self._count),
                start_new_session=True,  # Ctrl-C comes to this process, which tells them
            )
            self._each.append(process)
            pin(process.pid, rank, self._count)

    def _watched(self) -> tuple[int, str]:
        until = float("inf")
        while None in (codes := [process.poll() for process in self._each]) and time.monotonic() < until:
            self._pass_on()
            if first := self._dead(codes):
                return first
            if self._signals or any(code is not None for code in codes):
                until = min(until, time.monotonic() + (GRACE if USER_ERROR in codes else 10 * GRACE))
            time.sleep(LOOK)
        if first := self._dead(codes):
            return first
        for rank in (rank for rank, code in enumerate(codes) if code is None):
            print(f"jaxrl: process {rank} of {self._count} does not end and is killed", file=sys.stderr)
        ended = [of_shell(code) for code in codes if code is not None] or [of_shell(-signal.SIGKILL)]
        return max(ended, key=lambda code: (code == USER_ERROR, code)), ""

    def _dead(self, codes: Sequence[int | None]) -> tuple[int, str] | None:
        """The exit code of a process that has died, as a shell has it, and a sentence; None as long as all is well. Of
        several it is the one that the others did not die of. Who stops them need not be told."""
        dead = {rank: code for rank, code in enumerate(codes) if code is not None and code not in (*WELL, USER_ERROR)}
        first = [rank for rank, code in dead.items() if code not in OTHERS]
        if self._signals or not dead or USER_ERROR in codes and not first:
            return None
        if not first and None in codes and LOST in dead.values():
            self._lost = self._lost or time.monotonic()
            hangs = f"process {codes.index(None)} of {self._count} hangs"
            return (LOST, hangs) if time.monotonic() - self._lost > SETTLE else None
        rank = (first or list(dead))[0]
        return of_shell(dead[rank]), f"process {rank} of {self._count} {how_ended(dead[rank])}"

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _pass_on(self) -> None:
        """Tells the processes of signals; when the terminal is closed they save and end, as by SIGTERM."""
        for number in self._signals[self._told :]:
            self._told += 1
            for process in self._each:
                process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)


def of_shell(code: int) -> int:
    """Returns an exit code of Python as a shell has it: 128 + the signal that has ended a process."""
    return 128 - code if code < 0 else code


def free_port() -> int:
    """Returns a free port of this machine."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def devices_of(rank: int, count: int) -> dict[str, str]:
    """Returns the variables that give a process its share of the accelerators; empty on a CPU. Raises UserError: they
    cannot be divided."""
    if xla.on_cpu():
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("JAX_LOCAL_DEVICE_IDS")
    ids = visible.split(",") if visible else [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
    if not ids or len(ids) % count:
        raise UserError(f"{len(ids)} accelerators cannot be divided by {count} processes: choose another number.")
    share = len(ids) // count
    return {"CUDA_VISIBLE_DEVICES": ",".join(ids[rank * share : (rank + 1) * share])}


def pin(process: int, rank: int, count: int) -> None:
    """Gives a process its share of the cores, where there are enough."""
    share = cores() // count
    if share and hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))[rank * share : (rank + 1) * share]
        os.sched_setaffinity(process, own)
