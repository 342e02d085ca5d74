"""Heartbeats between processes that train together (`jaxrl.runs.distributed`): if one dies or hangs, all end."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

BEAT, SILENT = 2.0, 20.0  # seconds between two heartbeats, and without one until a process counts as dead
LOST = 75  # exit code of a process that has lost another one
FAREWELL = 5.0  # seconds for the last words


def exit_now(code: int) -> None:
    """Ends this process without waiting for its threads or for other processes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class Heartbeat(threading.Thread):
    """Sends heartbeats and watches those of the other processes; if one is missing, says so and ends this process."""

    def __init__(self, client: Any, rank: int, count: int):
        """Begins with `start`."""
        super().__init__(name="watch", daemon=True)
        self.done = threading.Event()
        self.stopped = False  # see `distributed.stopped_together`
        self.farewell: Callable[[str], None] | None = None  # called with the reason before this process leaves
        self._client, self._rank, self._count = client, rank, count
        self._signs: dict[int, str] = {}  # the newest heartbeat of every process by rank

    def run(self) -> None:
        """Watches until `done`."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        seen: dict[int, tuple[str | None, float]] = {}  # the newest heartbeat of each, and since when it is known
        while not self.done.wait(BEAT):
            signs, now = self._signs, time.monotonic()
            for other in range(self._count):
                if other not in seen or signs.get(other) != seen[other][0]:
                    seen[other] = signs.get(other), now
            late = [other for other, (_, since) in seen.items() if now - since > SILENT]
            if late:  # if process 0 hangs, all heartbeats stop, and it need not be the first that looks late
                self._lost(0 if now - seen[0][1] > SILENT - 2 * BEAT else late[0])

    def all_alive(self) -> bool:
        """Waits for new heartbeats of all other processes, at most `4 * BEAT`; whether they have come."""
        before, others = self._signs, set(range(self._count)) - {self._rank}
        for _ in range(40):
            if all(self._signs.get(other) != before.get(other) for other in others):
                return True
            time.sleep(BEAT / 10)
        return False

    def _beat(self) -> None:
        """Sends heartbeats and fetches the others'.

        If process 0, which keeps them, is gone or hangs, this fails or never returns: then all of them grow old.
        """
        for number in itertools.count():
            with contextlib.suppress(jax.errors.JaxRuntimeError):
                self._client.key_value_set(f"jaxrl/alive/{self._rank}", str(number), allow_overwrite=True)
                found = self._client.key_value_dir_get("jaxrl/alive/")
                self._signs = {int(key.rpartition("/")[2]): sign for key, sign in found}
            if self.done.wait(BEAT):
                return

    def _lost(self, other: int) -> None:
        why = f"process {other} of {self._count} has died or hangs"
        if self._rank == (0 if other else 1):
            print(
                f"jaxrl: {why}, so all of them end; what was saved is intact: continue with jaxrl resume.",
                file=sys.stderr,
            )
        self.say_farewell(why)
        exit_now(LOST)

    def say_farewell(self, why: str) -> None:
        """Calls `farewell`, for at most `FAREWELL` seconds: a disk that hangs must not keep the process."""
        if self.farewell is not None:
            last = threading.Thread(target=self.farewell, args=(why,), name="farewell", daemon=True)
            last.start()
            last.join(FAREWELL)
