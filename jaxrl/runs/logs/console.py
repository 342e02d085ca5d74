"""Progress lines and messages on standard error.

A progress line is redrawn on a terminal, and written now and then elsewhere; messages stand above it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from jaxrl_envs.shared.errors import printable

REDRAWN = 0.1  # seconds at least between two drawings on a terminal
MOMENTS = (60.0, 120.0, 300.0, 600.0, 1800.0)  # seconds after which a line is written, without a terminal
EVERY = 1800.0  # seconds between lines from then on


class Screen(Console):
    """A console on which names from files have no say: only what `rich` itself draws with reaches a terminal unescaped.

    It falls silent when its pipe is closed (`jaxrl train … 2>&1 | tee log` and Ctrl-C).
    """

    @property  # type: ignore[misc]  # nothing sets it
    def file(self) -> IO[str]:
        """The stream below all proxies: that of `rich`, which prints above what it draws, and that of `jaxrl.cli`."""
        stream = super().file
        return getattr(stream, "rich_proxied_file", stream)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders, with control characters escaped in texts."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=printable(each.text))

    def on_broken_pipe(self) -> None:
        self.quiet = True


@functools.cache
def console() -> Console:
    """Returns standard error, which prints above progress lines; other processes than the first silence it."""
    return Screen(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)


def _live(screen: Console, **options: Any) -> Live:
    """Makes a drawing at the end of a terminal: what is printed on the same terminal meanwhile stands above it."""
    out, err = (stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
    return Live(console=screen, redirect_stdout=out, redirect_stderr=err, **options)


@contextlib.contextmanager
def waiting(text: str, *, again: bool = False, screen: Console | None = None) -> Iterator[None]:
    """Shows what the block is doing: beside a spinner on a terminal; elsewhere as a line, unless `again`.

    Args:
      text: shown.
      again: whether a line elsewhere says so too, or nothing has to.
      screen: output stream; `console()` if None.
    """
    screen = screen or console()
    if not screen.is_interactive:
        if not again:
            screen.print(text)
        yield
        return
    spinner = Spinner("dots", style="status.spinner")

    def drawn() -> RenderableType:
        return _folded(screen, spinner.render(screen.get_time()), f" {text}")

    with _live(screen, get_renderable=drawn, transient=True, refresh_per_second=12.5):
        yield


def _folded(screen: Console, *parts: Any) -> Constrain:
    """Folds a text into the lines of a narrow terminal, and leaves room for the "^C" of Ctrl-C: beyond the
    last column it would begin a line of its own."""
    return Constrain(Text.assemble(*parts, overflow="fold", no_wrap=False), screen.width - len("^C"))


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
          screen: output stream; `console()` if None.
          clock: seconds, for tests.
        """
        self._screen = screen or console()
        self._live = _live(self._screen, auto_refresh=False, transient=not kept)
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
            self._live.update(_folded(self._screen, text(seconds)), refresh=True)
        else:
            self._next = next((moment for moment in MOMENTS if moment > seconds), (seconds // EVERY + 1) * EVERY)
            self._screen.print(text(seconds))

    def close(self) -> None:
        """Ends the drawing."""
        self._live.stop()
