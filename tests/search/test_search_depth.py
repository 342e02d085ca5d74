"""Simulated games that stop before their end, and what a search by a network may not know in a card game."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.nim import Nim
from jaxrl import xla
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.distributions import mask_logits
from jaxrl.networks.factory import make_network
from jaxrl.search.player import make_search
from jaxrl.search.playout import TO_THE_END, Lineup, play_on
from jaxrl.search.policies import SearchParams, bot_policy, network_guide, network_policy, types_policy
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.beasty_bar.env import BeastyBar
from jaxrl_envs.contract.env import PyTree, State
from tests.support.games import keys_of

NOTHING = SearchParams(own=None, model=None)
take_one = bot_policy(lambda state, key: jnp.int32(0))
jitted = functools.partial(jax.jit, compiler_options=xla.plain_options())


def nim_at(env: Nim, stones: jax.Array) -> State:
    """Games with these numbers of stones, i32[N]."""
    state = jax.vmap(env.init)(keys_of(0, len(stones)))
    return state.replace(stones=stones, legal_action_mask=jnp.arange(3) < stones[:, None])


@pytest.mark.parametrize(("turns", "left"), [(0, [9, 7, 1]), (1, [7, 5, 0]), (3, [3, 1, 0]), (TO_THE_END, [0, 0, 0])])
def test_a_simulated_game_stops_where_its_seat_is_asked_again(turns, left):
    """Both take one stone at a time; who takes the last one wins."""
    env = Nim(largest=21)
    state = nim_at(env, jnp.array([11, 9, 3]))
    seat = state.current_player
    lineup = Lineup(env, take_one, take_one)
    first, keys = jnp.zeros(3, jnp.int32), keys_of(1, 3)
    memories = lineup.memories(NOTHING, (), state, seat, keys)
    played = jax.jit(lambda: play_on(lineup, NOTHING, state, memories, first, seat, keys, turns=turns))()
    stones = np.where(played.state.terminated, 0, played.state.stones)
    np.testing.assert_array_equal(stones, left)
    np.testing.assert_array_equal(played.state.terminated, np.array(left) == 0)
    own = jnp.take_along_axis(played.returns, seat[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(own, np.where(np.array(left) == 0, 1.0, 0.0))
    assert (played.state.current_player == seat)[np.array(left) > 0].all()


def test_a_limited_depth_is_judged_by_the_guide():
    """No game ends within one more move: only the guide's values tell the moves apart."""
    env = Nim(largest=30)
    perfect = bot_policy(env.bots["perfect"])

    def guide(params: PyTree, memory: PyTree, state: State) -> tuple[PyTree, jax.Array, jax.Array]:
        value = jnp.where(state.stones % 4 == 0, -1.0, 1.0)
        return memory, mask_logits(jnp.zeros(3), state.legal_action_mask), value

    search = make_search(
        env, SearchSettings(simulations=24, particles=0, depth=1), own=perfect, guide=guide, model=perfect
    )
    stones = jnp.array([n for n in range(17, 31) if n % 4], jnp.int32)
    state = nim_at(env, stones)

    @jitted
    def decide(state: State, keys: jax.Array) -> jax.Array:
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(NOTHING, state, state.current_player, keys)
        return jax.vmap(search.act, in_axes=(None, 0, 0, 0))(NOTHING, memory, state, keys)[0]

    np.testing.assert_array_equal(decide(state, keys_of(1, len(stones))), stones % 4 - 1)


@pytest.mark.parametrize("objective", ["return", "wins"])
@pytest.mark.parametrize("planner", ["halving", "tree"])
def test_rewards_are_discounted_like_the_values_that_follow_them(planner, objective):
    """All take one stone at a time after the first move; the guide expects 1 wherever it is asked."""
    if planner == "tree":
        pytest.importorskip("mctx")
    env = Nim(largest=30)

    def guide(params: PyTree, memory: PyTree, state: State) -> tuple[PyTree, jax.Array, jax.Array]:
        only_one = jnp.where(jnp.arange(3) == 0, 0.0, -30.0)
        return memory, mask_logits(only_one, state.legal_action_mask), jnp.float32(1.0)

    settings = SearchSettings(
        simulations=24, particles=0, depth=planner == "halving", worlds=1, planner=planner, objective=objective
    )
    search = make_search(env, settings, own=take_one, guide=guide, model=take_one, discount=0.5)
    state = nim_at(env, jnp.array([3, 9]))

    @jitted
    def results(state: State, keys: jax.Array) -> jax.Array:
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(NOTHING, state, state.current_player, keys)
        return jax.vmap(search.plan, in_axes=(None, 0, 0, 0))(NOTHING, memory, state, keys).results

    found = results(state, keys_of(1, 2))
    np.testing.assert_allclose(found[0], [0.5, -1.0, 1.0], atol=1e-6)  # won with the next move, lost, won at once
    if planner == "halving":
        np.testing.assert_allclose(found[1], [0.25] * 3)  # valued at the third move


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"planner": "halving"}, id="halving"),
        pytest.param({"planner": "halving", "depth": 1}, id="depth"),
        pytest.param({"planner": "tree", "worlds": 2}, id="tree"),
        pytest.param({"planner": "halving", "types": True}, id="types"),
    ],
)
def test_search_by_a_network_does_not_depend_on_what_its_seat_cannot_see(settings):
    """Beasty Bar, everybody taken for the network itself, or for that or any bot: plans and beliefs are equal in worlds
    that look alike."""
    if settings["planner"] == "tree":
        pytest.importorskip("mctx")
    env, count = BeastyBar(), 8
    network = make_network(NetworkConfig(hidden=(8,)), env)
    params = SearchParams(own=network.init(jax.random.key(0)))
    settings, model = dict(settings), None
    if settings.pop("types", False):
        model = types_policy(env, list(env.bots))
    known = SearchSettings(**({"simulations": 16, "particles": 8} | settings))
    search = make_search(env, known, own=network_policy(network), guide=network_guide(network), model=model)

    @jitted
    def think(world: State, seat: jax.Array, action: jax.Array, keys: jax.Array) -> tuple[PyTree, PyTree]:
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(params, world, seat, keys)
        plan = jax.vmap(search.plan, in_axes=(None, 0, 0, 0))(params, memory, world, keys)
        after = jax.vmap(env.step)(world, action, keys)
        update = jax.vmap(search.belief.update, in_axes=(None, 0, 0, 0, 0, 0, 0))
        kept = update(params, memory, world, action, after, seat, keys)
        return plan, (kept.particles.game, kept.log_weights, kept.types)

    @jax.jit
    def dealt() -> tuple[State, jax.Array, State, jax.Array]:
        """Games after four turns; in half of them the seat is asked, in the others it listens to a visible action."""
        state = jax.vmap(env.init)(keys_of(1, count))
        for turn in range(4):
            action = jax.vmap(env.random_action)(state, keys_of(2 + turn, count))
            state = jax.vmap(env.step)(state, action, keys_of(2 + turn, count))
        seat = jnp.where(jnp.arange(count) % 2 == 0, state.current_player, 1 - state.current_player)
        other = jax.vmap(env.permute_hidden)(state, seat, keys_of(9, count))
        both = state.legal_action_mask & other.legal_action_mask  # what may be played in either world
        return state, seat, other, both

    state, seat, other, both = dealt()
    playable = np.flatnonzero(both.any(axis=1))
    state, seat, other, both = jax.tree.map(lambda leaf: leaf[playable], (state, seat, other, both))
    action, keys = jnp.argmax(both, axis=1).astype(jnp.int32), keys_of(10, len(playable))
    left, right = think(state, seat, action, keys), think(other, seat, action, keys)
    asked = np.asarray(seat == state.current_player)
    differ = np.asarray(state.game.hands != other.game.hands)
    assert differ[asked].any() and differ[~asked].any()
    for a, b in zip(jax.tree.leaves(left[0]), jax.tree.leaves(right[0]), strict=True):
        np.testing.assert_array_equal(a[asked], b[asked])
    for a, b in zip(jax.tree.leaves(left[1]), jax.tree.leaves(right[1]), strict=True):
        np.testing.assert_array_equal(a[~asked], b[~asked])  # after its own move a seat sees the card that it draws
    policy, mask = np.asarray(left[0].policy)[asked], np.asarray(state.legal_action_mask)[asked]
    assert (policy != mask / mask.sum(axis=1, keepdims=True)).any(), "nothing was searched"
    assert (np.exp(left[1][1])[~asked].std(axis=1) > 0).any(), "nothing was heard"
