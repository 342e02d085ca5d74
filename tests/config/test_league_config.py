"""Configurations with an opponent pool: those that cannot be, and a shipped one by overrides alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.games import make_games
from jaxrl.training.make import make_program
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from tests.support.training import run


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
        ({"opponents": ["self", "snapshots"], "snapshots": 4, "cross_play": True}, "set run.seeds to 2 or more"),
        ({"opponents": ["self", "snapshots"], "snapshots": 3}, "512.*league.snapshots.*513"),
    ],
)
def test_impossible_leagues(league, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train = {"num_envs": 512, "evaluate_every": 0}
        make_games(configs.from_dict({"env": {"id": "tests.support.games:HighCard"}, "league": league, "train": train}))


@pytest.mark.slow
def test_skull_king_trains_with_a_pool_by_overrides_alone():
    """One update of the preset, made small; every kind of opponent can be drawn."""
    overrides = [
        "seats=[{weight: 1, learners: all, bots: []}]",
        "league={opponents: [self, snapshots, bots], snapshots: 2, snapshot_every: 1}",
        "network.hidden=[8]",
        "train.num_envs=16",
        "train.num_steps=16",
        "ppo.minibatches=2",
        "train.total_steps=256",
        "train.updates_per_call=1",
        "run.devices=1",
    ]
    config = configs.load("skull_king_cpu", overrides)
    env = registry.make(config.env.id, **config.env.options)
    anakin = make_program(config, env)
    before = anakin.init(0)
    first = jax.device_get(before.learner.params)
    state, metrics = run(anakin, before)
    assert int(state.update) == 1 and int(state.pool.order.max()) == 0
    shares = {name: float(value) for name, value in metrics.items() if name.startswith("league/share/")}
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-5)
    assert {f"league/share/{name}" for name in ("self", "snapshot_0", "snapshot_1", *env.bots)} == set(shares)
    assert all(shares[f"league/share/{name}"] > 0 for name in ("self", *env.bots))
    assert len(np.unique(np.asarray(state.lanes.controllers))) > 2
    after = jax.device_get(state.learner.params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    changed = [not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(after), strict=True)]
    assert any(changed)
