"""The peers do the work that their figures claim, and what must be equal to ours is; skipped where not installed."""

from __future__ import annotations

import dataclasses

import pytest

from jaxrl import config as configs
from tests.support import games


def test_openspiel_decisions_are_counted_exactly():
    pytest.importorskip("pyspiel")
    from scripts.benchmark.peers import openspiel

    state = openspiel._game(3).new_initial_state()
    decisions = 0
    while not state.is_terminal():
        decisions += not state.is_chance_node()
        state.apply_action(state.legal_actions()[0])
    assert decisions == openspiel.decisions(3)
    for contestant in openspiel.contestants():
        contestant.block()


@pytest.mark.parametrize(("package", "name"), [("gymnax", "CartPole-v1"), ("pgx", "connect_four")])
def test_a_compiled_game_is_stepped(package, name):
    pytest.importorskip(package)
    from scripts.benchmark.peers import jax_games

    contestant = getattr(jax_games, f"{package}_game")(name, batch=4, steps=3)
    contestant.block()
    assert contestant.units == 12


def test_the_cython_engine_plays_whole_games():
    pytest.importorskip("_01_simulator")
    from scripts.benchmark.peers import beastybar_cython

    for contestant in beastybar_cython.contestants(games=16):
        contestant.block()
        assert 21 <= contestant.info["decisions_per_game"] <= 24


def test_the_plain_loop_and_ours_have_equal_settings():
    from scripts.benchmark.peers import plain_ppo

    settings = dataclasses.replace(plain_ppo.SETTINGS, lanes=8, steps=4)
    config = plain_ppo.equal_config(settings)
    found = plain_ppo.contestant(settings, games.Corridor())
    found.block()
    assert found.units == config.batch_size * config.train.updates_per_call
    ppo = config.ppo
    assert (ppo.gamma, ppo.gae_lambda, ppo.clip, ppo.max_grad_norm, ppo.epochs) == (0.99, 0.95, 0.2, 0.5, 4)


def test_a_block_of_stable_baselines_is_a_whole_iteration(monkeypatch):
    contrib = pytest.importorskip("sb3_contrib")
    from scripts.benchmark.peers import sb3_ppo

    learnt: list[int] = []
    train = contrib.MaskablePPO.train
    monkeypatch.setattr(contrib.MaskablePPO, "train", lambda self: (learnt.append(self.num_timesteps), train(self)))
    small = ["network.hidden=[8,16]", "train.num_envs=8", "train.num_steps=4", "ppo.minibatches=2", "ppo.epochs=3"]
    config = configs.load(None, ["env.id=tests.support.games:TicTacToe", *small])
    found = sb3_ppo.contestant(config, games.TicTacToe())
    for _ in range(3):
        found.block()
    assert learnt == [32, 64, 96] and found.units == config.batch_size == 32
    monkeypatch.setattr(contrib.MaskablePPO, "train", lambda self: None)
    with pytest.raises(RuntimeError, match="not one whole iteration"):
        found.block()
