"""How fast a training gets strong: what it gains per hour and per million steps, and when it reaches its milestones.

Hours and seconds are those of training, of the clock and of the CPU: of the calls of the training program, so that
evaluations, checkpoints and compilation do not count.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.training.config import MEAN, RETURN


class EvaluationPoint(NamedTuple):
    """A point of a training at which it is evaluated."""

    update: int
    steps: int  # environment steps of each seed
    seconds: float  # of training so far
    cpu_seconds: float


@dataclasses.dataclass
class EvaluationRecord:
    """Record of a training's evaluations; part of each checkpoint's record."""

    best_score: float | None = None
    best_update: int | None = None
    best_by: str = "return"  # what the score is of
    since_best: int = 0  # evaluations after the best one
    first: dict[str, float] = dataclasses.field(default_factory=dict)  # the first evaluation
    win_rates: dict[str, float] = dataclasses.field(default_factory=dict)  # in the newest evaluation
    milestones: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # that were reached
    pending: list[list[float]] = dataclasses.field(default_factory=list)  # evaluations beside it: `EvaluationPoint`s

    @property
    def updates(self) -> list[int]:
        """Updates whose evaluations are pending."""
        return [int(update) for update, *_ in self.pending]

    def begin(self, best_by: str) -> None:
        """Forgets what cannot be compared with evaluations in other games or against other opponents."""
        self.best_by, self.best_score = best_by, None
        self.since_best, self.first, self.win_rates = 0, {}, {}


def take(
    record: EvaluationRecord, wanted: Mapping[str, Sequence[float]], when: EvaluationPoint, row: Mapping[str, float]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Takes an evaluation into what a training remembers.

    Args:
      record: takes the first and the newest evaluation and the milestones.
      when: the evaluated parameters were learnt.
      row: metrics of the evaluation, means over seeds.

    Returns:
      Further metrics for the logs, and the milestones that this evaluation is the first to reach.
    """
    returned = float(np.mean([*by_opponent(row, "return").values()]))
    now = {"steps": when.steps, "seconds": when.seconds, "return": returned}
    record.win_rates = by_opponent(row, "win_rate")
    if record.win_rates:
        record.win_rates[MEAN] = now["win_rate"] = row["eval/mean_win_rate"]
    record.first = record.first or now
    reached = record.win_rates | {RETURN: returned}
    known = set(map(_name, record.milestones))
    new = [
        {"opponent": name, RETURN if name == RETURN else "win_rate": mark, **when._asdict()}
        for name, marks in wanted.items()
        for mark in sorted(set(marks))
        if f"{name}/{mark:g}" not in known and reached.get(name, -math.inf) >= mark
    ]
    record.milestones = [*record.milestones, *new]
    return _gains(record.first, now) | _metrics(new), new


def by_opponent(row: Mapping[str, float], name: str) -> dict[str, float]:
    """Returns a figure of an evaluation against each opponent, mean over seeds."""
    each = ((tag.removeprefix("eval/"), value) for tag, value in row.items() if tag.startswith("eval/"))
    return {tag.removesuffix(f"/{name}"): value for tag, value in each if tag.endswith(f"/{name}")}


def _gains(first: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Returns the gains since the first evaluation, by time and by steps."""
    steps, seconds = now["steps"] - first["steps"], now["seconds"] - first["seconds"]
    if steps <= 0 or seconds <= 0:
        return {}
    gained = {name: now[name] - first[name] for name in ("win_rate", "return") if name in now and name in first}
    return {
        **{f"eval/{name}_per_million_steps": gain / steps * 1e6 for name, gain in gained.items()},
        **{f"time/{name}_per_hour": gain / seconds * 3600 for name, gain in gained.items()},
    }


def _metrics(new: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in new:
        name = _name(each)
        found |= {
            f"milestone/{name}/steps": each["steps"],
            f"time/to/{name}": each["seconds"],
            f"time/cpu_to/{name}": each["cpu_seconds"],
        }
    return found


def _name(found: Mapping[str, Any]) -> str:
    """Returns the name of a milestone in tags: hard/0.5, return/10."""
    return f"{found['opponent']}/{found.get('win_rate', found.get(RETURN)):g}"
