"""The reference games have the values their docstrings claim."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.contract.wrappers import auto_reset
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe


def play_random(env, games, steps, seed=0):
    """Plays `games` random games without reset: (final states, rewards f32[games, P] summed, turns i32[games])."""

    def one_step(carry, key):
        state, total, turns = carry
        act_key, step_key = jax.random.split(key)
        over = state.terminated | state.truncated
        state = env.step(state, env.random_action(state, act_key), step_key)
        return (state, total + state.rewards, turns + ~over), None

    def one_game(key):
        init_key, steps_key = jax.random.split(key)
        carry = (env.init(init_key), jnp.zeros(env.num_players), jnp.int32(0))
        return jax.lax.scan(one_step, carry, jax.random.split(steps_key, steps))[0]

    return jax.jit(jax.vmap(one_game))(jax.random.split(jax.random.key(seed), games))


def test_tic_tac_toe_random_play_has_the_known_win_rates():
    state, total, _ = play_random(TicTacToe(), 20_000, 9)
    assert bool(state.terminated.all())
    wins = np.mean(np.asarray(total) > 0, axis=0)
    np.testing.assert_allclose(wins, [0.585, 0.288], atol=0.015)


def test_rock_paper_scissors_pays_every_pair_and_sums_to_zero():
    env = RockPaperScissors(num_players=3, rounds=2)
    state = env.init(jax.random.key(0))
    state = env.step(state, jnp.array([0, 1, 1]), jax.random.key(1))
    np.testing.assert_allclose(state.rewards, [-1.0, 0.5, 0.5])
    assert not state.terminated
    assert env.step(state, jnp.array([2, 0, 1]), jax.random.key(1)).terminated
    _, total, turns = play_random(env, 2000, 3)
    np.testing.assert_allclose(np.sum(np.asarray(total), axis=1), 0.0, atol=1e-6)
    assert int(turns.min()) == int(turns.max()) == 2


def test_rock_paper_scissors_punishes_only_the_repeater():
    env = RockPaperScissors(num_players=3, no_repeat=True)
    state = env.step(env.init(jax.random.key(0)), jnp.array([0, 1, 2]), jax.random.key(1))
    state = env.step(state, jnp.array([0, 2, 0]), jax.random.key(1))
    assert bool(state.terminated) and bool(state.illegal_action)
    np.testing.assert_allclose(state.rewards, [-1.0, 0.5, 0.5])


@pytest.mark.parametrize(("action", "steps", "reward"), [(1, 4, 1.0), (0, 12, 0.0)])
def test_corridor_ends_at_the_wall_or_is_cut_off(action, steps, reward):
    env = Corridor(random_start=False)
    state = env.init(jax.random.key(0))
    for _ in range(steps):
        assert not (state.terminated | state.truncated)
        state = env.step(state, action, jax.random.key(1))
    assert float(state.rewards[0]) == reward
    assert bool(state.terminated) == (reward > 0) and bool(state.truncated) == (reward == 0)


def test_high_card_pays_a_trick_to_seats_between_their_turns():
    env = HighCard()
    state = env.init(jax.random.key(3))
    owner = jnp.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], jnp.int8)
    state = state.replace(owner=owner, current_player=jnp.int32(0), legal_action_mask=owner == 0)
    for action in (0, 5, 6):
        state = env.step(state, action, jax.random.key(0))
    np.testing.assert_allclose(state.rewards, [-0.5, -0.5, 1.0])
    assert int(state.current_player) == 2
    assert env.observe(state, jnp.int32(1)).won.tolist() == [0, 1, 0]
    for action in (7, 1, 4, 8, 2, 3):
        state = env.step(state, action, jax.random.key(0))
    np.testing.assert_allclose(state.rewards, [-0.5, -0.5, 2.0])
    assert bool(state.terminated)
    np.testing.assert_allclose(env.episode_stats(state)["tricks"], [0, 0, 3])


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
