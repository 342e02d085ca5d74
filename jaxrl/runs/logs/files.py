"""Names of the log files in a run's folder, and reading them back. No jax.

Process 0 writes log.txt, process 1 log.1.txt, ...: one line for each event.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.shared import files

TAIL = 2**18  # bytes at the end of a log that are read back
_NAME = re.compile(r"log(?:\.([1-9][0-9]{0,5}))?\.txt")
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}) (error|warning|info|debug) \S+ .*?: (.*)")


class Event(NamedTuple):
    """One event of a log."""

    time: float  # seconds since 1970
    level: str  # error, warning, info or debug
    message: str  # the first line of it


def file_name(rank: int) -> str:
    """Returns the name of a process's log file."""
    return f"log.{rank}.txt" if rank else "log.txt"


def logs(run: Path) -> dict[int, Path]:
    """Returns the log of every process by rank."""
    names = ((_NAME.fullmatch(path.name), path) for path in run.glob("log*"))
    return dict(sorted((int(match[1] or 0), path) for match, path in names if match and path.is_file()))


def last_lines(path: Path, most: int) -> list[bytes]:
    """Returns the lines in the last `most` bytes of a file (the first may be cut), or `[]` if it cannot be read."""
    try:
        with files.opened(path) as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read().splitlines()
    except OSError:
        return []


def events(path: Path) -> list[Event]:
    """Returns the newest events of a log; tracebacks, and lines of another kind, are left out."""
    found = []
    for line in last_lines(path, TAIL):
        if match := _LINE.match(line.decode(errors="replace")):
            with contextlib.suppress(ValueError, OverflowError, OSError):  # a time that no calendar has
                when = datetime.datetime.fromisoformat(match[1]).timestamp()
                datetime.datetime.fromtimestamp(when, datetime.UTC)  # for `Status`, which tells it in UTC
                found.append(Event(when, match[2], match[3]))
    return found
