"""Wins, draws and losses of one side among others, and how sure a rate of them is.

A game is won by a side (by default one seat, see `Env.sides`) whose return is above every other side's by more than
rounding, drawn if it equals the best of the others, and lost otherwise. Draws are not wins. Training, search and
evaluation all decide so.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Z95 = 1.959964  # the 97.5 % quantile of the normal distribution
TIE = 1e-5  # returns are float32 sums of many rewards: nearer than this (absolute and relative), they are equal


class Tally(NamedTuple):
    """Counted games."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """All of them."""
        return self.wins + self.draws + self.losses

    def rates(self) -> tuple[float, float, float]:
        """Shares of wins, draws and losses; not a number without games."""
        games = self.games or math.nan
        return self.wins / games, self.draws / games, self.losses / games

    def interval(self) -> tuple[float, float]:
        """The Wilson 95 % interval of the win rate."""
        return wilson(self.wins, self.games)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        win, draw, loss = self.rates()
        return {
            "games": self.games,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "win_rate": win,
            "win_rate_95": list(self.interval()),
            "draw_rate": draw,
            "loss_rate": loss,
        }


def wilson(wins: int, games: int) -> tuple[float, float]:
    """The Wilson 95 % interval of a rate of `wins` in `games` independent games; (0, 1) without games.

    E. B. Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953
    """
    if not games:
        return 0.0, 1.0
    p, z2 = wins / games, Z95**2
    centre = (p + z2 / (2 * games)) / (1 + z2 / games)
    half = Z95 * math.sqrt(p * (1 - p) / games + z2 / (4 * games**2)) / (1 + z2 / games)
    return max(0.0, centre - half), min(1.0, centre + half)


def compare(own: Any, other: Any) -> Any:
    """Who won: i8, 1 where `own` is above `other`, 0 where they are equal up to rounding, else -1.

    Args:
      own, other: returns, NumPy or JAX arrays (the result is of the same kind); -inf is a seat that is not there.
    """
    xp: Any = jnp if isinstance(own, jax.Array) or isinstance(other, jax.Array) else np
    equal = xp.isclose(own, other, rtol=TIE, atol=TIE)
    return xp.where(equal, 0, xp.sign(own - other)).astype(xp.int8)


def of_sides(values: Any, sides: Sequence[int]) -> Any:
    """What each side has earned: f32[..., P] by seat -> f32[..., n] by side, the mean over a side's seats.

    The mean and not the sum, so that sides of different sizes are measured alike and a side's figures stay on the scale
    of a seat's, which is what is learnt. Where every seat is a side of its own these are the values themselves.

    Args:
      values: a NumPy or JAX array, by seat in the last axis.
      sides: of the P seats, see `Env.sides`.
    """
    if max(sides) + 1 == len(sides):
        return values
    xp: Any = jnp if isinstance(values, jax.Array) else np
    each = [np.flatnonzero(np.asarray(sides) == side) for side in range(max(sides) + 1)]
    return xp.stack([values[..., seats].mean(axis=-1) for seats in each], axis=-1)


class Outcomes(NamedTuple):
    """Every game of a candidate that held each of n >= 2 sides of every deal; column r is the game as side r."""

    result: np.ndarray  # i8[D, n], 1 won, 0 drawn, -1 lost
    length: np.ndarray  # i32[D, n], steps
    margin: np.ndarray | None  # f64[D, n], own points minus the mean of the others'; None if the game has no points
    started: np.ndarray | None  # bool[D, n], whether the candidate started; None if the game does not say
    place: str = "seat"  # what a column is called: "side" where sides have several seats

    def tally(self, where: np.ndarray | slice = slice(None)) -> Tally:
        """Counts the games, or those of some deals (a slice), or where a bool[D, n] is True."""
        result = self.result[where]
        return Tally(int((result > 0).sum()), int((result == 0).sum()), int((result < 0).sum()))

    def by_place(self) -> list[Tally]:
        """One tally for each side of the candidate."""
        sides = np.arange(self.result.shape[1])
        return [self.tally(np.broadcast_to(sides == side, self.result.shape)) for side in sides]

    def by_start(self) -> tuple[Tally, Tally] | None:
        """The games in which the candidate started, and the others; None if the game does not say."""
        return None if self.started is None else (self.tally(self.started), self.tally(~self.started))

    def record(self) -> dict[str, Any]:
        """For JSON."""
        record = self.tally().record() | {
            f"by_{self.place}": [tally.record() for tally in self.by_place()],
            "mean_length": float(self.length.mean()),
        }
        start = self.by_start()
        if start is not None:
            record |= {"starter": start[0].record(), "second": start[1].record()}
        if self.margin is not None:
            record |= {"mean_margin": float(self.margin.mean())}
        return record


def outcomes_of(figures: dict[str, np.ndarray], length: np.ndarray, place: str = "seat") -> Outcomes | None:
    """The candidate's games.

    Args:
      figures: f32[D, rotation, side] by name: "return", and "points" and "starter" (above 0 for the side that started)
        if the game has them.
      length: i32[D, rotation].
      place: see `Outcomes`.

    Returns:
      None in a game of one side, which has nobody to win against.
    """
    sides = length.shape[1]
    if sides < 2:
        return None
    own = np.eye(sides, dtype=bool)  # the candidate is side r in rotation r

    def split(name: str) -> tuple[np.ndarray, np.ndarray]:
        values = figures[name].astype(np.float64)
        return values[:, own], values[:, ~own].reshape(*length.shape, sides - 1)

    returns, rivals = split("return")
    margin = started = None
    if "points" in figures:
        points, theirs = split("points")
        margin = points - theirs.mean(axis=-1)
    if "starter" in figures:
        started = split("starter")[0] > 0.0
    return Outcomes(compare(returns, rivals.max(axis=-1)), length, margin, started, place)
