"""Progress lines and messages on standard error.

A progress line is redrawn on a terminal, and written now and then elsewhere; messages stand above it.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from jaxrl.runs import distributed
from jaxrl_envs.shared.errors import printable

REDRAWN = 0.1  # seconds at least between two drawings on a terminal
MOMENTS = (60.0, 120.0, 300.0, 600.0, 1800.0)  # seconds after which a line is written, without a terminal
EVERY = 1800.0  # seconds between lines from then on


class _Screen(Console):
    """A console that falls silent when its pipe is closed (`jaxrl train … 2>&1 | tee log` and Ctrl-C)."""

    def on_broken_pipe(self) -> None:
        self.quiet = True

    def print(self, *objects: Any, **style: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **style)


@functools.cache
def console() -> Console:
    """Standard error, where what is printed stands above progress lines; silent in all processes but the first."""
    quiet = not distributed.is_rank0()
    return _Screen(stderr=True, quiet=quiet, soft_wrap=True, markup=False, highlight=False, emoji=False)


@contextlib.contextmanager
def waiting(text: str, *, again: bool = False) -> Iterator[None]:
    """Shows what the block is doing: beside a spinner on a terminal; elsewhere as a line, unless `again`."""
    if console().is_interactive:
        with console().status(printable(text)):
            yield
        return
    if not again:
        console().print(text)
    yield


class ProgressLine:
    """A progress line. Lines may be nested: a terminal shows all of them, the newest last."""

    def __init__(
        self,
        *,
        quiet: float = 0.0,
        kept: bool = False,
        screen: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Shows nothing yet.

        Args:
          quiet: seconds before anything is shown, so that short work shows nothing.
          kept: leave the line on the terminal at the end.
          screen: where it goes; `console()` if None.
          clock: seconds, for tests.
        """
        self._screen = screen or console()
        self._live = Live(console=self._screen, auto_refresh=False, transient=not kept, redirect_stdout=False)
        self._clock, self._next = clock, quiet
        self.begin()

    def begin(self) -> None:
        """Starts the clock again."""
        self._start = self._clock()

    def show(self, text: Callable[[float], str], *, last: bool = False) -> None:
        """Shows `text(seconds since the beginning)`, if it is time to or this is the last one."""
        seconds = self._clock() - self._start
        if seconds < self._next and not last:
            return
        if self._screen.is_interactive:
            self._next = seconds + REDRAWN
            self._live.start()
            self._live.update(Text(printable(text(seconds)), overflow="fold", no_wrap=False), refresh=True)
        else:
            self._next = next((moment for moment in MOMENTS if moment > seconds), (seconds // EVERY + 1) * EVERY)
            self._screen.print(text(seconds))

    def close(self) -> None:
        """Ends the drawing."""
        self._live.stop()
