"""Evaluations during a training: quick, on deals of their own, for the logs, the best checkpoint and the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxrl.config import EVALUATION_SEED, Config
from jaxrl.envs.core import Env
from jaxrl.matches.deals import TRAINING_DEALS
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.tables import Row, overall, scalars
from jaxrl.players import Player
from jaxrl.runs import metrics


class Evaluated(NamedTuple):
    """What one evaluation found."""

    row: dict[str, float]  # for the logs
    score: float  # of `evaluate.best_by`, mean over seeds; higher is better
    text: str  # for the terminal
    scores: dict[str, np.ndarray]  # win rates by opponent, draws counting half, f64[S]; empty in a game of one side


class TrainingEvaluation:
    """The current policy against every configured opponent; one program, compiled at the first call."""

    def __init__(self, config: Config, env: Env, player: Player, opponents: Sequence[Player]):
        """Compiles nothing yet.

        Args:
          config: its section `evaluate` says what is played and what counts.
          env: the game as it is evaluated.
          player: the policy; its parameters come with each call.
          opponents: bots.
        """
        self._best_by = config.evaluate.best_by
        self._matchup = Matchup(
            env,
            player,
            opponents,
            deals=config.evaluate.training_deals,
            seed=EVALUATION_SEED,
            stream=TRAINING_DEALS,
        )

    def __call__(self, players: Sequence[Player]) -> Evaluated:
        """Plays all tables; `players` are the seeds of the run."""
        tables = [self._matchup.rows(player.params, player.name) for player in players]
        rates = _rates(tables)
        return Evaluated(
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
    """Shares of wins and draws by opponent, f64[S] each; empty in a game of one side."""
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
