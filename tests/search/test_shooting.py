"""Search in simultaneous games: sequences of actions that are tried in simulated games."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.matches.evaluate import Matchup
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import make_network
from jaxrl.players.player import network_player
from jaxrl.search.policies import SearchParams
from jaxrl.search.settings import SEQUENCE, SearchSettings
from jaxrl.search.shooting import Sequence, make_shooting
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.contract.env import Key, State
from jaxrl_envs.shared.errors import UserError
from tests.support.games import RockPaperScissors, keys_of

ROUNDS = 3


@pytest.fixture(scope="module")
def game():
    """A game whose opponent is known: the likeliest action of an untrained network."""
    env = RockPaperScissors(rounds=ROUNDS)
    network = make_network(NetworkConfig(hidden=(8,)), env)
    return env, network, network.init(jax.random.key(0))


def searched(env, network, discount=1.0, **settings):
    algorithm = SimpleNamespace(network=network, discount=discount)
    return make_shooting(env, env, algorithm, SearchSettings(**{"simulations": 128, "depth": ROUNDS} | settings))


def test_it_beats_the_player_that_it_expects_in_every_round_and_seat(game):
    """There are 27 sequences, so that 128 of an untrained policy hold the best one: it wins each round."""
    env, network, params = game
    opponent = network_player(network, env, "likeliest", params, greedy=True)
    search = searched(env, network)
    found = Matchup(env, search.player(), [opponent], deals=8, seed=0).play(SearchParams(params))
    np.testing.assert_array_equal(found.candidate["return"], float(ROUNDS))


def test_a_plan_is_kept_and_only_own_seats_are_planned(game):
    env, network, params = game
    search = searched(env, network)
    state = jax.vmap(env.init)(keys_of(0, 4))
    memory = Sequence(jnp.zeros((4, 2), jnp.int32), jnp.tile(jnp.array([0, 2, 1]), (4, 2, 1)))  # seat 0 is its own
    act = jax.jit(jax.vmap(search.act, in_axes=(None, 0, 0, 0)))
    actions, after = act(SearchParams(params), memory, state, keys_of(1, 4))
    np.testing.assert_array_equal(after.actions[:, 1, 1:], [[1, 1]] * 4)  # moved on by one, unsearched
    np.testing.assert_array_equal(actions, after.actions[:, :, 0])
    again, later = act(SearchParams(params), after, jax.vmap(env.step)(state, actions, keys_of(2, 4)), keys_of(3, 4))
    np.testing.assert_array_equal(again[:, 0], after.actions[:, 0, 1])  # the best of all is found once
    np.testing.assert_array_equal(later.actions[:, 0, 0], after.actions[:, 0, 1])


def test_what_a_policy_must_play_is_not_searched(game):
    env, network, params = game

    class Book(RockPaperScissors):
        def policy_mask(self, state: State) -> jax.Array:
            return jnp.broadcast_to(jnp.arange(3) == 2, state.legal_action_mask.shape)

    search = dataclasses.replace(searched(env, network), env=Book(rounds=ROUNDS))
    state = jax.vmap(env.init)(keys_of(0, 3))
    memory = Sequence(jnp.tile(jnp.arange(2), (3, 1)), jnp.zeros((3, 2, ROUNDS), jnp.int32))
    actions, _ = jax.vmap(search.act, in_axes=(None, 0, 0, 0))(SearchParams(params), memory, state, keys_of(1, 3))
    np.testing.assert_array_equal(actions, 2)


def test_what_it_cannot_do_is_said(game):
    env, network, _ = game
    assert searched(env, network, depth=0).settings.depth == SEQUENCE
    with pytest.raises(UserError, match="values of a policy's network"):
        make_shooting(env, env, None, SearchSettings())
    for other in ({"planner": "tree"}, {"objective": "wins"}, {"kl": 0.1}, {"particles": 8}, {"sure": 0.9}):
        with pytest.raises(UserError, match="--search-depth alone"):
            searched(env, network, **other)


def test_a_game_that_does_not_say_what_is_hidden_is_refused(game):
    class Silent(RockPaperScissors):
        def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> None:
            return None

    with pytest.raises(UserError, match="does not say what a seat cannot see"):
        searched(Silent(rounds=ROUNDS), game[1])


def test_a_position_of_an_evaluation_becomes_one_of_the_training():
    """Rewards, the book of kickoffs and ends of episodes differ: leaves of the state have other shapes."""
    evaluated = CarSoccer(rewards={"goal": 1}, reward_mode="listed", openings=True, terminations=["match"])
    trained = CarSoccer(reward_mode="dense", iterations=4)
    key = jax.eval_shape(lambda: jax.random.key(0))
    found = jax.eval_shape(lambda key: trained.adopted(evaluated.init(key)), key)
    wanted = jax.eval_shape(trained.init, key)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), found, wanted))
