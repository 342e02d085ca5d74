"""Signs of life between processes that train together (`jaxrl.runs.processes`): where one dies or hangs, all of them
end."""

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

BEAT, SILENT = 2.0, 20.0  # seconds between two signs of life, and without one until a process is taken for dead
LOST = 75  # exit code of a process that has lost another one
FAREWELL = 5.0  # seconds for the last words


def leave_at_once(code: int) -> None:
    """Ends this process without waiting for anybody."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class Watch(threading.Thread):
    """Gives signs of life and looks for those of the others; where they are missing, one sentence and the end."""

    def __init__(self, client: Any, rank: int, count: int):
        """Begins with `start`."""
        super().__init__(name="watch", daemon=True)
        self.done = threading.Event()
        self.stopped = False  # see `processes.stopped_together`
        self.farewell: Callable[[str], None] | None = None  # is told why, in a sentence, before this process leaves
        self._client, self._rank, self._count = client, rank, count
        self._signs: dict[int, str] = {}  # the newest of every process by rank

    def run(self) -> None:
        """Until `done`."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        seen: dict[int, tuple[str | None, float]] = {}  # the newest sign of each, and since when it is known
        while not self.done.wait(BEAT):
            signs, now = self._signs, time.monotonic()
            for other in range(self._count):
                if other not in seen or signs.get(other) != seen[other][0]:
                    seen[other] = signs.get(other), now
            late = [other for other, (_, since) in seen.items() if now - since > SILENT]
            if late:  # where process 0 hangs nobody is heard of, and it may not have been the first
                self._lost(0 if now - seen[0][1] > SILENT - 2 * BEAT else late[0])

    def _beat(self) -> None:
        """Gives signs and fetches those of the others. Where process 0, who keeps them, is gone or hangs, this fails or
        never returns: then all of them grow old."""
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
        self.part(why)
        leave_at_once(LOST)

    def part(self, why: str) -> None:
        """Says farewell, if anybody wants to hear it; a disk that hangs holds nobody up."""
        if self.farewell is not None:
            last = threading.Thread(target=self.farewell, args=(why,), name="farewell", daemon=True)
            last.start()
            last.join(FAREWELL)
