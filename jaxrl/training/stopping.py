"""What Ctrl-C means to a training."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


class StopRequest:
    """Turns the first Ctrl-C (or SIGTERM) into a wish to stop after the current call; the second one aborts."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, notify: Callable[[], None] = lambda: None) -> None:
        """`notify` is called at the first signal, within its handler."""
        self.wanted: int = 0  # the signal
        self._notify = notify
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in self.SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = number
        self._notify()
        with contextlib.suppress(OSError):  # Ctrl-C has ended the reader as well (`2>&1 | tee log`)
            print("\nstopping as soon as the state can be saved; once more to abort without saving", file=sys.stderr)
