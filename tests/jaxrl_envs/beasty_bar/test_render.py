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


def test_what_a_seat_cannot_see_is_not_drawn(game) -> None:
    env, steps = game
    permute = jax.jit(env.permute_hidden)
    changed = 0
    for number, (state, _, _) in enumerate(steps):
        seat = number % 2
        other = permute(state, jnp.int32(seat), jax.random.key(number))
        assert env.render(state, seat=seat) == env.render(other, seat=seat)
        assert env.render_svg(state, seat=seat) == env.render_svg(other, seat=seat)
        changed += env.render(state) != env.render(other)
    assert changed > 12  # the exchange is seen by an observer of everything


def test_the_text_shows_the_zones(game) -> None:
    env, steps = game
    for before, _, _ in steps[3::5]:
        text, table = env.render(before, seat=0), look(before)
        lines = text.splitlines()
        places = [line.split() for line in lines if re.match(r"  \d ", line)]
        expected = [
            [str(place), c.card_name(code), f"({code % 12 + 1})", *("you" if code < 12 else "seat 1").split()]
            for place, code in enumerate(table.queue, 1)
        ]
        assert places == expected
        hand = next(line for line in lines if line.startswith("your hand: "))
        assert re.findall(r"\w+(?= \()", hand) == [c.NAMES[s - 1] for s in table.seats[0].hand or ()]
        theirs = next(line for line in lines if line.startswith("seat 1 has "))
        assert f"{table.seats[1].hand_size} card" in theirs and f"{table.seats[1].deck_size} in the deck" in theirs
        unseen = sorted((table.seats[1].hand or ()) + (table.seats[1].deck or ()))
        assert re.findall(r"\w+(?= \()", theirs) == [c.NAMES[s - 1] for s in unseen]


def test_drawings_are_svg_documents(game) -> None:
    env, steps = game
    for before, _, after in [*steps[::4], steps[-1]]:
        for seat in (None, 0, 1):
            for state in (before, after):
                root = ElementTree.fromstring(env.render_svg(state, seat=seat))
                assert root.tag == "{http://www.w3.org/2000/svg}svg"
                names = {element.tag.rpartition("}")[2] for element in root.iter()}
                assert not {"script", "image", "foreignObject"} & names


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


def test_an_illegal_action(turn) -> None:
    env, step = turn
    state = crafted(env, "", c.LION)
    after = step(state, jnp.int32(0), jax.random.key(0))
    assert env.event(state, 0, after, 0) == "You choose an illegal action: the game is over."
    assert env.event(state, 0, after, 1) == "Seat 0 chooses an illegal action: the game is over."


def test_every_action_has_its_own_name() -> None:
    env = BeastyBar()
    names = [env.action_name(action) for action in range(env.num_actions)]
    assert len(set(names)) == 31
    assert names[:9] == ["skunk", "monkey", "seal", "zebra", "giraffe", "snake", "crocodile", "hippo", "lion"]
