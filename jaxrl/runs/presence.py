"""`process.json` in a run's folder: the process that trains there, or did last, and how that ended. No jax.

A process that is killed, or whose machine is gone, leaves the file without an end; the lock of the run says whether a
process still trains there.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import signal
import threading
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FILE = "process.json"
LONGEST = 4_000  # letters of one value
FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"


class Presence(NamedTuple):
    """Times are UTC in ISO 8601."""

    pid: int
    host: str
    processes: int  # that train together; this is the first of them
    begun: str
    ended: str = ""  # empty as long as it runs, or if it was killed
    how: str = ""  # FINISHED, STOPPED or FAILED
    why: str = ""  # one sentence, where it has failed


class Here:
    """Writes process.json for this training."""

    def __init__(self, run: Path, found: Presence):
        """Writes that it has begun."""
        self._run, self._found = run, found
        self._lock = threading.Lock()  # `lost` comes from another thread
        self._lost = ""
        self.stopped = False  # that is how it ends, unless something fails
        _write(run, found)

    def end(self, how: str, why: str = "") -> None:
        """Writes how it has ended; the loss of another process outweighs any error that follows from it."""
        with self._lock:
            how, why = (FAILED, self._lost) if self._lost else (how, why)
            _write(self._run, self._found._replace(ended=now(), how=how, why=why[:LONGEST]))

    def lost(self, why: str) -> None:
        """Writes that another process is gone and this one leaves; does nothing if another training has begun here."""
        self._lost = why
        found = read_presence(self._run)
        if found is None or found[:4] == self._found[:4]:
            self.end(FAILED, why)


@contextlib.contextmanager
def present(run: Path, processes: int) -> Iterator[Here]:
    """Writes to a run's folder that this process trains while the block runs, and afterwards how it ended.

    Args:
      run: the folder, locked by the caller.
      processes: number of processes that train together.

    Yields:
      its `Here`; a block that is left by Ctrl-C is STOPPED, by another exception FAILED.
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
    """Reads process.json; None if the file is missing or not valid."""
    with contextlib.suppress(UserError, ValueError, TypeError):
        return of_record(files.read(run / FILE))
    return None


def of_record(record: Any) -> Presence:
    """Returns the content of process.json. Raises TypeError or ValueError: it is something else."""
    found = Presence(**record)
    for name, kind in typing.get_type_hints(Presence).items():
        if type(value := getattr(found, name)) is not kind or len(str(value)) > LONGEST:
            raise ValueError(f"{name} is of another type, or too long")
    return found


def now() -> str:
    """Returns the present time in UTC, ISO 8601, to the second."""
    return iso(datetime.datetime.now(datetime.UTC).timestamp())


def iso(seconds: float) -> str:
    """Returns a time since 1970 as UTC in ISO 8601, to the second."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _write(run: Path, found: Presence) -> None:
    with contextlib.suppress(OSError):  # a full disk: the training itself reports it
        files.write(run / FILE, (json.dumps(found._asdict()) + "\n").encode())


def how_ended(code: int) -> str:
    """Returns the exit code of a process, negative for a signal, in words that follow its name."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
