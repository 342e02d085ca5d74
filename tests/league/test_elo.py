"""Elo and Bradley-Terry against analytic cases, a brute-force maximum, and simulated players of known strength."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.league.elo import SCALE, bradley_terry, elo_update, expected_score
from jaxrl.statistics import Z95
from jaxrl_envs.shared.errors import UserError


def test_elo_expectations_and_updates():
    assert expected_score(1500, 1500) == 0.5
    assert expected_score(400, 0) == pytest.approx(10 / 11)
    assert elo_update(1500, np.array([1500]), np.array([1]), np.array([1.0]), k=32) == (1516, [1484])
    own, others = elo_update(0.0, np.array([400.0]), np.array([1]), np.array([0.5]), k=20)
    assert (own, others[0]) == pytest.approx((20 * (0.5 - 1 / 11), 400 - 20 * (0.5 - 1 / 11)))


def test_elo_after_a_batch_of_games():
    """A rating moves by its own games, the player's by all games, and none by more than the limit."""
    games, score = np.array([2.0, 0.0, 1e6]), np.array([2.0, 0.0, 0.0])
    own, others = elo_update(1000.0, np.full(3, 1000.0), games, score, k=8.0, largest=100.0)
    assert others == pytest.approx([1000 - 8 / 1.16, 1000, 1050], abs=0.01)
    assert own == pytest.approx(950, abs=0.01)


def test_elo_inside_a_compiled_scan_finds_the_true_distance():
    """A player that scores 3/4 is 400 log10(3) above its opponent; the mean over time wanders far less than Elo."""
    truth = 400 * math.log10(3)
    wins = jax.random.bernoulli(jax.random.key(0), 0.75, (20_000,)).astype(jnp.float32)

    def play(ratings, score):
        own, other = elo_update(ratings[0], ratings[1:], jnp.ones(1), score[None], k=8.0)
        after = jnp.concatenate([own[None], other])
        return after, after[0] - after[1]

    _, distances = jax.jit(lambda: jax.lax.scan(play, jnp.zeros(2), wins))()
    assert abs(float(distances[2000:].mean()) - truth) < 15  # 18,000 games: se 2.2, plus the skew of the logistic curve
    assert 10 < float(distances[2000:].std()) < 60


@pytest.mark.parametrize("wins, draws, losses", [(75, 0, 25), (40, 20, 40), (9000, 500, 500)])
def test_two_players_have_the_log_odds_of_their_score(wins, draws, losses):
    games, score = wins + draws + losses, wins + draws / 2
    matrix = np.array([[0, games - score], [score, 0]])
    fit = bradley_terry(matrix, ["anchor", "other"], {"anchor": 0.0})
    p = score / games
    assert fit.rating == pytest.approx([0, 400 * math.log10(p / (1 - p))])
    assert fit.half == pytest.approx([0, Z95 * SCALE / math.sqrt(games * p * (1 - p))])
    assert fit.virtual_draws == 0


def test_expected_scores_give_their_ratings_back():
    truth = np.array([0.0, -120.0, 35.5, 400.0])
    games = np.array([[0, 10, 0, 50], [10, 0, 30, 0], [0, 30, 0, 20], [50, 0, 20, 0]])  # not everybody met
    scores = games * expected_score(truth[:, None], truth[None, :])
    fit = bradley_terry(scores, list("abcd"))
    assert fit.rating == pytest.approx(truth, abs=1e-6)
    other = bradley_terry(scores, list("abcd"), {"d": 1500.0})
    assert other.rating == pytest.approx(truth - 400 + 1500, abs=1e-6)
    assert other.half[3] == 0 and other.half[0] == pytest.approx(fit.half[3])
    assert fit.order() == [3, 2, 0, 1]


def test_the_fit_is_the_fixed_point_of_the_classic_iteration():
    """Zermelo's (MM) iteration, Hunter 2004: strength = wins / sum of games / (strength + opponent's strength)."""
    scores = np.array([[0, 7, 3, 9], [2, 0, 4, 4], [6, 5, 0, 8], [1, 3, 2, 0]], np.float64)
    strength = np.ones(4)
    for _ in range(5000):
        rates = (scores + scores.T) / (strength[:, None] + strength[None, :])
        strength = scores.sum(axis=1) / rates.sum(axis=1)
        strength /= strength[0]
    assert bradley_terry(scores, list("abcd")).rating == pytest.approx(SCALE * np.log(strength), abs=1e-6)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """400 simulated round robins of five players, 100 games a pair, wins only; 4 distances to the anchor each.

    The error bound: 4 standard errors of a coverage of 0.95 among 400 tournaments, 4 sqrt(0.95 0.05 / 400) = 0.044
    """
    truth = np.array([0.0, 60.0, -150.0, 220.0, 10.0])
    random = np.random.default_rng(7)
    upper = np.triu(random.binomial(100, expected_score(truth[:, None], truth), (400, 5, 5)), 1)
    covered = []
    for wins in upper:
        scores = wins + np.tril((100 - wins).T, -1)
        fit = bradley_terry(scores, list("abcde"), {"a": 0.0})
        covered.append(np.abs(fit.rating - truth)[1:] <= fit.half[1:])
    assert np.abs(np.mean(covered, axis=0) - 0.95).max() < 0.044


def test_a_player_that_wins_everything_stays_at_a_finite_distance():
    scores = np.array([[0, 0, 5.0], [100, 0, 100], [5.0, 0, 0]])
    fit = bradley_terry(scores, ["low", "champion", "equal"])
    assert fit.virtual_draws == 1.0 and fit.record()["virtual_draws"] == 1.0
    assert fit.rating[2] == pytest.approx(0.0, abs=1e-6)
    assert 700 < fit.rating[1] < 1200 and fit.half[1] > 200
    assert bradley_terry(np.array([[0, 50.0], [0, 0]]), ["all", "none"]).rating[1] == pytest.approx(
        -SCALE * math.log(50.5 / 0.5)
    )


def test_a_player_among_known_ones_is_rated_by_the_log_odds():
    """2,000 players of rating 130 with 200 games against each of three; 4 standard errors of a coverage of 0.95."""
    won = np.zeros((2, 2))
    won[1, 0], won[0, 1] = 75, 25
    fit = bradley_terry(won, ["known", "new"], {"known": 1000.0})
    assert fit.rating == pytest.approx([1000, 1000 + 400 * math.log10(3)])
    known, random = {"a": 0.0, "b": 120.0, "c": 300.0}, np.random.default_rng(3)
    covered = []
    for wins in random.binomial(200, expected_score(130.0, np.array([*known.values()])), (2000, 3)):
        scores = np.zeros((4, 4))
        scores[3, :3], scores[:3, 3] = wins, 200 - wins
        fit = bradley_terry(scores, list("abcd"), known)
        assert fit.rating[:3].tolist() == [*known.values()] and not fit.half[:3].any()
        covered.append(abs(fit.rating[3] - 130) <= fit.half[3])
    assert abs(np.mean(covered) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)
    best = bradley_terry(np.array([[0, 0, 0], [0, 0, 0], [50, 50, 0.0]]), list("abc"), {"a": 0.0, "b": 10.0})
    assert best.virtual_draws == 1.0 and 600 < best.rating[2] < 1200


def test_mistakes():
    scores = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], float)
    with pytest.raises(UserError, match="c and a are not connected"):
        bradley_terry(scores, list("abc"))
    with pytest.raises(UserError, match="did you mean 'random'"):
        bradley_terry(np.ones((2, 2)), ["random", "other"], {"rendom": 0.0})
    with pytest.raises(ValueError, match="must be"):
        bradley_terry(np.ones((2, 3)), ["a", "b"])
