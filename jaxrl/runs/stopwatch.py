"""Clocks that leave out compilation, for rates and remaining times."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

import jax

_PREFIX = "/jax/core/compile/"  # of jax's events: tracing, lowering, compiling or loading from the cache


class CompileClock:
    """Adds up the time spent compiling; spans overlap because of threads and of programs within programs."""

    def __init__(self) -> None:
        """Starts with no spans."""
        self._spans: list[tuple[float, float]] = []  # disjoint, in order
        self._lock = threading.Lock()

    def heard(self, end: float, seconds: float) -> None:
        """Adds a compilation that took `seconds` and ended at `end`."""
        begin = end - seconds
        with self._lock:
            while self._spans and self._spans[-1][0] >= begin:
                self._spans.pop()
            if self._spans:
                begin = max(begin, self._spans[-1][1])
            if begin < end:
                self._spans.append((begin, end))

    def seconds(self) -> float:
        """Returns the seconds so far in which something was compiled."""
        with self._lock:
            return sum(end - begin for begin, end in self._spans)


@functools.cache
def _clock() -> CompileClock:
    clock = CompileClock()

    def hear(event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith(_PREFIX):
            clock.heard(time.monotonic(), duration_secs)

    jax.monitoring.register_event_duration_secs_listener(hear)
    return clock


def compile_seconds() -> float:
    """Returns the seconds in which this process has compiled since this function was first called."""
    return _clock().seconds()


class Stopwatch:
    """Measures time from its construction on."""

    def __init__(self) -> None:
        """Starts now."""
        self._start, self._compiled = time.monotonic(), compile_seconds()

    def elapsed(self) -> float:
        """Returns the seconds so far."""
        return time.monotonic() - self._start

    def seconds(self) -> float:
        """Returns the seconds so far in which nothing was compiled."""
        return self.elapsed() - (compile_seconds() - self._compiled)
