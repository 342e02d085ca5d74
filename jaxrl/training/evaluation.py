"""Evaluations during a training: quick, on deals of their own, for the logs, the best checkpoint and the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from envs.core import Env
from jaxrl.config import EVALUATION_SEED, Config
from jaxrl.matches.evaluate import Evaluator
from jaxrl.matches.match import TRAINING_DEALS, Act, Player
from jaxrl.matches.tables import Row, overall, scalars
from jaxrl.runs import metrics


class Verdict(NamedTuple):
    """What one evaluation found."""

    row: dict[str, float]  # for the logs
    score: float  # of `evaluate.best_by`, mean over seeds; higher is better
    text: str  # for the terminal
    scores: dict[str, np.ndarray]  # win rates by opponent, draws counting half, f64[S]; empty in a one-seat game


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
            seed=EVALUATION_SEED,
            stream=TRAINING_DEALS,
        )

    def __call__(self, players: Sequence[Player]) -> Verdict:
        """Plays all tables; `players` are the seeds of the run."""
        tables = [self._evaluator(player.params) for player in players]
        rates = _rates(tables)
        return Verdict(
            row=metrics.flatten_each([scalars(rows) for rows in tables]),
            score=float(np.mean([score(rows, self._best_by) for rows in tables])),
            text=_text(tables, rates),
            scores={name: wins + draws / 2 for name, (wins, draws) in rates.items()},
        )


def score(rows: Sequence[Row], best_by: str) -> float:
    """What `evaluate.best_by` makes of one candidate's tables; higher is better."""
    total = overall(rows)
    if best_by == "return" or total is None:
        return float(np.mean([row.samples.candidate["return"].mean() for row in rows]))
    return total.win.mean if best_by == "mean_win_rate" else total.minimum_win


def _rates(tables: Sequence[Sequence[Row]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Shares of wins and draws by opponent, f64[S] each; empty in a one-seat game."""
    found: dict[str, list[tuple[float, float]]] = {}
    for rows in tables:
        for row in rows:
            if row.samples.outcomes is not None:
                found.setdefault(row.opponent, []).append(row.samples.outcomes.tally().rates()[:2])
    return {name: (np.array([w for w, _ in each]), np.array([d for _, d in each])) for name, each in found.items()}


def _text(tables: Sequence[Sequence[Row]], rates: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """The evaluation in one line, means over seeds."""
    returned = np.mean([score(rows, "return") for rows in tables])
    text = f"mean return against the bots {returned:.3f}"
    if not rates:
        return text
    wins = {name: float(won.mean()) for name, (won, _) in rates.items()}
    worst = min(wins, key=wins.__getitem__)
    return f"{text}, win rate {np.mean(list(wins.values())):.1%}, lowest {wins[worst]:.1%} ({worst})"
