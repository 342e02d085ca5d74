"""Players that know which actions are legal and nothing else: what imitation has to be better than.

Shape letters: N questions, A actions, G games.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from jaxrl.statistics import Estimate

STEPS, RATE = 400, 0.1


class Prediction(NamedTuple):
    """A player's predictions of recorded answers."""

    name: str
    right: np.ndarray  # f64[N], 1 where its first choice is the recorded one; shares of ties
    surprise: np.ndarray  # f64[N], -log of the probability of the recorded one; infinite where it is 0


def uniform(mask: np.ndarray) -> Prediction:
    """Predicts every legal action alike; bool[N, A]."""
    legal = mask.sum(axis=1).astype(np.float64)
    return Prediction("any legal action", 1.0 / legal, np.log(legal))


def lowest(mask: np.ndarray, action: np.ndarray) -> Prediction:
    """Predicts the legal action with the lowest number."""
    right = (np.argmax(mask, axis=1) == action).astype(np.float64)
    return Prediction("the first legal action", right, np.full(len(action), np.inf))


def frequent(mask: np.ndarray, action: np.ndarray, preferences: np.ndarray) -> Prediction:
    """Predicts by a fixed order of preference; f64[A], the highest legal one is chosen."""
    right = (np.argmax(np.where(mask, preferences, -np.inf), axis=1) == action).astype(np.float64)
    return Prediction("the most frequent legal action", right, np.full(len(action), np.inf))


def frequencies(mask: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Returns f64[A]: how often an action was chosen where it was legal."""
    chosen = np.bincount(action, minlength=mask.shape[1]).astype(np.float64)
    return chosen / np.maximum(mask.sum(axis=0), 1)


def weighted(mask: np.ndarray, action: np.ndarray, logits: np.ndarray) -> Prediction:
    """Predicts by fixed weights exp(f64[A]) of the actions, shared among the legal ones."""
    masked = np.where(mask, logits, -np.inf)
    top = masked.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(masked - top).sum(axis=1))
    right = (np.argmax(masked, axis=1) == action).astype(np.float64)
    return Prediction("the best fixed weights", right, total - masked[np.arange(len(action)), action])


def fit_weights(mask: np.ndarray, action: np.ndarray) -> np.ndarray:
    """f64[A]: the weights under which the answers are most probable (a convex problem), by Adam from frequencies."""
    target = np.bincount(action, minlength=mask.shape[1]) / len(action)
    logits = np.log((np.bincount(action, minlength=mask.shape[1]) + 0.5) / (mask.sum(axis=0) + 1.0))
    patterns, times = np.unique(np.packbits(mask, axis=1), axis=0, return_counts=True)  # many questions look alike
    legal, share = np.unpackbits(patterns, axis=1, count=mask.shape[1]).astype(bool), times / len(action)
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    for step in range(1, STEPS + 1):
        masked = np.where(legal, logits, -np.inf)
        weights = np.exp(masked - masked.max(axis=1, keepdims=True))
        gradient = share @ (weights / weights.sum(axis=1, keepdims=True)) - target
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        size = RATE * (1.0 - step / (STEPS + 1.0))
        logits = logits - size * (first / (1.0 - 0.9**step)) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-12)
    return logits


def all_constant(
    known: tuple[np.ndarray, np.ndarray], asked: tuple[np.ndarray, np.ndarray]
) -> tuple[list[Prediction], Prediction]:
    """Measures all constant players on the questions `asked`, and the best of them.

    Args:
      known: (mask, action) of the questions that they may learn from; the best one is chosen by these.
      asked: questions that they are measured on, likewise.

    Returns:
      All of them; and one with the first choices of the best player and the probabilities of the weights,
      which no other constant player beats.
    """
    preferences, weights = frequencies(*known), fit_weights(*known)

    def players(mask: np.ndarray, action: np.ndarray) -> list[Prediction]:
        return [
            uniform(mask),
            lowest(mask, action),
            frequent(mask, action, preferences),
            weighted(mask, action, weights),
        ]

    found = players(*asked)
    best = int(np.argmax([each.right.mean() for each in players(*known)]))
    return found, Prediction("best constant", found[best].right, found[-1].surprise)


def over_games(values: np.ndarray, game: np.ndarray) -> Estimate:
    """The mean of f64[N] over questions, with a 95 % interval over games: the questions of one are not independent."""
    if not np.isfinite(values).all():
        return Estimate(float(np.mean(values)), float("nan"))
    games, number = np.unique(game, return_inverse=True)
    mean, count = float(values.mean()), np.bincount(number)
    rest = np.bincount(number, weights=values) - mean * count
    if len(games) < 2:
        return Estimate(mean, float("nan"))
    spread = np.sqrt(np.square(rest).sum() * len(games) / (len(games) - 1))
    return Estimate(mean, float(special.stdtrit(len(games) - 1, 0.975) * spread / count.sum()))
