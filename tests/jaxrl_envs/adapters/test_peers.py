"""The peers do the work that their figures claim; each is skipped where it is not installed."""

from __future__ import annotations

import jax
import pytest

from scripts.benchmark import peers


def needs(peer: str) -> None:
    sentence = peers.missing(peer)
    if sentence is not None:
        pytest.skip(sentence)


def test_a_peer_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(peers.PACKAGES, "absent", (("no_such_package",), "pip install absent"))
    assert peers.missing("absent") == "absent: not installed (pip install absent)"


def test_openspiel_decisions_are_counted_exactly():
    needs("openspiel")
    from scripts.benchmark.peers import openspiel

    state = openspiel._game(3).new_initial_state()
    decisions = 0
    while not state.is_terminal():
        decisions += not state.is_chance_node()
        state.apply_action(state.legal_actions()[0])
    assert decisions == openspiel.decisions(3)
    for contestant in openspiel.contestants():
        contestant.block()


def test_gymnax_is_stepped():
    needs("gymnax")
    from scripts.benchmark.peers import gymnax_games

    (contestant,) = gymnax_games.contestants(batch=4, steps=3, games=("CartPole-v1",))
    contestant.block()
    assert contestant.units == 12


def test_the_cython_engine_plays_whole_games():
    needs("beastybar")
    from scripts.benchmark.peers import beastybar_cython

    for contestant in beastybar_cython.contestants(games=16):
        contestant.block()
        assert 21 <= contestant.info["decisions_per_game"] <= 24


def test_pgx_is_stepped():
    needs("pgx")
    from scripts.benchmark.peers import pgx_games

    (contestant,) = pgx_games.contestants(batch=4, steps=3, games=("connect_four",))
    contestant.block()
    assert contestant.units == 12


@pytest.mark.parametrize("separate", [True, False])
def test_the_pure_ppo_learns(separate):
    needs("purejaxrl")
    from scripts.benchmark.peers import pure_ppo

    settings = pure_ppo.PeerSettings(num_envs=32, num_steps=64, updates=30, separate=separate, learning_rate=1e-3)
    program, learner = pure_ppo.build(settings)
    _, returns = jax.jit(lambda learner: pure_ppo.run(program, learner))(learner)
    assert returns[0] < 60 and returns[-5:].mean() > 2.5 * returns[0]
