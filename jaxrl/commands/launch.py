"""`jaxrl launch`: a training in several processes of this machine, which are watched: if one dies, all are started
again from the newest checkpoint.
"""

from __future__ import annotations

import argparse
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
from jaxrl.envs.errors import UserError
from jaxrl.envs.machine import cores
from jaxrl.processes import LOST, USER_ERROR

PROGRAM = (sys.executable, "-m", "jaxrl")
LOOK = 0.2  # seconds between two looks at the processes
GRACE = 30.0  # seconds that the others have to end by themselves after one has ended with a sentence
WELL = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes: at its end, or stopped and saved


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl launch`."""
    if args.processes < 1:
        raise UserError("-n must be at least 1.")
    words = args.words
    if not words:
        raise UserError("say what to launch: jaxrl launch -n 2 train …, or resume …, with that command's arguments.")
    for left in reversed(range(args.restarts + 1)):
        code, died = Processes(words, args.processes).watched()
        if not died:
            return code
        if words[0] == "train" and "--continue" not in words:
            words = [*words, "--continue"]
        again = f"all are started again from the newest checkpoint, and {left - 1} more times at most"
        over = f"the restarts are used up: go on with jaxrl launch -n {args.processes} {shlex.join(words)}"
        print(f"jaxrl: {died}; {again if left else over}", file=sys.stderr)
    return code


class Processes:
    """The processes of one start."""

    def __init__(self, words: Sequence[str], count: int):
        """Starts them.

        Args:
          words: of the command line, after `jaxrl`.
          count: how many.
        """
        self._stopped = False  # by a signal to this process
        address = f"127.0.0.1:{free_port()}"
        more = ["--distributed", "--coordinator", address, "--processes", str(count)]
        self._each = [
            subprocess.Popen(
                [*PROGRAM, *words, *more, "--rank", str(rank)],
                env=os.environ | devices_of(rank, count),
                start_new_session=True,  # Ctrl-C comes to this process, which tells them
            )
            for rank in range(count)
        ]
        for rank, process in enumerate(self._each):
            pin(process.pid, rank, count)

    def watched(self) -> tuple[int, str]:
        """Their exit code when all have ended, and what has happened to the first that died."""
        previous = {number: signal.signal(number, self._pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return self._watched()
        finally:
            for process in self._each:
                process.kill()
                process.wait()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _watched(self) -> tuple[int, str]:
        until = float("inf")
        while None in (codes := [process.poll() for process in self._each]) and time.monotonic() < until:
            if first := self._dead(codes):
                return first
            if any(code is not None for code in codes):
                until = min(until, time.monotonic() + (GRACE if USER_ERROR in codes else 10 * GRACE))
            time.sleep(LOOK)
        if first := self._dead(codes):
            return first
        ended = [code for code in codes if code is not None]
        return max(ended, key=lambda code: (code == USER_ERROR, code)), ""

    def _dead(self, codes: Sequence[int | None]) -> tuple[int, str] | None:
        """The exit code of a process that has died, as a shell has it, and a sentence; None as long as all is well. Of
        several it is the one that the others did not die of. Who stops them need not be told."""
        dead = [(rank, code) for rank, code in enumerate(codes) if code not in (None, *WELL, USER_ERROR)]
        others = (-signal.SIGABRT, LOST)  # how they end for want of another one
        if self._stopped or not dead or USER_ERROR in codes and all(code in others for _, code in dead):
            return None
        rank, code = min(dead, key=lambda each: each[1] in others)
        assert code is not None
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
        return 128 - code if code < 0 else code, f"process {rank} of {len(codes)} {ended}"

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True
        for process in self._each:
            process.send_signal(number)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def devices_of(rank: int, count: int) -> dict[str, str]:
    """What tells a process its share of the accelerators; nothing on a CPU.

    Raises:
      UserError: they cannot be divided.
    """
    if xla.on_cpu():
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("JAX_LOCAL_DEVICE_IDS")
    ids = visible.split(",") if visible else [str(i) for i, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
    if not ids or len(ids) % count:
        raise UserError(
            f"{len(ids)} accelerators cannot be divided by {count} processes: choose another number for -n."
        )
    share = len(ids) // count
    return {"CUDA_VISIBLE_DEVICES": ",".join(ids[rank * share : (rank + 1) * share])}


def pin(process: int, rank: int, count: int) -> None:
    """Gives a process its share of the cores, where there are enough."""
    share = cores() // count
    if share and hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))[rank * share : (rank + 1) * share]
        os.sched_setaffinity(process, own)
