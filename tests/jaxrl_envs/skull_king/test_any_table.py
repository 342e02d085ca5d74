"""The network for any table reads what one for this table does, in other places, and the rules."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.games import make_games
from jaxrl.networks.factory import make_network
from jaxrl.policies.export import load_policy
from jaxrl_envs.shared.errors import UserError
from scripts.zoo.widened import rows, widened

ANY = jaxrl.make("skull_king", network="any")  # it reads observations of every table


def positions(env):
    """(u32[N, W], bool[N, 100]): observations and legal actions of 32 games of random play."""

    def step(state, keys):
        after = env.step(state, env.random_action(state, keys[0]), keys[1])
        return after, (state.observation, state.legal_action_mask)

    def game(key):
        keys = jax.random.split(key, (120, 2))
        return jax.lax.scan(step, env.init(key), keys)[1]

    found = jax.jit(jax.vmap(game))(jax.random.split(jax.random.key(0), 32))
    return [np.asarray(each).reshape(-1, each.shape[-1]) for each in found]


@pytest.mark.parametrize("players, expansion, abilities", [(2, True, False), (8, False, True)])
def test_another_table_is_read_in_the_same_numbers(players, expansion, abilities):
    env = jaxrl.make("skull_king", players=players, expansion=expansion, abilities=abilities, episode="round")
    seen = positions(env)[0]
    own, read = (np.asarray(jax.jit(jax.vmap(each.features))(seen)) for each in (env, ANY))
    np.testing.assert_array_equal(read[:, rows(players)], own)
    others = np.delete(read, rows(players), axis=1)
    assert read.shape[1] == 354 + 41 * 8 + 9 and not others[:, :-9].any()
    np.testing.assert_array_equal(others[:, -9:], [[*(np.arange(2, 9) == players), expansion, abilities]] * len(seen))


def test_at_a_table_of_four_it_begins_as_the_policy_for_it():
    policy = load_policy(zoo.policy_file("skull_king"))
    network = make_network(policy.config.network, ANY)
    seen, legal = positions(policy.env)
    one, other = (
        jax.jit(jax.vmap(each.evaluate, (None, None, 0, 0)))(params, (), seen, legal)
        for each, params in (
            (network, widened(policy.params, ANY.num_features)),
            (make_network(policy.config.network, policy.env), policy.params),
        )
    )
    np.testing.assert_array_equal(np.argmax(one[1], axis=1), np.argmax(other[1], axis=1))
    np.testing.assert_allclose(one[2], other[2], atol=1e-5)


def test_it_is_evaluated_at_any_table_and_others_at_theirs():
    any_table = {"id": "skull_king", "options": {"network": "any"}}
    other = {"options": {"players": 6, "expansion": False}}
    games = make_games(configs.from_dict({"env": any_table, "evaluate": other}))
    assert games.evaluation.num_players == 6 and games.training.num_features == games.evaluation.num_features
    with pytest.raises(UserError, match="evaluate.options change the seats"):
        make_games(configs.from_dict({"env": {"id": "skull_king"}, "evaluate": {"options": {"players": 6}}}))
    for wrong in ({"network": "all"}, {"network": "any", "history": True}):
        with pytest.raises(UserError, match="any"):
            jaxrl.make("skull_king", **wrong)
