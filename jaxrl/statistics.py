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
REPEATED_DEALS = 8  # of games that repeat each other, beside the others where a rate of 0 or 1 says nothing about it
FEW = 6  # fewer samples that are all equal say too little: a fair coin shows one side more often than 1 time in 20


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over deals with the half width of its 95 % interval (Student's t; NaN: too few samples to say)."""

    mean: float
    half: float

    @classmethod
    def of(cls, samples: np.ndarray) -> Estimate:
        """Estimates from f64[D] independent samples, not far from normal: intervals of few skewed ones cover less."""
        samples = np.asarray(samples, np.float64)
        if samples.size == 0:
            return cls(math.nan, math.nan)
        if samples.size < 2 or (samples.size < FEW and np.ptp(samples) == 0.0):
            return cls(float(samples.mean()), math.nan)
        mean, _, high = student_interval(samples)
        return cls(mean, high - mean)

    def record(self) -> dict[str, float | None]:
        """Returns a record for JSON, which has no NaN."""
        named = {"mean": self.mean, "half_width_95": self.half}
        return {name: value if math.isfinite(value) else None for name, value in named.items()}


class Design(NamedTuple):
    """Dependence between the games of a rate, see `design_of`."""

    effect: float = 1.0  # Kish's design effect: the variance of the rate over that of as many independent games
    degrees: float = math.inf  # degrees of freedom of that variance


INDEPENDENT = Design()


def wilson(wins: int, games: int, design: Design = INDEPENDENT) -> tuple[float, float]:
    """Returns the Wilson 95 % interval of a rate of `wins` in `games` games; (0, 1) where they are too few to say.

    E. B. Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953, with Student's t for the degrees of freedom, as
    E. L. Korn and B. I. Graubard 1998, Survey Methodology 24(2), do with another interval.

    Args:
      wins, games: counted.
      design: dependence between the games.
    """
    if not games or design.degrees < 1:
        return 0.0, 1.0
    t = Z95 if math.isinf(design.degrees) else float(special.stdtrit(design.degrees, 0.975))
    p, t2, worth = wins / games, t**2, games / design.effect
    centre = (p + t2 / (2 * worth)) / (1 + t2 / worth)
    half = t * math.sqrt(p * (1 - p) / worth + t2 / (4 * worth**2)) / (1 + t2 / worth)
    return max(0.0, centre - half), min(1.0, centre + half)


def design_of(hits: np.ndarray, counted: np.ndarray) -> Design:
    """Estimates the design of a rate of hits: the games of a deal depend on each other.

    The effect is below 1 if they compensate, as where the better cards win from either side, and above 1 if they repeat
    each other. The rate is the ratio of two means over deals; `PRIOR_DEALS` of independent games are added to the
    squares. A rate of 0 or 1 does not show it: there the effect is that of these deals, taken as independent, and of
    `REPEATED_DEALS` whose games repeat each other.

    L. Kish 1965, Survey Sampling, chapter 5.

    Args:
      hits: bool[D, n], the n games of each of D independent deals.
      counted: bool[D, n], the games that the rate is of.
    """
    deals, games = int(counted.any(axis=1).sum()), int(counted.sum())
    if deals < 2:
        return Design(degrees=0.0)
    rate = float(hits[counted].mean())
    if rate in (0.0, 1.0):
        return Design((REPEATED_DEALS * games / deals + deals) / (REPEATED_DEALS + deals), deals - 1)
    independent = rate * (1.0 - rate)
    squares = float((np.where(counted, hits - rate, 0.0).sum(axis=1) ** 2).sum())
    prior = PRIOR_DEALS * games / deals * independent
    return Design((squares * deals / (deals - 1) + prior) / (games * independent + prior), deals - 1)


def ratio_of_medians(before: Sequence[float], after: Sequence[float]) -> tuple[Interval, Interval, Interval]:
    """Returns both medians and the relative gain, with bootstrap intervals (always the same resamples)."""
    generator = np.random.default_rng(0)

    def medians(values: Sequence[float]) -> np.ndarray:
        sample = generator.choice(np.asarray(values, np.float64), (RESAMPLES, len(values)))
        return np.median(sample, axis=1)

    def interval(value: float, samples: np.ndarray) -> Interval:
        return Interval(value, *np.percentile(samples, [2.5, 97.5]).tolist())

    new, old = medians(after), medians(before)
    first, second = float(np.median(before)), float(np.median(after))
    return interval(first, old), interval(second, new), interval(second / first - 1.0, new / old - 1.0)


def student_interval(values: np.ndarray) -> Interval:
    """Returns the mean of values or paired differences f64[N >= 1] with Student's t interval, NaN if N is 1."""
    count, mean, half = len(values), float(np.mean(values)), math.nan
    if count > 1:
        half = float(special.stdtrit(count - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(count))
    return Interval(mean, mean - half, mean + half)


def welch_interval(left: np.ndarray, right: np.ndarray) -> Interval:
    """Returns the difference of means of independent samples f64[N >= 1] with unequal variances, right - left (Welch).

    B. L. Welch 1947, https://doi.org/10.1093/biomet/34.1-2.28
    """
    change = float(np.mean(right) - np.mean(left))
    if min(len(left), len(right)) < 2:
        return Interval(change, math.nan, math.nan)
    parts = np.array([np.var(side, ddof=1) / len(side) for side in (left, right)])
    total = float(parts.sum())
    if total == 0.0:
        return Interval(change, change, change)
    degrees = total**2 / float((parts**2 / [len(left) - 1, len(right) - 1]).sum())
    half = float(special.stdtrit(degrees, 0.975)) * math.sqrt(total)
    return Interval(change, change - half, change + half)


def difference(left: Interval | None, right: Interval | None, newcombe: bool = False) -> Interval | None:
    """Returns `right` - `left` of independent estimates; `newcombe` for intervals that are not symmetric."""
    if left is None or right is None:
        return None
    change = right.value - left.value
    down, up = right.value - right.low, right.high - right.value
    their_down, their_up = left.value - left.low, left.high - left.value
    if not newcombe:
        half = math.hypot((down + up) / 2, (their_down + their_up) / 2)
        return Interval(change, change - half, change + half)
    return Interval(change, change - math.hypot(down, their_up), change + math.hypot(up, their_down))
