"""Exact resume: N updates, a checkpoint and N more are 2 N updates, leaf by leaf, whatever is trained.

One line of the table is one program; options that do not meet in one line meet in pairs. That nothing outside of a
checkpoint is needed is tested by `kill -9`: tests/attacks/test_kills.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import pytest

from jaxrl.config import Config
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.section import Schedule
from tests.algorithms.test_critic import CRITIC
from tests.networks.test_memory import recurrent_config
from tests.networks.test_normaliser import Physical, normalising
from tests.support.dqn_training import dqn_config
from tests.support.games import TicTacToe
from tests.support.host_games import HostTicTacToe
from tests.support.memory_games import HostRecall
from tests.support.sebulba_training import threads_left
from tests.support.training import assert_identical, run, small_config

BOTS = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("lowest", "random")))
LEAGUE = LeagueConfig(opponents=("self", "snapshots", "bots"), snapshots=4, snapshot_every=1, half_life=50.0)
# Rollouts are shorter than games, and one of two slots is overwritten after each: some games must be dealt again.
CROWDED = dataclasses.replace(LEAGUE, snapshots=2)
PAIR = dataclasses.replace(CROWDED, opponents=("self", "snapshots"))
PULLED: dict[str, Any] = {"magnet": "policy", "magnet_refresh": 3, "ema": 0.9, "value_warmup": 2}
PULLED["anchor"] = Schedule("linear", 0.3)


class Case(NamedTuple):
    """A training and its game."""

    config: Config
    env: Env


def ppo(league: LeagueConfig | None = None, lag: int = 0, **settings: Any) -> Config:
    config = small_config(**({"calls": 50, "stagger": 5} | settings))
    actors = SebulbaConfig(threads=2, timeout=30.0, lag=lag)
    return dataclasses.replace(config, league=league or LeagueConfig(), sebulba=actors)


def dqn(lag: int = 0, **settings: Any) -> Config:
    return dqn_config(sebulba=SebulbaConfig(threads=1, lag=lag), updates=3, learning_starts=100, **settings)


def with_lag(config: Config, lag: int) -> Config:
    return dataclasses.replace(config, sebulba=dataclasses.replace(config.sebulba, lag=lag))


CASES = {
    "ppo, bots, two seeds": Case(ppo(seats=BOTS, seeds=2), TicTacToe()),
    "ppo, league, normaliser, critic, magnet": Case(normalising(ppo(PAIR, critic=CRITIC, **PULLED)), Physical()),
    "ppo, league, memory, two seeds, magnet, average": Case(
        recurrent_config(league=LEAGUE, seeds=2, calls=50, stagger=5, **PULLED), TicTacToe()
    ),
    "ppo, host, league, normaliser": Case(normalising(ppo(CROWDED, num_steps=4)), HostTicTacToe(opening=True)),
    "ppo, host, league, memory, lag 1": Case(
        with_lag(recurrent_config(league=PAIR, updates=3, calls=50, stagger=5), 1), HostRecall(delays=(1, 3))
    ),
    "ppo, host, league, lag 2, magnet, average": Case(
        ppo(CROWDED, lag=2, num_steps=4, updates=5, **PULLED), HostTicTacToe(opening=True)
    ),
    "ppo, host, cut games, lag 2": Case(ppo(lag=2, num_steps=6), HostTicTacToe(opening=True, limit=6)),
    "dqn, bots, normaliser, two seeds": Case(normalising(dqn(seats=BOTS, seeds=2)), Physical()),
    "dqn, host, cut games": Case(dqn(), HostTicTacToe(limit=7)),
    "dqn, host, bots, lag 2": Case(dqn(lag=2, seats=BOTS), HostTicTacToe(limit=7)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_goes_through_a_checkpoint_goes_on_bit_by_bit(case: Case) -> None:
    """brax 655, SB3 1643 and 326, PufferLib 618. On the host with other threads, engines and memories."""
    first = make_program(case.config, case.env)
    second = make_program(case.config, case.env) if case.env.host else first
    state, _ = run(first, first.init(3))
    saved = first.saved(state)
    assert_forms(saved, first.abstract_state)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(saved.lanes.memory))
    packed = checkpoint.pack(saved)
    kept = {name: array.copy() for name, array in packed[0].items()}
    state, found = run(first, state)
    jax.tree.map(np.testing.assert_array_equal, packed[0], kept)  # it does not change with what is live
    restored = second.restored(checkpoint.unpack(*packed, second.abstract_state))
    restored, again = run(second, restored)
    first.close()
    second.close()
    assert not threads_left()
    assert_identical(state, restored)
    untimed = [name for name in found if not name.startswith("time/")]
    np.testing.assert_array_equal([found[name] for name in untimed], [again[name] for name in untimed])
    assert_that_it_was_used(case, state, found)


def assert_forms(state: Any, template: Any) -> None:
    jax.tree.map(
        lambda leaf, like: np.testing.assert_equal((leaf.shape, leaf.dtype), (like.shape, like.dtype)), state, template
    )


def assert_that_it_was_used(case: Case, state: Any, found: dict[str, np.ndarray]) -> None:
    """Every part of the state that the line is about has moved."""
    config, updates = case.config, 2 * case.config.train.updates_per_call
    assert np.all(state.update == updates) and all(
        np.all(np.isfinite(value)) for name, value in found.items() if name.startswith("train/")
    )
    if config.run.seeds == 1:
        assert int(state.env_steps) == updates * config.batch_size
    if config.league.snapshots:
        assert np.all(state.pool.order.max(axis=-1) == updates - 1) and np.all(state.pool.games.sum(axis=-1) > 10)
        assert np.all(state.pool.elo[..., 0] != 1000.0)
        if case.env.host and "bots" in config.league.opponents:
            assert found["league/redealt"] > 0
    if config.ppo.ema:
        assert found["train/anchor_kl"].min() > 0 and found["train/magnet_kl"].min() > 0
        assert state.learner.target_params.keys() == {"magnet", "anchor", "average"}
        for copy in state.learner.target_params.values():
            pairs = zip(*(jax.tree.leaves(tree) for tree in (copy, state.learner.params)), strict=True)
            assert any(np.any(left != right) for left, right in pairs)
    if config.network.normalize:
        assert np.all(state.learner.params["normaliser"]["decisions"] > 0)
    if config.train.algorithm == "dqn":
        assert np.all(state.learner.steps > 5)
    elif config.ppo.critic:
        steps = updates * config.ppo.epochs * config.ppo.minibatches
        assert np.all(optax.tree.get(state.learner.critic.opt_state, "count") == steps)
    if case.env.host:
        assert len(state.acting) == found["train/policy_lag"] == config.sebulba.lag
