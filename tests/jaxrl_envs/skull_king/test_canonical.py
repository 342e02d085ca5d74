"""Suits named by their role: what differs by the names of suits alone is one observation, and actions find back."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import config as configs
from jaxrl.networks.factory import make_network
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import observe

PERMUTATIONS = list(itertools.permutations(range(3)))


@pytest.fixture(scope="module", params=[False, True], ids=["", "history"])
def env(request):
    return jaxrl.make("skull_king", players=4, history=request.param)


@pytest.fixture(scope="module")
def played(env):
    """(u32[N, W], bool[N, 100]): observations and legal actions of 64 games of random play."""

    def step(state, key):
        first, second = jax.random.split(key)
        action = jax.random.categorical(first, jnp.where(state.legal_action_mask, 0.0, -jnp.inf))
        return env.step(state, action, second), (state.observation, state.legal_action_mask, ~state.terminated)

    def game(key):
        return jax.lax.scan(step, env.init(key), jax.random.split(key, 200))[1]

    seen, legal, alive = jax.jit(jax.vmap(game))(jax.random.split(jax.random.key(0), 64))
    alive = np.asarray(alive)
    return np.asarray(seen)[alive], np.asarray(legal)[alive]


def renamed(words: np.ndarray, to: tuple[int, ...]) -> np.ndarray:
    """The observation with suit s called to[s], number by number: a card is moved where its id says."""
    found = [int(word) for word in words]

    def card(id: int) -> int:
        return 14 * to[id // 14] + id % 14 if id < 42 else id

    for first in (*range(0, 12, 3), *range(28, len(words) - 1, 3)):
        old = sum(int(word) << 32 * i for i, word in enumerate(words[first : first + 3]))
        new = sum(
            1 << (16 * (to[slot // 16] if slot < 48 else slot // 16) + slot % 16)
            for slot in range(96)
            if old >> slot & 1
        )
        for i in range(3):
            found[first + i] = new >> 32 * i & 0xFFFFFFFF
    for word in (12, 13):
        plays = [int(words[word]) >> 8 * i & 255 for i in range(4)]
        found[word] = sum((card(play - 1) + 1 if play else 0) << 8 * i for i, play in enumerate(plays))
    shown = [int(words[20]) >> 4 * i & 15 for i in range(8)]
    found[20] = sum(
        sum(1 << (to[s] if s < 3 else s) for s in range(4) if bits >> s & 1) << 4 * i for i, bits in enumerate(shown)
    )
    follow = int(words[26]) >> 25 & 7
    found[26] += ((to[follow] if follow < 3 else follow) - follow) << 25
    return np.array(found, np.uint32)


def actions(to: tuple[int, ...]) -> np.ndarray:
    """i32[100]: the action that each action is, once suit s is called to[s]."""
    plays = [11 + 14 * to[id // 14] + id % 14 if id < 42 else 11 + id for id in range(74)]
    return np.array([*range(11), *plays, *range(85, 100)])


@pytest.mark.thorough
def test_suits_that_only_differ_by_name_are_one_observation(env, played):
    """But for the order of two suits of which the seat has nothing and sees equally many."""
    canonical = jax.jit(jax.vmap(lambda words: observe.canonical(words, env.setup)[0]))
    seen = played[0][:: len(played[0]) // 2000]
    wanted = np.asarray(canonical(seen))
    equal = [
        (np.asarray(canonical(np.stack([renamed(words, to) for words in seen]))) == wanted).all(axis=1)
        for to in PERMUTATIONS[1:]
    ]
    held = np.stack([seen[:, 0] & 0xFFFF, seen[:, 0] >> 16, seen[:, 1] & 0xFFFF], axis=1) > 0
    assert np.all(np.stack(equal)[:, held.sum(axis=1) >= 2]) and np.mean(equal) > 0.8


def test_the_form_is_one_of_the_six_and_says_which(env, played):
    canonical = jax.jit(jax.vmap(lambda words: observe.canonical(words, env.setup)))
    seen = played[0][:: len(played[0]) // 2000]
    found, place = map(np.asarray, canonical(seen))
    for words, form, to in zip(seen, found, place.tolist(), strict=True):
        assert tuple(to) in PERMUTATIONS
        np.testing.assert_array_equal(renamed(words, tuple(to)), form)


def test_the_suit_to_follow_comes_first_and_then_the_longest(env, played):
    canonical = jax.jit(jax.vmap(lambda words: observe.unpack(observe.canonical(words, env.setup)[0], env.setup)))
    found = canonical(played[0])
    assert set(np.unique(found.follow)) == {0, 3, 4, 5}
    lengths = np.asarray(
        jax.lax.population_count(
            jnp.stack([found.hand[:, 0] & 0xFFFF, found.hand[:, 0] >> 16, found.hand[:, 1] & 0xFFFF])
        )
    )
    free = np.asarray(found.follow) > 2
    assert (lengths[0] >= lengths[1])[free].all() and (lengths[1] >= lengths[2]).all()


def test_actions_find_back(env, played):
    """A number for each action, in the names of the form, is read in the game's names."""
    numbers = jnp.arange(100, dtype=jnp.float32)
    for to in PERMUTATIONS:
        found = observe.from_canonical(numbers, jnp.array(to))
        np.testing.assert_array_equal(found, actions(to))


def test_a_network_plays_alike_in_games_that_differ_by_names(env, played):
    config = configs.load("skull_king_cpu")
    network = make_network(config.network, env)
    params = network.init(jax.random.key(1))
    params = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(2), leaf.shape), params)
    evaluate = jax.jit(lambda words, mask: network.evaluate(params, (), words, mask))
    seen, legal = played
    for words, mask in list(zip(seen, legal, strict=True))[100:1300:100]:
        if np.count_nonzero([words[0] & 0xFFFF, words[0] >> 16, words[1] & 0xFFFF]) < 2:
            continue
        _, logits, value = evaluate(words, mask)
        for to in PERMUTATIONS[1:]:
            other = np.zeros(100, bool)
            other[actions(to)] = mask
            _, again, same = evaluate(renamed(words, to), other)
            np.testing.assert_allclose(again[actions(to)], logits, atol=1e-5)
            np.testing.assert_allclose(same, value, atol=1e-5)


def test_games_without_a_canonical_form_say_so():
    config = configs.load("beasty_bar", ["network.canonical=true"])
    with pytest.raises(UserError, match=r"^network.canonical is true, but beasty_bar has no canonical form: set it to"):
        config.network.check_game(config, jaxrl.make("beasty_bar"))
