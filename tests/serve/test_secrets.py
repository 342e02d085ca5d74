"""No message to a seat of a table depends on what the seat must not see."""

from __future__ import annotations

import dataclasses
import functools
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")
pytest.importorskip("websockets", reason="the extra web is not installed")

from jaxrl.matches.interactive import Programs
from jaxrl.players.player import bot_player
from jaxrl.serve.tables.game import Agent, GameRecord, TableGame
from jaxrl.serve.tables.record import TableRecord
from jaxrl.serve.tables.views import position
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import prng
from tests.support.serving import HIGH_CARD, KUHN, serving

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


@pytest.mark.parametrize("game, options", GAMES, ids=[game for game, _ in GAMES])
@pytest.mark.parametrize("games", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_views_are_the_same_whatever_is_hidden(game, options, games):
    """Drawing or text, legal actions, click areas, figures: what `jaxrl.serve.tables.views` makes, the only source of
    positions."""
    env, programs = programs_of(game, json.dumps(options))
    changed = 0
    for seed in range(games):
        _, states = played(game, json.dumps(options), seed)
        moments = np.random.default_rng(seed).choice(len(states) - 1, MOMENTS)
        for number, moment in enumerate(moments):
            state, seat = states[moment], (seed + number) % env.num_players
            other = exchanged(env, programs, state, seat, seed * MOMENTS + number)
            assert position(env, state, seat) == position(env, other, seat), (seed, moment, seat)
            changed += any(
                not np.array_equal(_plain(a), _plain(b))
                for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True)
            )
    assert changed > games, "something was exchanged"


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


def test_whole_messages_are_the_same_whatever_is_hidden(tmp_path):
    """A person has the same cards at two tables, the other seats have not: until a card is played that differs,
    all messages to the person are the same, byte by byte, but for the name of the table."""
    env, programs = programs_of(HIGH_CARD, "{}")
    first, second = _twins(env, programs)
    for id, words in (("a" * 12, first), ("b" * 12, second)):
        game = GameRecord(HIGH_CARD, {}, words, [5, 6], [])
        kept = TableRecord(id, game, ["person"] + ["bot:lowest"] * 2, ["p", "x", "y"],
                    ["key", "", ""], ["", "", ""], time.time(), 0.0)  # fmt: skip
        (tmp_path / f"{id}.table").write_text(json.dumps(dataclasses.asdict(kept)))
    with serving(tmp_path) as client:
        sent = []
        for id in ("a" * 12, "b" * 12):
            with client.sit(id, "key") as person:
                view = person.until(lambda m: m["kind"] == "view" and bool(m.get("legal")))
                person.send(do="hint", by="policy")
                person.until(lambda m: m["kind"] == "hint")
            sent.append([view, person.messages[-1]])
        for one, other in zip(*sent, strict=True):
            one.pop("table", None), other.pop("table", None)
            assert json.dumps(one) == json.dumps(other)


def _twins(env, programs):
    """Words of two deals: seat 0 begins with the same cards, the other hands differ."""
    known: dict[tuple, tuple] = {}
    deal = programs(env.init_deal)
    for number in range(20_000):
        words = [number, 7]
        state = deal(jax.random.wrap_key_data(jnp.array(words, jnp.uint32), impl=prng.implementation()))
        if int(state.current_player) != 0:
            continue
        owner = np.asarray(state.owner)
        hand, rest = tuple(np.flatnonzero(owner == 0).tolist()), tuple(owner.tolist())
        if hand in known and known[hand][1] != rest:
            return known[hand][0], words
        known[hand] = words, rest
    raise AssertionError("no two deals alike")
