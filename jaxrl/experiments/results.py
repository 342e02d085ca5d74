"""Figures of trainings, from the files of their runs: how strength grew, and the final evaluation.

Trainings side by side share the time of their program equally: a CPU second of a training is one of the CPU, divided by
their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.runs.directory import RunDirectory, read_json_list, seed_names
from jaxrl.runs.metric_log import read_rows
from jaxrl.text_tables import mark
from jaxrl.training.config import MEAN, RETURN
from jaxrl.training.strength.milestones import by_opponent


class Trained(NamedTuple):
    """One training: a run, or one of several side by side in it."""

    run: RunDirectory
    number: int = 0
    of: int = 1

    @property
    def name(self) -> str:
        """Name of its policy in tables."""
        return seed_names(self.run.name, self.of)[self.number]


class LearningCurve(NamedTuple):
    """A figure of the evaluations during a training, f64[N] each."""

    steps: np.ndarray  # environment steps
    seconds: np.ndarray  # of training on the clock
    cpu: np.ndarray  # seconds of the CPU
    value: np.ndarray

    def gained(self, per: str) -> float:
        """Returns the gain per unit of an axis from the first to the last evaluation; NaN if there is one at most."""
        axis = getattr(self, per)
        return float((self.value[-1] - self.value[0]) / (axis[-1] - axis[0])) if len(axis) > 1 else math.nan

    def reached(self, level: float, on: str) -> float:
        """Returns the place on an axis of the first evaluation with at least this value; NaN without one."""
        found = getattr(self, on)[self.value >= level]
        return float(found[0]) if len(found) else math.nan


def curves_of(trained: Trained, rows: Sequence[dict[str, Any]] | None = None) -> dict[str, LearningCurve]:
    """Returns the curves of a training by the names of `train.milestones`: `RETURN`, and in games with winners the win
    rate, a share, against each opponent and in the mean over them (`MEAN`).

    Args:
      trained: the training.
      rows: rows of its log, if they are read already.
    """
    rows = read_rows(trained.run.metrics_file) if rows is None else rows
    prefix = f"seed_{trained.number}/" if trained.of > 1 else ""
    clock = {row["update"]: row for row in rows if "time/cpu_seconds" in row}
    found: dict[str, list[tuple[float, ...]]] = {}
    for row in rows:
        at = clock.get(row["update"])
        own = {tag.removeprefix(prefix): x for tag, x in row.items() if tag.startswith(f"{prefix}eval/")}
        if at is None or not (returned := by_opponent(own, "return")):
            continue
        values = by_opponent(own, "win_rate") | {RETURN: float(np.mean([*returned.values()]))}
        values |= {MEAN: own["eval/mean_win_rate"]} if "eval/mean_win_rate" in own else {}
        for name, value in values.items():
            point = row["steps"], at["time/time_elapsed"], at["time/cpu_seconds"] / trained.of, value
            found.setdefault(name, []).append(point)
    return {name: LearningCurve(*np.array(points, np.float64).T) for name, points in found.items()}


def level(name: str, value: float) -> str:
    """Returns what a milestone asks for, in words."""
    return mark({RETURN: value} if name == RETURN else {"win_rate": value, "opponent": name or "all"})


def final(trained: Trained, by: str) -> float:
    """Returns mean_win_rate, min_win_rate or return of the training's own final evaluation, the first one of its newest
    checkpoint; NaN where the game does not have it."""
    newest = max(trained.run.checkpoints().steps())
    record = next(each for each in read_json_list(trained.run.evaluation_file) if each.get("update") == newest)
    if by != "return":
        return float(record["overall"].get(trained.name, {}).get(by, math.nan))
    own = [row["figures"]["return"]["mean"] for row in record["rows"] if row["candidate"] == trained.name]
    return float(np.mean(own))
