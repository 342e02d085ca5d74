"""What people see and are told of Beasty Bar: everything, or to a seat only what it may know."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display.emblems import EMBLEMS
from jaxrl_envs.beasty_bar.display.position import BAR, OUT, look, settled, species
from jaxrl_envs.beasty_bar.env import BeastyBar
from jaxrl_envs.shared import prng


@pytest.fixture(scope="module")
def game():
    """The environment and the steps (before, action, after) of one random game."""
    env = BeastyBar()

    def turn(state, key):
        action = env.random_action(state, key)
        after = env.step(state, action, key)
        return after, (state, action, after)

    def play(key):
        return jax.lax.scan(turn, env.init(key), jax.random.split(key, 24))[1]

    before, actions, after = jax.device_get(jax.jit(play)(prng.fast_key(5)))
    last = int(np.flatnonzero(after.terminated)[0])

    def at(states, i):
        return jax.tree.map(lambda leaf: leaf[i], states)

    return env, [(at(before, i), int(actions[i]), at(after, i)) for i in range(last + 1)]


def test_every_card_on_the_table_is_drawn_and_hidden_ones_are_not(game) -> None:
    env, steps = game
    for before, _, _ in steps[::6]:
        table, drawing = look(before, 0), env.render_svg(before, seat=0)
        zones = [strengths for seat in table.seats for strengths in (seat.bar, seat.out)]
        shown = [
            s for zone in [*zones, table.seats[0].hand, table.seats[0].deck, table.seats[1].unseen] for s in zone or ()
        ]
        shown += [code % c.SPECIES + 1 for code in table.queue]
        for strength in range(1, c.SPECIES + 1):
            assert drawing.count(EMBLEMS[strength - 1]) == shown.count(strength) == 2


def test_cards_are_large_where_the_screen_is_taller_than_wide(game) -> None:
    """The drawing is 400 units wide, a phone 390 pixels; it shows both rooms, the queue and the own hand."""
    env, steps = game
    for before, _, _ in steps:
        seat, drawn = int(before.current_player), env.upright.render_svg(before, int(before.current_player))
        table = look(before, seat)
        codes = [c.SPECIES * s + n - 1 for s in range(2) for n in (*table.seats[s].bar, *table.seats[s].out)]
        codes += [*table.queue, *(c.SPECIES * seat + n - 1 for n in table.seats[seat].hand or ())]
        assert sorted(map(int, re.findall(r'data-card="(\d+)"', drawn))) == sorted(codes)
        areas = env.upright.click_areas(before, seat)
        assert all(area.width > 90 and 0 <= area.x <= 400 - area.width for area in areas)
        assert sorted(a for area in areas for a in area.actions) == np.flatnonzero(before.legal_action_mask).tolist()
    assert env.worth(0.2) == "60 % to win"


def test_what_a_turn_removes_is_drawn_before_it_goes(game) -> None:
    env, steps = game
    drawn = []
    for before, action, after in steps:
        old, new, actor = before.game.table, after.game.table, int(before.current_player)
        gone = {BAR: int(new.bar) & ~int(old.bar), OUT: int(new.out) & ~int(old.out)}
        tables = [settled(before, action, after, seat) for seat in (0, 1, None)]
        assert [bool(env.settled_svg(before, action, after, seat)) for seat in (0, 1)] == [any(gone.values())] * 2
        for seat, table in enumerate(tables):
            if table is None:
                continue
            marked = {
                where: sum(1 << code for code, mark in zip(table.queue, table.leaving, strict=True) if mark == where)
                for where in (BAR, OUT)
            }
            assert marked == gone
            assert table.seats[actor].hand_size == look(before).seats[actor].hand_size - 1
            known = [each.hand is not None for each in table.seats]
            assert known == ([True, True] if seat == 2 else [seat == 0, seat == 1])
        if tables[0] is not None:
            drawn.append(drawing := env.settled_svg(before, action, after, 0))
            assert ElementTree.fromstring(drawing).tag.endswith("svg")
            assert all((where in drawing) == bool(cards) for where, cards in gone.items())
            assert ("You play the" if actor == 0 else "Seat 1 plays the") in drawing
    assert len(drawn) > 5


def test_the_end_names_the_winner(game) -> None:
    env, steps = game
    before, action, last = steps[-1]
    table = look(last)
    points = [seat.points for seat in table.seats]
    high, low = max(points), min(points)
    assert high > low and points == env.episode_stats(last)["points"].tolist()
    best = points.index(high)
    for seat, who in ((best, "you win"), (1 - best, f"seat {best} wins")):
        assert f"{who} {high} to {low}" in env.render(last, seat=seat)
        assert env.event(before, action, last, seat).endswith(f"The game is over: {who} {high} to {low}.")
    assert f"Seat {best} wins with {high} to {low} points" in env.render_svg(last)


def test_events_tell_every_move_of_a_card_and_keep_the_draw_secret(game) -> None:
    env, steps = game
    entered = thrown = 0
    for before, action, after in steps:
        actor = int(before.current_player)
        old, new = before.game, after.game
        told = [env.event(before, action, after, seat) for seat in (0, 1, None)]
        assert told[actor].startswith("You play the ") and told[1 - actor].startswith(f"Seat {actor} plays the ")
        for zone, words in (("bar", "enter the bar"), ("out", "thrown out")):
            arrived = int(getattr(new.table, zone)) & ~int(getattr(old.table, zone))
            names = [f"seat {seat}'s {c.NAMES[s - 1]}" for seat in (0, 1) for s in species(arrived, seat)]
            sentence = next((part for part in told[2].split(". ") if words in part), "")
            assert [name.lower() in sentence.lower() for name in names] == [True] * len(names)
            assert bool(names) == bool(sentence)
            entered, thrown = entered + len(names) * (zone == "bar"), thrown + len(names) * (zone == "out")
        drawn = species(int(new.hands) & ~int(old.hands), actor)
        for seat in (0, 1, None):
            draws = re.search(r"(You draw|Seat \d draws) the (\w+)", told[2 if seat is None else seat])
            known = bool(drawn) and seat in (actor, None)
            assert (draws.group(2) if draws else None) == (c.NAMES[drawn[0] - 1] if known else None)
    assert entered + thrown >= 20


def crafted(env, queue: str, hand: int):
    """A state with this queue ("a:lion b:skunk") in which seat 0 holds only the species `hand`."""
    state = env.init_from_decks(jnp.tile(jnp.arange(12, 0, -1), (2, 1)), jnp.int32(0))
    tokens = [1 + 12 * "ab".index(card[0]) + c.NAMES.index(card[2:]) for card in queue.split()]
    word = jnp.uint32(sum(token << 5 * place for place, token in enumerate(tokens)))
    table = state.game.table.replace(queue=word)
    return env._wrap(state, state.game.replace(table=table, hands=jnp.uint32(1 << hand - 1)))


@pytest.mark.parametrize(
    ("queue", "hand", "action", "told"),
    [
        ("", c.PARROT, 11, "You play the parrot."),
        ("b:lion a:seal", c.PARROT, 11, "You play the parrot against seat 1's lion. Seat 1's lion is thrown out."),
        ("", c.KANGAROO, 9, "You play the kangaroo into the empty queue."),
        ("b:lion a:seal", c.KANGAROO, 10, "You play the kangaroo, hopping over 2 cards."),
        ("b:chameleon", c.CHAMELEON, 15, "You play the chameleon."),
        ("b:lion a:seal", c.CHAMELEON, 15, "You play the chameleon as seat 1's lion. Your chameleon is thrown out."),
        (
            "a:parrot b:kangaroo b:snake",
            c.CHAMELEON,
            16,
            "You play the chameleon as your parrot against seat 1's kangaroo. Seat 1's kangaroo is thrown out.",
        ),
        (
            "b:hippo a:giraffe b:skunk b:parrot",
            c.SEAL,
            2,
            "You play the seal. Seat 1's skunk is thrown out. Your seal and seat 1's hippo enter the bar.",
        ),
    ],
)
def test_a_turn_in_words(queue: str, hand: int, action: int, told: str, turn) -> None:
    env, step = turn
    state = crafted(env, queue, hand)
    assert bool(state.legal_action_mask[action])
    found = env.event(state, action, step(state, jnp.int32(action), jax.random.key(0)), 0)
    assert found == f"{told} You draw the giraffe."


@pytest.fixture(scope="module")
def turn():
    """The environment and its compiled step."""
    env = BeastyBar()
    return env, jax.jit(env.step)
