"""No message to a seat of a table depends on what the seat must not see."""

from __future__ import annotations

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.matches.interactive import Programs
from jaxrl.players.player import bot_player
from jaxrl.serve.tables.game import Agent, GameRecord, TableGame, position
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import prng
from tests.support.serving import HIGH_CARD, KUHN

GAMES = [(HIGH_CARD, {}), (KUHN, {}), ("skull_king", {"players": 3}), ("beasty_bar", {})]
MOMENTS = 4  # of each game and seat, in which hidden things are exchanged


@functools.cache
def programs_of(game: str, options: str):
    env = registry.make(game, **json.loads(options))
    return env, Programs(env)


@functools.cache
def agent_of(env) -> Agent:
    """Made once: it is compiled for each that is made."""
    return Agent("random", bot_player(env, "random"))


@functools.lru_cache(64)
def played(game: str, options: str, seed: int):
    """A random game at a table, and its states."""
    env, programs = programs_of(game, options)
    words = np.random.default_rng(seed).integers(0, 2**32, 4).tolist()
    agents = [agent_of(env)] * env.num_players
    table = TableGame(env, programs, GameRecord("", {}, words[:2], words[2:], []), agents, {})
    table.open()
    states = [table.state]
    while not table.over:
        decision, after = table.decide()
        table.play(decision, after)
        states.append(table.state)
    return table, states


def exchanged(env, programs, state, seat: int, seed: int):
    """The state with what the seat cannot see exchanged."""
    permute = programs(env.permute_hidden)
    return permute(state, np.int32(seat), prng.fast_key(seed))


@pytest.mark.thorough
@pytest.mark.parametrize("game, options", GAMES, ids=[game for game, _ in GAMES])
@pytest.mark.parametrize("games", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_views_are_the_same_whatever_is_hidden(game, options, games):
    """Drawings of both forms, text, legal actions with notes, click areas, figures: all that `position` shows, the only
    source of positions."""
    env, programs = programs_of(game, json.dumps(options))
    changed = 0
    for seed in range(games):
        _, states = played(game, json.dumps(options), seed)
        moments = np.random.default_rng(seed).choice(len(states) - 1, MOMENTS)
        for number, moment in enumerate(moments):
            state, seat = states[moment], (seed + number) % env.num_players
            other = exchanged(env, programs, state, seat, seed * MOMENTS + number)
            for form in {env, env.upright}:
                assert position(form, state, seat) == position(form, other, seat), (seed, moment, seat)
            changed += not same(state, other)
    assert changed > games, "something was exchanged"


def same(state, other) -> bool:
    """Whether two states are equal in all that is in them."""
    plain = [[_plain(leaf) for leaf in jax.tree.leaves(each)] for each in (state, other)]
    return all(map(np.array_equal, *plain))


def _plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@pytest.mark.parametrize("game, options", GAMES, ids=[game for game, _ in GAMES])
def test_stories_are_the_same_whatever_is_hidden(game, options):
    """A step of the same action in two worlds that look the same to a seat, before and after, is told alike."""
    env, programs = programs_of(game, json.dumps(options))
    observe, step, alike = programs(env.observe), programs(env.step), 0
    for seed in range(12):
        table, states = played(game, json.dumps(options), seed)
        rng = np.random.default_rng(seed)
        for moment in rng.choice(len(states) - 1, MOMENTS):
            before, action, seat = states[moment], table.record.actions[moment], int(rng.integers(env.num_players))
            other = exchanged(env, programs, before, seat, seed)
            if not bool(np.asarray(other.legal_action_mask)[action]):
                continue
            key = prng.fast_key(seed)
            after = [step(each, np.int32(action), key) for each in (before, other)]
            seen = [[np.asarray(leaf) for leaf in jax.tree.leaves(observe(each, np.int32(seat)))] for each in after]
            public = [[np.asarray(each.current_player), np.asarray(each.rewards)] for each in after]
            if not all(np.array_equal(a, b) for a, b in zip(seen[0] + public[0], seen[1] + public[1], strict=True)):
                continue
            told = [env.event(*pair, seat) for pair in ((before, action, after[0]), (other, action, after[1]))]
            assert told[0] == told[1], (seed, moment, seat)
            alike += 1
    assert alike > 5
