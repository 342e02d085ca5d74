"""`process.json` in a run's folder: who trains there, or did last, and how that ended. No jax.

A process that is killed, or whose machine is gone, leaves it without an end; whether one is still there, the run's lock
tells.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import threading
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FILE = "process.json"
FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"


class Presence(NamedTuple):
    """Times are UTC in ISO 8601."""

    pid: int
    host: str
    processes: int  # that train together; this is the first of them
    begun: str
    ended: str = ""  # nothing as long as it runs, or if it was killed
    how: str = ""  # FINISHED, STOPPED or FAILED
    why: str = ""  # one sentence, where it has failed


class Here:
    """What a training says of itself in its folder."""

    def __init__(self, run: Path, found: Presence):
        """It has begun."""
        self._run, self._found = run, found
        self._lock = threading.Lock()  # `lost` comes from another thread
        self._lost = ""
        self.stopped = False  # that is how it ends, unless something fails
        _write(run, found)

    def end(self, how: str, why: str = "") -> None:
        """It has ended so; whatever follows the loss of another process is due to that."""
        with self._lock:
            end = self._found._replace(ended=now(), how=FAILED if self._lost else how, why=self._lost or why)
            _write(self._run, end)

    def lost(self, why: str) -> None:
        """Another process is gone, and this one leaves at once; nothing where somebody else trains here by now."""
        self._lost = why
        found = read_presence(self._run)
        if found is None or found[:4] == self._found[:4]:
            self.end(FAILED, why)


@contextlib.contextmanager
def present(run: Path, processes: int) -> Iterator[Here]:
    """Says in a run's folder that this process trains while the block runs, and afterwards how it ended.

    Args:
      run: the folder, locked by the caller.
      processes: that train together.

    Yields:
      what is told of its end; a block that is left by Ctrl-C has STOPPED, by another exception FAILED.
    """
    here = Here(run, Presence(os.getpid(), platform.node(), processes, now()))
    try:
        yield here
    except KeyboardInterrupt:
        here.end(STOPPED)
        raise
    except BaseException as error:
        why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".removesuffix(": ")
        here.end(FAILED, why)
        raise
    here.end(STOPPED if here.stopped else FINISHED)


def read_presence(run: Path) -> Presence | None:
    """Who trains in a folder, or did last; None if nobody has said so."""
    try:
        record = json.loads(files.contents(run / FILE))
        found = Presence(**record)
    except (OSError, ValueError, TypeError):
        return None
    kinds = typing.get_type_hints(Presence)
    return found if all(isinstance(getattr(found, name), kind) for name, kind in kinds.items()) else None


def now() -> str:
    """In UTC, ISO 8601, to the second."""
    return iso(datetime.datetime.now(datetime.UTC).timestamp())


def iso(seconds: float) -> str:
    """A time since 1970 as UTC in ISO 8601, to the second."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _write(run: Path, found: Presence) -> None:
    with contextlib.suppress(OSError):  # a full disk: what is trained tells
        files.write(run / FILE, (json.dumps(found._asdict()) + "\n").encode())
