"""The log of a run, `<run>/log.txt`: events, besides the metrics; warnings and errors go to standard error too.

Each process has a log file of its own (`files`).

Everything logs through Python's `logging` under the name "jaxrl" or below it, one line for each event, with the thread:

    2026-01-31T12:00:00.123 info jaxrl actor 0: actor 0 has waited 60 s for the learner; nothing is lost

`run.log_level` says from which level on. Events below it cost a look-up: arguments are given to `logging` unformatted
(`LOG.debug("game %d ended", game)`), and code that would have to compute them asks `LOG.isEnabledFor` first. Loops over
games log nothing.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from jaxrl.runs import distributed
from jaxrl.runs.logs.console import console
from jaxrl.runs.logs.files import file_name
from jaxrl_envs.shared.errors import printable

LOG = logging.getLogger("jaxrl")
FORMAT = "%(asctime)s.%(msecs)03d %(level)s %(name)s %(threadName)s: %(message)s"


class OneLine(logging.Formatter):
    """`FORMAT`; the lines of a traceback are indented, so that every other line begins with a date."""

    def __init__(self) -> None:
        super().__init__(FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        return printable(super().format(record)).replace("\n", "\n    ")


class _File(logging.FileHandler):
    """A log file that a full disk cuts short in silence: the training's other files report the full disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class _Terminal(logging.Handler):
    """Standard error, above the lines that are drawn there."""

    def emit(self, record: logging.LogRecord) -> None:
        console().print(self.format(record))


def say(text: str) -> None:
    """Prints a message on standard error, and logs it."""
    LOG.info("%s", text)
    console().print(text)


def last_word(text: str, directory: Path) -> None:
    """Logs an error of a process that is about to leave, in its file alone; works inside and outside `to_run`."""
    file = _File(Path(directory) / file_name(distributed.rank()), encoding="utf-8")
    file.setFormatter(OneLine())
    file.handle(LOG.makeRecord(LOG.name, logging.ERROR, __file__, 0, "%s", (text,), None))
    file.close()


@contextlib.contextmanager
def to_run(level: str, directory: Path) -> Iterator[None]:
    """Logs from `level` (`run.log_level`) on into a run's directory while the block runs, continuing a log that is
    there; an exception that leaves the block is logged too."""
    file = _File(Path(directory) / file_name(distributed.rank()), encoding="utf-8")
    terminal = _Terminal(logging.WARNING)
    before = LOG.level, LOG.propagate
    LOG.setLevel(level.upper())
    LOG.propagate = False  # a library may have given the root logger a handler of its own
    for handler in (file, terminal):
        handler.setFormatter(OneLine())
        LOG.addHandler(handler)
    try:
        yield
    except BaseException:  # the file alone: Python or the command line shows it on the terminal
        fields = (LOG.name, logging.ERROR, __file__, 0, "the run ended by an exception", (), sys.exc_info())
        file.handle(LOG.makeRecord(*fields))
        raise
    finally:
        LOG.setLevel(before[0])
        LOG.propagate = before[1]
        for handler in (file, terminal):
            LOG.removeHandler(handler)
        file.close()
