"""Evaluations during a training: quick, on deals of their own, for the logs, the best checkpoint and the pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.core import Env
from jaxrl import metrics
from jaxrl.config import Config
from jaxrl.evaluate import Evaluator, Row, scalars
from jaxrl.match import TRAINING_DEALS, Act, Player


class Verdict(NamedTuple):
    """What one evaluation found."""

    row: dict[str, float]  # for the logs
    score: float  # of `evaluate.best_by`, mean over seeds; higher is better
    text: str  # for the terminal
    win_rates: dict[str, np.ndarray]  # by opponent, f64[S]; empty in a one-seat game
    games: int  # behind each of them


class TrainingEvaluation:
    """The current policy against every configured opponent; one program, compiled at the first call."""

    def __init__(self, config: Config, env: Env, act: Act, opponents: Sequence[Player]):
        """Compiles nothing yet.

        Args:
          config: its section `evaluate` says what is played and what counts.
          env: the game as it is evaluated.
          act: the candidate's.
          opponents: bots.
        """
        self._best_by = config.evaluate.best_by
        self._evaluator = Evaluator(
            env,
            act,
            opponents,
            deals=config.evaluate.training_deals,
            seed=config.evaluate.seed,
            stream=TRAINING_DEALS,
        )

    def __call__(self, players: Sequence[Player]) -> Verdict:
        """Plays all tables; `players` are the seeds of the run."""
        tables = [self._evaluator(player.params) for player in players]
        each = [scalars(rows) for rows in tables]
        values: dict[str, Any] = {tag: np.array([v[tag] for v in each]) for tag in each[0]}
        row = metrics.flatten_seeds(values if len(each) > 1 else {tag: v[0] for tag, v in values.items()})
        rates = {first.opponent: np.array([_win_rate(rows[i]) for rows in tables]) for i, first in enumerate(tables[0])}
        known = all(np.isfinite(rate).all() for rate in rates.values())
        return Verdict(
            row=row,
            score=float(np.mean([score(rows, self._best_by) for rows in tables])),
            text=_text(tables),
            win_rates=rates if known else {},
            games=tables[0][0].samples.games,
        )


def score(rows: Sequence[Row], best_by: str) -> float:
    """What `evaluate.best_by` makes of one candidate's tables; higher is better."""
    if best_by == "return":
        return float(np.mean([row.samples.candidate["return"].mean() for row in rows]))
    rates = [_win_rate(row) for row in rows]
    return float(np.mean(rates) if best_by == "win_rate" else np.min(rates))


def _win_rate(row: Row) -> float:
    outcomes = row.samples.outcomes
    return math.nan if outcomes is None else outcomes.tally().rates()[0]


def _text(tables: Sequence[Sequence[Row]]) -> str:
    """The evaluation in one line, means over seeds."""
    returned = float(np.mean([score(rows, "return") for rows in tables]))
    text = f"mean return against the bots {returned:.3f}"
    rates = np.array([[_win_rate(row) for row in rows] for rows in tables]).mean(axis=0)  # by opponent
    if not np.isfinite(rates).all():
        return text
    lowest = int(rates.argmin())
    return f"{text}, win rate {rates.mean():.1%}, lowest {rates[lowest]:.1%} ({tables[0][lowest].opponent})"
