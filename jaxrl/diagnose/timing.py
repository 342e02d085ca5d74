"""Timing for shared machines: contestants take turns, so that figures that are compared ran under the same load.

A figure of one contestant alone says as much about the machine's other users as about the contestant. `race` therefore
runs all of them in turn, A B C A B C ..., after one untimed run each (compilation, caches), and compares medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Contestant(NamedTuple):
    """Something whose speed is measured."""

    name: str
    units: float  # amount of work in one call of `block`, e.g. decisions
    block: Callable[[], Any]  # does the work and returns only when it is done
    info: dict[str, Any] = {}


class Speed(NamedTuple):
    """Speed of a contestant."""

    name: str
    rate: float  # units per second, the median over the rounds
    low: float  # the slowest round
    high: float  # the fastest round
    cpu_rate: float  # units per second of processor time (of all threads), the median: other processes do not affect it
    seconds: float  # the median time of one block
    first_seconds: float  # the untimed first run, compilation included
    info: dict[str, Any]
    best_cpu_rate: float = 0.0  # of the round that took the least processor time for its work


def safe_ratio(numerator: float, denominator: float) -> float:
    """Returns the quotient, or 0 if the denominator is 0: a speed meter must not crash what it measures."""
    return numerator / denominator if denominator else 0.0


def race(contestants: Sequence[Contestant], *, rounds: int = 5, seconds: float = 0.5) -> list[Speed]:
    """Times all contestants in turn.

    Args:
      contestants: blocks that do not disturb each other's state.
      rounds: timed rounds; every contestant runs once in each.
      seconds: least duration of one contestant's turn, reached by repeating its block.

    Returns:
      One speed per contestant, in the order given.
    """
    first = [timed(each.block)[0] for each in contestants]
    repeats = [max(1, round(seconds / timed(each.block)[0])) for each in contestants]
    times: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for _ in range(rounds):
        for each, count, record in zip(contestants, repeats, times, strict=True):
            clock, cpu = timed(each.block, count)
            record.append((clock / count, cpu / count))
    return [_speed(*of_one) for of_one in zip(contestants, times, first, strict=True)]


def timed(block: Callable[[], Any], repeats: int = 1) -> tuple[float, float]:
    """Repeats a block; returns the seconds of the clock and of the processor, both above 0."""
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(repeats):
        block()
    return max(time.perf_counter() - start, 1e-9), max(time.process_time() - cpu, 1e-9)


def _speed(contestant: Contestant, times: list[tuple[float, float]], first: float) -> Speed:
    clock = [pair[0] for pair in times]
    median = statistics.median(clock)
    return Speed(
        name=contestant.name,
        rate=contestant.units / median,
        low=contestant.units / max(clock),
        high=contestant.units / min(clock),
        cpu_rate=contestant.units / statistics.median(pair[1] for pair in times),
        seconds=median,
        first_seconds=first,
        info=dict(contestant.info),
        best_cpu_rate=contestant.units / min(pair[1] for pair in times),
    )
