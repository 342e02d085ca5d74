"""The results of a round robin: counts, tables and ratings.

Shape letters: M players, D deals.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl.league.elo import Ratings, bradley_terry
from jaxrl.matches.outcomes import Outcomes
from jaxrl.text_tables import align, percent


@dataclasses.dataclass
class RoundRobin:
    """The results of every player against every other. In a game of two sides a pair is played once and counts in both
    cells; with more sides cell (i, j) is player i among copies of player j, and cell (j, i) holds other games."""

    names: tuple[str, ...]
    sides: tuple[int, ...]  # sides of the seats, see `Env.sides`
    counts: np.ndarray  # i64[M, M, 3], games won, drawn and lost by the row player; zero where a pair was not played
    # f64[M, M], sum over games of the share of the other sides that the row player beat, a tie half: wins plus half
    # the draws in a game of two sides
    points: np.ndarray
    # f64[M, M, 2, 2], over deals, of the shares of the deal's games that the row player won and drew
    covariance: np.ndarray
    deals: np.ndarray  # i64[M, M], deals played
    steps: np.ndarray  # i64[M, M], of all games

    @classmethod
    def empty(cls, names: Sequence[str], sides: tuple[int, ...]) -> RoundRobin:
        """Returns results of no games."""
        m = len(names)
        return cls(
            names=tuple(names),
            sides=sides,
            counts=np.zeros((m, m, 3), np.int64),
            points=np.zeros((m, m)),
            covariance=np.zeros((m, m, 2, 2)),
            deals=np.zeros((m, m), np.int64),
            steps=np.zeros((m, m), np.int64),
        )

    def add(self, row: int, column: int, outcomes: Outcomes, points: float) -> None:
        """Enters the games of one pair; `points` as in the attribute, summed over the games."""
        shares = np.stack([(outcomes.result > 0).mean(axis=1), (outcomes.result == 0).mean(axis=1)])  # f64[2, D]
        covariance = np.cov(shares) if shares.shape[1] > 1 else np.zeros((2, 2))
        self._enter(row, column, outcomes, list(outcomes.tally()), points, covariance)
        if self.num_sides == 2 and row != column:
            mirror = np.array([[-1.0, -1.0], [0.0, 1.0]])  # the other's wins are 1 - wins - draws
            turned = mirror @ covariance @ mirror.T
            self._enter(column, row, outcomes, list(outcomes.tally())[::-1], outcomes.result.size - points, turned)

    def _enter(self, row: int, column: int, outcomes: Outcomes, counts: list[int], points: float, covariance) -> None:
        self.counts[row, column] = counts
        self.points[row, column] = points
        self.covariance[row, column] = covariance
        self.deals[row, column] = outcomes.result.shape[0]
        self.steps[row, column] = outcomes.length.sum()

    @property
    def num_sides(self) -> int:
        """The number of sides of a game."""
        return max(self.sides) + 1

    @property
    def games(self) -> np.ndarray:
        """i64[M, M], games played."""
        return self.counts.sum(axis=-1)

    @property
    def played(self) -> list[tuple[int, int]]:
        """The pairs, each once: their cells are independent, because every pair has deals of its own."""
        half = np.triu(self.games) if self.num_sides == 2 else self.games
        return [(int(i), int(j)) for i, j in zip(*np.nonzero(half), strict=True)]

    @property
    def total_games(self) -> int:
        """All games, each counted once."""
        return int(sum(self.games[i, j] for i, j in self.played))

    @property
    def mean_steps(self) -> float:
        """Mean length of a game."""
        return sum(int(self.steps[i, j]) for i, j in self.played) / self.total_games

    def rates(self) -> np.ndarray:
        """Returns f64[M, M, 3], shares of wins, draws and losses; not a number where nothing was played."""
        games = np.where(self.games, self.games, 1)[..., None]
        return np.where(self.games[..., None] > 0, self.counts / games, np.nan)

    def scores(self) -> np.ndarray:
        """Returns f64[M, M], points per game, 0.5 among equals in a game for any number of sides."""
        return np.where(self.games > 0, self.points / np.where(self.games, self.games, 1), np.nan)

    def mean_wins(self) -> np.ndarray:
        """Returns f64[M], the unweighted mean win rate against the others."""
        wins = self.rates()[..., 0].copy()
        np.fill_diagonal(wins, np.nan)
        return np.array([np.mean(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in wins])

    @property
    def totals(self) -> np.ndarray:
        """f64[M, M], points of the row player against the column player, also at a table of the row player."""
        return self.points if self.num_sides == 2 else self.points + (self.games - self.points).T

    def ratings(self, anchor: str | Mapping[str, float] | None = None) -> Ratings:
        """A Bradley-Terry fit, see `bradley_terry`; `anchor`: a player who is rated 0, or known ratings by name."""
        return bradley_terry(self.totals, self.names, {anchor: 0.0} if isinstance(anchor, str) else anchor)

    # ---- for people and programs ----

    def matrix_table(self, order: Sequence[int]) -> str:
        """Returns win / draw / loss in per cent of the row player against the column player, in Markdown."""
        rates, mean = self.rates(), self.mean_wins()

        def cell(i: int, j: int) -> str:
            return "/".join(percent(rate) for rate in rates[i, j]) if self.games[i, j] else "-"

        head = ["row vs column" if self.num_sides == 2 else "row at a table of column"]
        cells = [[*head, *(self.names[j] for j in order), "mean win %"]]
        cells += [[self.names[i], *(cell(i, j) for j in order), percent(mean[i])] for i in order]
        return align(cells)

    def rating_table(self, ratings: Ratings) -> str:
        """Returns ratings with 95 % half widths, strongest first, in Markdown."""
        mean, games = self.mean_wins(), self.games_of_players()
        cells = [["player", "rating", "95 %", "mean win %", "games"]]
        for i in ratings.order():
            half = "anchor" if i in ratings.anchors else f"± {ratings.half[i]:.1f}"
            cells.append([self.names[i], f"{ratings.rating[i]:+.1f}", half, percent(mean[i]), str(games[i])])
        return align(cells)

    def games_of_players(self) -> np.ndarray:
        """Returns i64[M], games of each player against others."""
        others = self.games - np.diag(np.diag(self.games))
        return others.sum(axis=1) + (others.sum(axis=0) if self.num_sides > 2 else 0)

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON; rates in per cent."""
        rates = 100 * self.rates()

        def rows(k: int) -> list[list[float | None]]:
            return [[None if math.isnan(x) else float(x) for x in row] for row in rates[..., k]]

        return {
            "names": list(self.names),
            "seats": len(self.sides),
            "games": self.games.tolist(),
            "deals": self.deals.tolist(),
            "wins": self.counts[..., 0].tolist(),
            "draws": self.counts[..., 1].tolist(),
            "losses": self.counts[..., 2].tolist(),
            "win": rows(0),
            "draw": rows(1),
            "loss": rows(2),
            "mean_steps": self.mean_steps,
        }
