"""Ratings from results: Elo, updated after each batch of games, and Bradley-Terry, fitted to all games at once.

In both models a player rated R scores 1 / (1 + 10 ** ((S - R) / 400)) points a game against one rated S, a draw
counting half a point. Elo (https://en.wikipedia.org/wiki/Elo_rating_system) follows players whose strength changes; its
noise does not vanish. A Bradley-Terry fit (Bradley and Terry 1952, https://doi.org/10.2307/2334029) is the maximum of
the likelihood of a whole matrix of results, for players whose strength is constant.

Shape letter: M players.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import chex
import numpy as np

from jaxrl.statistics import Z95
from jaxrl_envs.shared.errors import UserError, nearest

SCALE = 400 / math.log(10)  # rating points for one unit of log-odds
VIRTUAL_DRAWS = 1.0  # drawn games added to each pair where the likelihood has no maximum
MAX_NEWTON_STEPS = 100
TOLERANCE = 1e-10  # of the last Newton step, in log-odds


def expected_score(rating: Any, other: Any) -> Any:
    """Points per game, 0 to 1, of a player rated `rating` against one rated `other`; floats, NumPy or JAX arrays."""
    return 1 / (1 + 10.0 ** ((other - rating) / 400))


def points(share: float) -> float:
    """Returns the rating difference at which a player earns this share of the points, 0 < share < 1."""
    return SCALE * math.log(share / (1 - share))


def elo_update(
    rating: Any, others: Any, games: Any, score: Any, k: float = 16.0, largest: float = math.inf
) -> tuple[Any, Any]:
    """Updates Elo ratings after a batch of games of one player against several opponents; NumPy or JAX arrays.

    With n games, score s and expected score p against each opponent, ratings move by gain(n) (s - n p) / n: the
    player's over all its games, every opponent's the opposite way over its own, where gain(n) = K n / (1 + K n / C).
    One game against one opponent, without a limit C, is the usual Elo update.

    Args:
      rating: the player's rating before the games.
      others: f[E], of the opponents.
      games: f[E], against each.
      score: f[E], of the player in them: 1 for a win, 0.5 for a draw, 0 for a loss.
      k: K, the most that one game can move a rating. Against equal opponents whose ratings stay where they are, a
        rating wanders by about sqrt(87 k) points (one standard deviation) around the true one, less with draws, and
        needs some 700 / k games to follow a change.
      largest: C, the most that a batch can move a rating.

    Returns:
      The player's rating after the games, and the others' f[E].
    """
    chex.assert_equal_shape((others, games, score))
    surprise = score - games * expected_score(rating, others)
    per_game, per_game_of_all = (k / (1 + k * n / largest) for n in (games, games.sum()))
    return rating + per_game_of_all * surprise.sum(), others - per_game * surprise


@dataclasses.dataclass(frozen=True)
class Ratings:
    """A Bradley-Terry fit."""

    names: tuple[str, ...]
    rating: np.ndarray  # f64[M], on the Elo scale; those of the anchors are given numbers
    covariance: np.ndarray  # f64[M, M], of the estimated ratings; zero in the rows and columns of the anchors
    anchors: tuple[int, ...]  # numbers of the players whose ratings are fixed
    virtual_draws: float  # drawn games added to each pair that met: 0 unless there would be no finite estimate

    @property
    def half(self) -> np.ndarray:
        """f64[M], half widths of the 95 % intervals of the distances to the anchors; their own are 0."""
        return Z95 * np.sqrt(np.diag(self.covariance))

    def order(self) -> list[int]:
        """Returns the players' numbers, strongest first."""
        return [int(i) for i in np.argsort(-self.rating, kind="stable")]

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        return {
            "anchors": [self.names[i] for i in self.anchors],
            "virtual_draws": self.virtual_draws,
            "players": [
                {"name": self.names[i], "rating": float(self.rating[i]), "half_width_95": float(self.half[i])}
                for i in self.order()
            ],
        }


def bradley_terry(scores: np.ndarray, names: Sequence[str], known: Mapping[str, float] | None = None) -> Ratings:
    """Fits maximum-likelihood ratings to the results of players that met in pairs.

    Newton's method on the log-likelihood sum_ij scores[i, j] log p_ij, which is concave. The intervals come from the
    observed Fisher information, whose inverse (anchors left out) is the covariance of the ratings. They take games as
    independent and a draw as half a win and half a loss, which overstates the variance of games with draws: with them,
    or with deals played from both seats, intervals are somewhat too wide.

    If some player, or group of players, won or lost every game against all others, the likelihood has no maximum (Ford
    1957, https://doi.org/10.2307/2308513): then, and only then, `VIRTUAL_DRAWS` drawn games are added to every pair
    that met, which keeps such a player at a finite distance, about that of the end of an interval.

    Raises UserError: an unknown anchor, or players that are not connected by games.

    Args:
      scores: f64[M, M], points of the row player against the column player, a draw half a point; the diagonal is
        ignored. Players i and j met in ``scores[i, j] + scores[j, i]`` games.
      known: ratings of the anchors, which are taken as exact; by default the first player is rated 0.
    """
    scores = np.array(scores, np.float64)
    count = len(names)
    if scores.shape != (count, count) or (scores < 0).any():
        raise ValueError(f"scores must be [{count}, {count}] and not negative, not {scores.shape}")
    known = known or {names[0]: 0.0}
    if absent := [name for name in known if name not in names]:
        raise UserError(f"there is no player {absent[0]!r} to anchor the ratings on: {nearest(absent[0], names)}")
    anchors = [list(names).index(name) for name in known]
    together = np.ix_(anchors, anchors)  # distances between anchors need no games
    np.fill_diagonal(scores, 0.0)
    met, ahead = scores + scores.T > 0, scores > 0
    linked = met.copy()
    linked[together] = ahead[together] = True
    apart = [names[int(i)] for i in np.flatnonzero(~_reachable(linked)[anchors[0]])]
    if apart:
        raise UserError(
            f"{', '.join(apart)} and {names[anchors[0]]} are not connected by games: they cannot be compared."
        )
    virtual = 0.0 if _reachable(ahead).all() else VIRTUAL_DRAWS
    free = ~np.isin(np.arange(count), anchors)
    start = np.full(count, np.mean([*known.values()]) / SCALE)
    start[anchors] = np.array([*known.values()]) / SCALE
    strength, information = _newton(scores + virtual / 2 * met, free, start)
    covariance = np.zeros((count, count))
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    rating = SCALE * strength
    rating[anchors] = [*known.values()]
    return Ratings(tuple(names), rating, SCALE**2 * covariance, tuple(anchors), virtual)


def _reachable(edges: np.ndarray) -> np.ndarray:
    """Returns the reflexive transitive closure of `edges`, bool[M, M]."""
    closure = edges | np.eye(len(edges), dtype=bool)
    for _ in range(max(1, math.ceil(math.log2(max(2, len(edges)))))):
        closure = closure @ closure
    return closure


def _newton(scores: np.ndarray, free: np.ndarray, strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maximises the likelihood from the given log-strengths f64[M]; only those that are `free` (bool[M]) move. Returns
    the log-strengths and the Fisher information f64[M, M] there."""
    games = scores + scores.T

    def likelihood(strength: np.ndarray) -> float:
        return -float(np.sum(scores * np.logaddexp(0.0, strength[None, :] - strength[:, None])))

    value = likelihood(strength)
    for _ in range(MAX_NEWTON_STEPS):
        p = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))  # the row player wins
        weights = games * p * (1 - p)
        information = np.diag(weights.sum(axis=1)) - weights
        gradient = (scores - games * p).sum(axis=1)
        step = np.zeros_like(strength)
        step[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        if np.abs(step).max() < TOLERANCE:
            return strength, information
        size = min(1.0, 2.0 / np.abs(step).max())  # far from the maximum a full step overshoots
        while size > 1e-6 and likelihood(strength + size * step) < value - 1e-9 * abs(value):
            size /= 2
        strength = strength + size * step
        value = likelihood(strength)
    raise RuntimeError(f"the Bradley-Terry fit did not converge in {MAX_NEWTON_STEPS} steps")
