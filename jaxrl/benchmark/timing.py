"""Timing that can be trusted on a shared machine: contestants take turns, and what is compared ran side by side.

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
    units: float  # what one call of `block` gets through, e.g. decisions
    block: Callable[[], Any]  # does the work and returns only when it is done
    info: dict[str, Any] = {}


class Result(NamedTuple):
    """What a contestant achieved."""

    name: str
    rate: float  # units per second, the median over the rounds
    low: float  # the slowest round
    high: float  # the fastest round
    cpu_rate: float  # units per second of processor time (of all threads), the median: deaf to other processes
    seconds: float  # the median time of one block
    first_seconds: float  # the untimed first run, compilation included
    info: dict[str, Any]


def safe_ratio(numerator: float, denominator: float) -> float:
    """The quotient, 0 where the denominator is 0: a speed meter must not bring down what it measures."""
    return numerator / denominator if denominator else 0.0


def stopwatch(block: Callable[[], Any], repeats: int = 1) -> float:
    """Seconds that `repeats` calls of `block` take together; never 0."""
    start = time.perf_counter()
    for _ in range(repeats):
        block()
    return max(time.perf_counter() - start, 1e-9)


def race(contestants: Sequence[Contestant], *, rounds: int = 5, seconds: float = 0.5) -> list[Result]:
    """Times all contestants in turn.

    Args:
      contestants: blocks that do not disturb each other's state.
      rounds: timed rounds; every contestant runs once in each.
      seconds: how long one contestant runs per round at least, by repeating its block.

    Returns:
      One result per contestant, in the order given.
    """
    first = [stopwatch(each.block) for each in contestants]
    single = [stopwatch(each.block) for each in contestants]
    repeats = [max(1, round(seconds / duration)) for duration in single]
    times: list[list[float]] = [[] for _ in contestants]
    processor: list[list[float]] = [[] for _ in contestants]
    for _ in range(rounds):
        for each, count, record, cpu in zip(contestants, repeats, times, processor, strict=True):
            before = time.process_time()
            record.append(stopwatch(each.block, count) / count)
            cpu.append((time.process_time() - before) / count)
    return [_result(*of_one) for of_one in zip(contestants, times, processor, first, strict=True)]


def _result(contestant: Contestant, times: list[float], processor: list[float], first: float) -> Result:
    median = statistics.median(times)
    return Result(
        name=contestant.name,
        rate=contestant.units / median,
        low=contestant.units / max(times),
        high=contestant.units / min(times),
        cpu_rate=safe_ratio(contestant.units, statistics.median(processor)),
        seconds=median,
        first_seconds=first,
        info=dict(contestant.info),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The `percent` percentile by linear interpolation; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100.0
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
