"""What ends a training before its last update: Ctrl-C, and the rules of `train.stop`."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from jaxrl.training.config import MEAN, StopRules
from jaxrl.training.record import Clock
from jaxrl.training.strength.milestones import EvaluationRecord


def over(rules: StopRules, clock: Clock, evaluated: EvaluationRecord) -> str:
    """Returns why `train.stop` ends a training that has come so far; empty: it goes on."""
    if 0 < rules.plateau <= evaluated.since_best:
        return f"no evaluation of {evaluated.since_best} was better than that after update {evaluated.best_update}"
    clocks = (rules.minutes, clock.clock, "it has taken"), (rules.cpu_minutes, clock.cpu_seconds, "the CPU has trained")
    for limit, seconds, so_far in clocks:
        if limit and seconds >= 60 * limit:
            return f"{so_far} {seconds / 60:.3g} minutes"
    rates = rules.by_opponent if rules.win_rate else {}
    if rates and all(evaluated.win_rates.get(name, -1.0) >= rate for name, rate in rates.items()):
        reached = (f"{evaluated.win_rates[name]:.1%}" + (f" against {name}" if name != MEAN else "") for name in rates)
        return f"the win rate has reached {', '.join(reached)}"
    return ""


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
