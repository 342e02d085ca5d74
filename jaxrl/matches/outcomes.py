"""Wins, draws and losses of a candidate, game by game; `Env.outcome` says what a win is.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import chex
import numpy as np

from jaxrl.statistics import Design, design_of, wilson
from jaxrl_envs.contract.env import Env


class GameTally(NamedTuple):
    """Counted games."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """The number of games."""
        return self.wins + self.draws + self.losses

    def rates(self) -> tuple[float, float, float]:
        """Returns shares of wins, draws and losses; not a number without games."""
        games = self.games or math.nan
        return self.wins / games, self.draws / games, self.losses / games

    def interval(self, design: Design | None = None) -> tuple[float, float]:
        """Returns the Wilson 95 % interval of the win rate; by default of games of which each is a deal of its own."""
        return wilson(self.wins, self.games, design or Design(degrees=self.games - 1))

    def record(self, design: Design | None = None) -> dict[str, Any]:
        """Returns the record for JSON."""
        win, draw, loss = self.rates()
        return {
            "games": self.games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "win_rate": win,
            "win_rate_95": list(self.interval(design)),
            "design_effect": design.effect if design else 1.0,
            "draw_rate": draw,
            "loss_rate": loss,
        }


class Outcomes(NamedTuple):
    """The games of a candidate that held each of n >= 2 sides of every deal; column r is the game as side r."""

    result: np.ndarray  # i8[D, n], 1 won, 0 drawn, -1 lost
    length: np.ndarray  # i32[D, n], steps
    margin: np.ndarray | None  # f64[D, n], own points minus the mean of the others'; None if the game has no points
    started: np.ndarray | None  # bool[D, n], whether the candidate started; None if the game does not say
    place: str = "seat"  # what a column is called: "side" where sides have several seats

    def tally(self, where: np.ndarray | slice = slice(None)) -> GameTally:
        """Counts the games, or those of some deals (a slice), or where a bool[D, n] is True."""
        result = self.result[where]
        return GameTally(int((result > 0).sum()), int((result == 0).sum()), int((result < 0).sum()))

    def design(self, where: np.ndarray | slice = slice(None)) -> Design:
        """Returns how the wins of a deal's games depend on each other, in the games that `tally` counts."""
        counted = np.zeros(self.result.shape, bool)
        counted[where] = True
        return design_of(self.result > 0, counted)

    def interval(self, where: np.ndarray | slice = slice(None)) -> tuple[float, float]:
        """Returns the 95 % interval over deals of the win rate in those games: Wilson's, with their design."""
        return self.tally(where).interval(self.design(where))

    def by_place(self) -> list[GameTally]:
        """Returns one tally for each side of the candidate."""
        sides = np.arange(self.result.shape[1])
        return [self.tally(np.broadcast_to(sides == side, self.result.shape)) for side in sides]

    def by_start(self) -> tuple[GameTally, GameTally] | None:
        """Returns the games in which the candidate started, and the others; None if the game does not say."""
        return None if self.started is None else (self.tally(self.started), self.tally(~self.started))

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        record = self.tally().record(self.design()) | {
            f"by_{self.place}": [tally.record() for tally in self.by_place()],
            "mean_length": float(self.length.mean()),
        }
        start = self.by_start()
        if start is not None:
            record |= {"starter": start[0].record(), "second": start[1].record()}
        if self.margin is not None:
            record |= {"mean_margin": float(self.margin.mean())}
        return record


def outcomes_of(figures: dict[str, np.ndarray], length: np.ndarray, env: Env) -> Outcomes | None:
    """Returns the outcomes of the candidate's games.

    Args:
      figures: f32[D, rotation, side] by name: "return", and "points" and "starter" (above 0 for the side that started)
        if the game has them.
      length: i32[D, rotation].
      env: the game, which says who has won.

    Returns:
      None in a game of one side, which has no opponents.
    """
    chex.assert_rank(length, 2)
    chex.assert_shape(list(figures.values()), (*length.shape, length.shape[1]))
    sides = length.shape[1]
    if sides < 2:
        return None
    own = np.eye(sides, dtype=bool)  # the candidate is side r in rotation r

    def split(name: str) -> tuple[np.ndarray, np.ndarray]:
        values = figures[name].astype(np.float64)
        return values[:, own], values[:, ~own].reshape(*length.shape, sides - 1)

    margin = started = None
    if "points" in figures:
        points, theirs = split("points")
        margin = points - theirs.mean(axis=-1)
    if "starter" in figures:
        started = split("starter")[0] > 0.0
    result = np.asarray(env.outcome(figures["return"].astype(np.float64)))[:, own]
    return Outcomes(result, length, margin, started, env.side_name)
