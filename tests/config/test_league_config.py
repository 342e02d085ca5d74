"""Configurations with an opponent pool: those that cannot be, and a shipped one by overrides alone."""

from __future__ import annotations

import pytest

from jaxrl import config as configs
from jaxrl.games import make_games
from jaxrl_envs.shared.errors import UserError


@pytest.mark.parametrize(
    "league, message",
    [
        ({"opponents": ["hihest"]}, "did you mean 'highest'"),
        ({"opponents": ["self", "bots", "self"]}, "lists a name twice"),
        ({"opponents": ["self", "snapshots"]}, "league.snapshots is 0"),
        ({"opponents": ["bots"], "snapshots": 8}, "list snapshots in league.opponents"),
        ({"snapshots": 8}, "needs league.opponents"),
        ({"opponents": ["bots"], "learners": 3}, "league.learners is 3"),
        ({"opponents": ["bots"], "learners": 0}, "of at least 1"),
        ({"opponents": ["self", "bots"], "self_play": 1.0}, "less than 1"),
        ({"opponents": ["bots"], "floor": 0.0}, "league.floor must be a number above 0"),
        ({"opponents": ["bots"], "weights": {"random": 2}}, "weighting fixed"),
        ({"opponents": ["bots"], "weighting": "fixed", "weights": {"rendom": 2}}, "did you mean 'random'"),
        (
            {"opponents": ["bots"], "weighting": "fixed", "weights": {"random": 0}},
            "weights.random must be a number above 0",
        ),
        ({"opponents": ["bots"], "margin": 100}, "needs league.snapshots"),
        ({"opponents": ["self", "snapshots"], "snapshots": 3}, "512.*league.snapshots.*513"),
    ],
)
def test_impossible_leagues(league, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train = {"num_envs": 512, "evaluate_every": 0}
        make_games(configs.from_dict({"env": {"id": "tests.support.games:HighCard"}, "league": league, "train": train}))
