"""The player that knows which actions are legal and nothing else: what imitation has to be better than.

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
    right: np.ndarray  # f64[N], 1 where its first choice is the recorded one
    surprise: np.ndarray  # f64[N], -log of the probability of the recorded one


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


def best_constant(known: tuple[np.ndarray, np.ndarray], mask: np.ndarray, action: np.ndarray) -> Prediction:
    """Predicts questions by the fixed weights of the actions that fit the `known` ones, (mask, action), best; they are
    shared among the legal actions."""
    masked = np.where(mask, fit_weights(*known), -np.inf)
    top = masked.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(masked - top).sum(axis=1))
    right = (np.argmax(masked, axis=1) == action).astype(np.float64)
    return Prediction("best constant", right, total - masked[np.arange(len(action)), action])


def over_games(values: np.ndarray, game: np.ndarray) -> Estimate:
    """The mean of f64[N] over questions, with a 95 % interval over games: the questions of one are not independent."""
    games, number = np.unique(game, return_inverse=True)
    mean, count = float(values.mean()), np.bincount(number)
    rest = np.bincount(number, weights=values) - mean * count
    if len(games) < 2:
        return Estimate(mean, float("nan"))
    spread = np.sqrt(np.square(rest).sum() * len(games) / (len(games) - 1))
    return Estimate(mean, float(special.stdtrit(len(games) - 1, 0.975) * spread / count.sum()))
