"""A command in a terminal of its own, whose screen is read as a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte

from tests.support.paths import PYTHONPATH

ROWS = 200  # so that nothing leaves the screen at its top
INTERRUPT = b"\x03"
# A session leader makes the first terminal that it opens its own: only then Ctrl-C is a signal, not a letter. It is one
# that Python ignores if the tests were started in the background.
BEGIN = (
    "import os, signal; os.open(os.ttyname(0), os.O_RDWR); signal.signal(signal.SIGINT, signal.default_int_handler);"
)


class Terminal:
    """A terminal with a Python program in it; a context manager, which ends the program.

    Attributes:
      process: the program.
      moments: every screen so far, after each part of the output: the texts of its lines.
    """

    def __init__(
        self, code: str, words: Sequence[str] = (), *, columns: int = 80, cwd: Path | None = None, **more: str
    ):
        """Starts `python -c code words`.

        Args:
          code: Python.
          words: its `sys.argv`.
          columns: width of the terminal.
          cwd: working directory.
          **more: environment variables.
        """
        self._screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.moments: list[list[str]] = []
        self._file, inner = pty.openpty()
        self.resize(columns)
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
        given = {name: value for name, value in os.environ.items() if name not in unset}
        given |= {"PYTHONPATH": PYTHONPATH, "TERM": "xterm-256color"} | more
        command = [sys.executable, "-c", BEGIN + code, *words]
        places: dict[str, Any] = {"stdin": inner, "stdout": inner, "stderr": inner}
        self.process = subprocess.Popen(command, cwd=cwd, env=given, start_new_session=True, **places)
        os.close(inner)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._file)

    @property
    def lines(self) -> list[str]:
        """The lines with something on them, without blanks at their ends."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    @property
    def text(self) -> str:
        """All lines joined, as a line that was folded reads."""
        return "".join(line.ljust(self._screen.columns) for line in self.lines)

    def resize(self, columns: int) -> None:
        """Changes the width, which the program hears of as SIGWINCH; what it has written before is shown before."""
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        while self._read(0.0):
            pass
        self._screen.resize(ROWS, columns)

    def press(self, keys: bytes) -> None:
        """Types keys."""
        os.write(self._file, keys)

    def until(self, condition: Callable[[], bool], seconds: float = 120.0) -> bool:
        """Reads until a condition holds or the program ends; returns whether it holds."""
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            if self._read(0.05) is None:
                break
        return condition()

    def _read(self, seconds: float) -> bool | None:
        """Shows a part of the output that comes within some seconds; returns whether one came, None at its end."""
        if not select.select([self._file], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._file, 1 << 16)
        except OSError:  # the program has ended
            return None
        self._stream.feed(data)
        self.moments.append(self.lines)
        return True

    def end(self, seconds: float = 120.0) -> int:
        """Reads until the program ends; returns its exit code."""
        self.until(lambda: False, seconds)
        return self.process.wait(10)
