"""Estimates with 95 % intervals, and their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

Z95 = 1.959964  # the 97.5 % quantile of the normal distribution
RESAMPLES = 2000
PRIOR_DEALS = 2  # of independent games, added where a design effect is estimated: few deals may agree by chance


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over deals with the half width of its 95 % interval (normal approximation)."""

    mean: float
    half: float

    @classmethod
    def of(cls, samples: np.ndarray) -> Estimate:
        """From f64[D] independent samples; the half width is 0 for fewer than two."""
        samples = np.asarray(samples, np.float64)
        if samples.size == 0:
            return cls(math.nan, math.nan)
        spread = samples.std(ddof=1) / math.sqrt(samples.size) if samples.size > 1 else 0.0
        return cls(float(samples.mean()), float(1.96 * spread))


def wilson(wins: int, games: int, effect: float = 1.0) -> tuple[float, float]:
    """The Wilson 95 % interval of a rate of `wins` in `games` games; (0, 1) without games.

    E. B. Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953

    Args:
      wins, games: counted.
      effect: the `design_effect` of games that depend on each other.
    """
    if not games:
        return 0.0, 1.0
    p, z2, worth = wins / games, Z95**2, games / effect
    centre = (p + z2 / (2 * worth)) / (1 + z2 / worth)
    half = Z95 * math.sqrt(p * (1 - p) / worth + z2 / (4 * worth**2)) / (1 + z2 / worth)
    return max(0.0, centre - half), min(1.0, centre + half)


def design_effect(hits: np.ndarray, counted: np.ndarray) -> float:
    """The variance of a rate of hits over that of as many independent games: those of a deal depend on each other.

    Below 1 if they compensate, as where the better cards win from either side; above 1 if they repeat each other. The
    rate is the ratio of two means over deals; `PRIOR_DEALS` of independent games are added to the squares.

    L. Kish 1965, Survey Sampling, chapter 5.

    Args:
      hits: bool[D, n], the n games of each of D independent deals.
      counted: bool[D, n], the games that the rate is of.
    """
    deals, games = int(counted.any(axis=1).sum()), int(counted.sum())
    rate = float(hits[counted].mean()) if games else 0.0
    if rate in (0.0, 1.0) or deals < 2:
        return 1.0
    independent = rate * (1.0 - rate)
    squares = float((np.where(counted, hits - rate, 0.0).sum(axis=1) ** 2).sum())
    prior = PRIOR_DEALS * games / deals * independent
    return (squares * deals / (deals - 1) + prior) / (games * independent + prior)


def median_interval(values: Sequence[float]) -> Interval:
    """The median with the 95 % interval of its order statistics; fewer than 6 values give their range."""
    ordered, n = sorted(values), len(values)
    rank, tail = 0, 0.5**n  # tail = P(fewer than rank + 1 of n values are below the median)
    while tail <= 0.025 and rank + 1 <= n // 2:
        rank += 1
        tail += math.comb(n, rank) * 0.5**n
    low = max(0, rank - 1)
    return Interval(float(np.median(ordered)), ordered[low], ordered[n - 1 - low])


def gain_interval(before: Sequence[float], after: Sequence[float]) -> Interval:
    """The relative gain of the median, with a bootstrap interval (always the same resamples)."""
    generator = np.random.default_rng(0)

    def medians(values: Sequence[float]) -> np.ndarray:
        sample = generator.choice(np.asarray(values, np.float64), (RESAMPLES, len(values)))
        return np.median(sample, axis=1)

    gains = medians(after) / medians(before) - 1.0
    low, high = np.percentile(gains, [2.5, 97.5])
    return Interval(float(np.median(after) / np.median(before)) - 1.0, float(low), float(high))


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean with its normal-approximation interval; None for an empty sequence."""
    if not values:
        return None
    mean = float(np.mean(values))
    half = Z95 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Interval(mean, mean - half, mean + half)


def student_interval(values: np.ndarray) -> Interval:
    """The mean of values or paired differences f64[N >= 2] with Student's t interval, for small samples."""
    count = len(values)
    half = float(special.stdtrit(count - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(count))
    mean = float(np.mean(values))
    return Interval(mean, mean - half, mean + half)


def welch_interval(left: np.ndarray, right: np.ndarray) -> Interval:
    """The difference of means, `right` - `left`, of independent samples f64[N >= 2] with unequal variances (Welch).

    B. L. Welch 1947, https://doi.org/10.1093/biomet/34.1-2.28
    """
    change = float(np.mean(right) - np.mean(left))
    parts = np.array([np.var(side, ddof=1) / len(side) for side in (left, right)])
    total = float(parts.sum())
    if total == 0.0:
        return Interval(change, change, change)
    degrees = total**2 / float((parts**2 / [len(left) - 1, len(right) - 1]).sum())
    half = float(special.stdtrit(degrees, 0.975)) * math.sqrt(total)
    return Interval(change, change - half, change + half)


def difference(left: Interval | None, right: Interval | None, newcombe: bool = False) -> Interval | None:
    """`right` - `left` of independent estimates; `newcombe` for intervals that are not symmetric."""
    if left is None or right is None:
        return None
    change = right.value - left.value
    down, up = right.value - right.low, right.high - right.value
    their_down, their_up = left.value - left.low, left.high - left.value
    if not newcombe:
        half = math.hypot((down + up) / 2, (their_down + their_up) / 2)
        return Interval(change, change - half, change + half)
    return Interval(change, change - math.hypot(down, their_up), change + math.hypot(up, their_down))
