"""The reference games have the values their docstrings claim."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.contract.wrappers import auto_reset
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe


def test_auto_reset_keeps_the_end_and_starts_fresh():
    env = Corridor(length=3, limit=4, random_start=True)
    lane = auto_reset(env)
    state = lane.init(jax.random.key(0))
    state = state.replace(position=jnp.int8(1))
    fresh, final = lane.step(state, jnp.int32(1), jax.random.key(1))
    assert bool(final.terminated) and bool(final.over) and not bool(final.truncated)
    assert final.observation.tolist() == [False, False, True] and final.rewards.tolist() == [1.0]
    assert not bool(fresh.terminated) and int(fresh.time) == 0 and fresh.rewards.tolist() == [0.0]
    assert fresh.observation.tolist() == (np.arange(3) == int(fresh.position)).tolist()


def test_auto_reset_deals_differ_from_game_to_game():
    env = HighCard()
    lane = auto_reset(env)

    def one_step(state, key):
        act_key, step_key = jax.random.split(key)
        state, final = lane.step(state, env.random_action(state, act_key), step_key)
        return state, (state.owner, final.over)

    state = lane.init(jax.random.key(0))
    _, (owner, over) = jax.jit(lambda s: jax.lax.scan(one_step, s, jax.random.split(jax.random.key(1), 90)))(state)
    deals = np.asarray(owner)[np.asarray(over)]
    assert len(deals) == 10 and len(np.unique(deals, axis=0)) == 10


@pytest.mark.parametrize("action", [-1, 9, 2**30, -(2**31)])
def test_numbers_that_are_no_actions_are_illegal(action):
    env = TicTacToe()
    state = env.step(env.init(jax.random.key(0)), jnp.int32(action), jax.random.key(1))
    assert bool(state.terminated) and bool(state.illegal_action)
    np.testing.assert_allclose(state.rewards, [-1.0, 1.0])
    env = RockPaperScissors(num_players=3)
    state = env.step(env.init(jax.random.key(0)), jnp.array([0, action, 1]), jax.random.key(1))
    assert bool(state.terminated) and bool(state.illegal_action)
    np.testing.assert_allclose(state.rewards, [0.5, -1.0, 0.5])
