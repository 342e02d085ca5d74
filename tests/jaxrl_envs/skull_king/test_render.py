"""The renderings show the table, all of it without an observer, and to a seat only what it may see."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import pytest

from jaxrl_envs.contract.registry import make
from jaxrl_envs.shared import prng
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display import emblems
from jaxrl_envs.skull_king.display.position import look


@pytest.fixture(scope="module")
def game():
    """The environment and positions of one game, from all phases."""
    env = make("skull_king", players=3)
    step, choose = jax.jit(env.step), jax.jit(env.random_action)
    state, states, seen = jax.jit(env.init)(prng.fast_key(1)), [], {}
    for t in range(300):
        phase = int(state.game.phase)
        seen[phase] = seen.get(phase, 0) + 1
        if t % 13 == 0 or seen[phase] < 3:
            states.append(state)
        if bool(state.terminated):
            break
        key = jax.random.fold_in(prng.fast_key(2), t)
        state = step(state, choose(state, key), key)
    assert set(seen) >= {rules.BID, rules.PLAY, rules.END} and bool(state.terminated)
    return env, states


def test_what_a_seat_cannot_see_is_not_drawn(game):
    env, states = game
    permute = jax.jit(env.permute_hidden)
    for number, state in enumerate(states):
        seat = number % 3
        other = permute(state, jnp.int32(seat), jax.random.key(number))
        assert env.render(state, seat=seat) == env.render(other, seat=seat)
        assert env.render_svg(state, seat=seat) == env.render_svg(other, seat=seat)


def test_other_hands_are_hidden_from_a_seat_and_shown_without_a_seat(game):
    env, states = game
    playing = [state for state in states if int(state.game.phase) == rules.PLAY]
    for state in playing[:4]:
        text, everything = env.render(state, seat=0), env.render(state)
        drawn = [env.render_svg(state, seat) for seat in (None, 0)]
        own, *others = [seat.hand for seat in look(env, state).seats]
        assert all(c.card_name(card) in text for card in own)
        for card in (card for hand in others for card in hand if card < 56):
            name = re.compile(rf"\b{c.card_name(card)}\b")
            assert name.search(everything) and [f'data-card="{card}"' in each for each in drawn] == [True, False]
            in_sight = [*own, *(play for _, play in look(env, state, 0).plays), *look(env, state, 0).out]
            assert not name.search(text) or card in in_sight


def test_bids_are_secret_until_the_last_one(game):
    env, states = game
    state = next(
        s for s in states if int(s.game.phase) == rules.BID and int(s.current_player) != int(s.game.round.leader)
    )
    first = int(state.game.round.leader)
    mine, theirs = look(env, state, first).seats[first], look(env, state, (first + 1) % 3).seats[first]
    assert mine.bid is not None and theirs.bid is None and theirs.bid_made


def test_drawings_are_svg_documents(game):
    env, states = game
    for state in states[::3]:
        for seat in (None, 1):
            root = ElementTree.fromstring(env.render_svg(state, seat=seat))
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert not {"script", "image", "foreignObject"} & {
                element.tag.rpartition("}")[2] for element in root.iter()
            }


def test_every_play_has_a_look_and_the_end_names_the_winner(game):
    env, states = game
    assert all(emblems.style_of(play).picture for play in range(c.NUM_PLAYS))
    last = states[-1] if bool(states[-1].terminated) else None
    assert last is not None and "the game is over" in env.render(last)
    best = int(last.game.scores.max())
    assert f"with {best} points" in env.render_svg(last)
