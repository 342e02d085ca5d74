"""Drawings of Skull King and the words on a step tell people what they could see, and nothing else."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from jaxrl_envs.contract.registry import make
from jaxrl_envs.shared import prng
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display import emblems
from jaxrl_envs.skull_king.display.position import field, full_trick, look, reason
from jaxrl_envs.skull_king.trick import Trick

SEATS = 3
ROUND = re.compile(r"Points of round (\d+): (.*)\.$")


@pytest.fixture(scope="module")
def game():
    """The environment and the steps (before, action, after) of one random game."""
    env = make("skull_king", players=SEATS)
    step, choose = jax.jit(env.step), jax.jit(env.random_action)
    state, steps = jax.jit(env.init)(prng.fast_key(1)), []
    while not bool(state.terminated):
        key = jax.random.fold_in(prng.fast_key(2), len(steps))
        action = int(choose(state, key))
        after = step(state, jnp.int32(action), key)
        steps.append((jax.device_get(state), action, jax.device_get(after)))
        state = after
    return env, steps


def crafted(state, *plays, leader=0, phase=rules.PLAY):
    """`state` with these plays in the trick, the next seat to act."""
    trick = Trick.empty()
    for turn, play in enumerate(plays):
        trick = trick.add(jnp.int32((leader + turn) % SEATS), jnp.int32(play))
    actor = jnp.int32((leader + len(plays)) % SEATS)
    position = state.game.replace(
        phase=jnp.int32(phase),
        actor=actor,
        number=jnp.int32(5),
        round=state.game.round.replace(trick=trick, leader=jnp.int32(leader)),
    )
    return state.replace(game=position, current_player=actor)


@pytest.mark.thorough
def test_every_trick_and_every_round_is_told(game):
    env, steps = game
    tricks, rounds, totals = 0, 0, [0] * SEATS
    for before, action, after in steps:
        text = env.event(before, action, after, 0)
        settled = "the trick" in text.lower()
        tricks += settled
        if int(before.game.phase) == rules.PLAY:
            assert c.card_name(action - rules.FIRST_PLAY if action < 85 else c.TIGRESS_PIRATE) in text
            complete = int(before.game.round.trick.size) == SEATS - 1
            assert settled == complete
            if complete and int(after.game.number) == int(before.game.number):
                won = [field(after.game.round.won, s) - field(before.game.round.won, s) for s in range(SEATS)]
                found = re.search(r"(?:^|\. )(You|Seat \d)[^.]* wins? the trick", text)
                names = ["You", "Seat 1", "Seat 2"]
                assert (found.group(1) if found else None) == (names[won.index(1)] if any(won) else None), text
        if found := ROUND.search(text):
            rounds += 1
            assert int(found.group(1)) == rounds
            totals = [a + int(b) for a, b in zip(totals, re.findall(r"\((\S+)\)", found.group(2)), strict=True)]
    assert tricks == 55 and rounds == 10 and totals == steps[-1][2].game.scores.tolist()


def test_bids_are_told_when_all_are_made(game):
    env, steps = game
    for before, action, after in steps:
        if int(before.game.phase) != rules.BID:
            continue
        actor = int(before.game.actor)
        for seat in range(SEATS):
            told = env.event(before, action, after, seat)
            last = int(after.game.phase) == rules.PLAY
            mine = f"You bid {action}." if seat == actor else f"Seat {actor} has bid."
            bids = [f"{'you' if s == seat else f'seat {s}'} ({field(after.game.round.bids, s)})" for s in range(SEATS)]
            assert told == mine + (f" All bids: {', '.join(bids)}." if last else "")


def test_the_full_trick_is_drawn_before_it_is_taken_with_its_winner(game):
    env, steps = game
    for before, action, after in steps[:60]:
        drawn = env.settled_svg(before, action, after, 0)
        complete = int(before.game.phase) == rules.PLAY and int(before.game.round.trick.size) == SEATS - 1
        assert bool(drawn) == complete
        if complete:
            table = full_trick(env, before, action, 0)
            assert len(table.plays) == SEATS and [seat.hand is None for seat in table.seats] == [False, True, True]
            assert table.plays[-1] == (int(before.game.actor), table.seats[int(before.game.actor)].play)
            assert ("no seat wins this trick" if table.winner is None else "the trick") in drawn
            assert drawn.count('height="104"') == (table.winner is not None), "the winner's card glows"


def test_the_scores_of_each_round(game):
    env, steps = game
    found = [scores for step in steps if (scores := env.part_scores(*step))]
    assert [each.part for each in found] == [f"round {n}" for n in range(1, 11)]
    assert [sum(each.points[s] for each in found) for s in range(SEATS)] == steps[-1][2].game.scores.tolist()
    said = [[tuple(map(int, re.findall(r"\d+", note))) for note in each.notes] for each in found]
    exact = [sum(each[s][0] == each[s][1] for each in said) for s in range(SEATS)]
    assert exact == [field(steps[-1][2].game.exact, s) for s in range(SEATS)]
    assert sum(won for each in said for _, won in each) > 40, "a trick may be void"


def test_harry_changes_the_bid_of_the_score_sheet(game):
    env, steps = game
    before, action, after = next(step for step in steps if env.part_scores(*step))
    asked = before.replace(game=before.game.replace(phase=jnp.int32(rules.HARRY), actor=jnp.int32(1)))
    plain, more = (env.part_scores(asked, rules.FIRST_HARRY + change, after) for change in (1, 2))
    bids = [[int(re.findall(r"\d+", note)[0]) for note in each.notes] for each in (plain, more)]
    assert bids[1] == [bids[0][0], bids[0][1] + 1, bids[0][2]]


def test_the_card_that_completes_a_trick_and_its_winner(game):
    env, steps = game
    state = crafted(steps[0][0], c.KING, c.HARRY, leader=2)  # seat 2, seat 0; seat 1 completes the trick
    mermaid = rules.FIRST_PLAY + 68
    assert (
        env.event(state, mermaid, state, 0)
        == "Seat 1 plays Mermaid A and wins the trick (+40): Mermaid A beats Skull King."
    )
    assert (
        env.event(state, mermaid, state, 1) == "You play Mermaid A and win the trick (+40): Mermaid A beats Skull King."
    )
    assert (
        env.event(state, rules.FIRST_PLAY, state, 2)
        == "Seat 1 plays Parrot 1. You win the trick (+30): Skull King beats Harry."
    )
    assert (
        env.event(state, rules.FIRST_PLAY + c.KRAKEN, state)
        == "Seat 1 plays Kraken. The trick is void, the Kraken destroys it; seat 2 leads next."
    )
    loot = crafted(steps[0][0], 3, 4, leader=0)
    told = env.event(loot, rules.FIRST_PLAY + c.LOOTS[0], loot, 1)
    assert told == "Seat 2 plays Loot A. You win the trick: Parrot 5 beats Parrot 4. Seat 2 and you are allied by Loot."
    first = crafted(steps[0][0])
    assert env.event(first, rules.FIRST_PLAY + c.TIGRESS, first) == "Seat 0 plays Tigress (escape)."


def test_decisions_of_pirates_and_secret_discards(game):
    env, steps = game

    def told(phase, action, seat):
        state = crafted(steps[0][0], phase=phase)
        return env.event(state, action, state, seat)

    discard = rules.FIRST_PLAY + 13
    assert told(rules.BENDT, discard, 0) == "You discard Parrot 14."
    assert told(rules.BENDT, discard, None) == "Seat 0 discards Parrot 14."
    assert told(rules.BENDT, discard, 1) == told(rules.BENDT, discard + 5, 1) == "Seat 0 discards a card face down."
    assert told(rules.ROSIE, rules.FIRST_ROSIE + 1, 1) == "Seat 0 names you to lead."
    assert told(rules.ROATAN, rules.FIRST_ROATAN + 2, 1) == "Seat 0 wagers 20."
    assert told(rules.HARRY, rules.FIRST_HARRY + 2, 1) == "Seat 0 changes the bid to 1."
    assert told(rules.HARRY, rules.FIRST_HARRY + 1, 0) == "You keep the bid of 0."


# ---- text and drawings ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(game):
    """The environment and positions of the game, from all phases that it has."""
    env, steps = game
    seen, states = {}, []
    for number, (before, _, _) in enumerate(steps):
        phase = int(before.game.phase)
        seen[phase] = seen.get(phase, 0) + 1
        if number % 13 == 0 or seen[phase] < 3:
            states.append(before)
    return env, [*states, steps[-1][2]]


def test_what_a_seat_cannot_see_is_not_drawn(shown):
    env, states = shown
    permute = jax.jit(env.permute_hidden)
    for number, state in enumerate(states):
        seat = number % 3
        other = permute(state, jnp.int32(seat), jax.random.key(number))
        assert env.render(state, seat=seat) == env.render(other, seat=seat)
        for drawn in (env, env.upright):
            assert drawn.render_svg(state, seat=seat) == drawn.render_svg(other, seat=seat)


@pytest.mark.thorough
def test_cards_are_large_where_the_screen_is_taller_than_wide(game):
    """The drawing is 400 units wide, a phone 390 pixels: what can be clicked does not overlap and is wide enough for a
    finger; every card of the hand and of a full trick is there."""
    env, steps = game
    env, counts = env.upright, set()
    for before, action, after in steps:
        seat = int(before.current_player)
        areas, hand = env.click_areas(before, seat), look(env, before, seat).seats[seat].hand
        counts.add(len(areas))
        assert all(area.width > 70 and 0 <= area.x <= 400 - area.width for area in areas)
        assert len({(area.x // 75, area.y // 110) for area in areas}) == len(areas)
        assert all(f'data-card="{card}"' in env.render_svg(before, seat) for card in hand)
        if drawn := env.settled_svg(before, action, after, 0):
            plays = full_trick(env, before, action, 0).plays
            assert all(drawn.count(f'data-card="{min(play, 73) if play != 74 else 66}"') == 1 for _, play in plays)
    assert max(counts) >= 8


@pytest.mark.parametrize(
    ("plays", "winner", "why"),
    [
        ([c.ROSIE, c.BENDT, 3], 0, "Rosie came before Bendt"),
        ([8, 27, 9], 2, "Parrot 10 beats Parrot 9"),
        ([8, 27, 40], 0, "Parrot 9 beats Chest 14, which did not follow"),
        ([8, 42, 12], 1, "Roger 1 beats Parrot 13"),
        ([c.WHALE, 42, 12], 2, "the White Whale: Parrot 13 is the highest number"),
        ([c.KRAKEN, c.ROSIE, c.WHALE], None, "no number for the White Whale"),
        ([c.TIGRESS_PIRATE, 12, 56], 0, "Tigress beats Parrot 13"),
        ([56, c.TIGRESS, 57], 0, "Escape came before Tigress"),
    ],
)
def test_why_a_card_wins(plays, winner, why):
    assert reason(list(enumerate(plays)), winner) == why


def test_what_a_bid_earns(game):
    env, steps = game
    before = next(step[0] for step in steps if int(step[0].game.number) == 4)
    assert [env.action_note(before, bid) for bid in range(3)] == ["±40", "+20 if exact", "+40 if exact"]
    playing = next(step[0] for step in steps if int(step[0].game.phase) == rules.PLAY)
    assert env.action_note(playing, rules.FIRST_PLAY) == "" and env.worth(0.123) == "+12 points"
    assert env.worth(0.123, standing=True) == "12 % to win"
    rosie = crafted(steps[0][0], phase=rules.ROSIE)
    assert env.action_note(rosie, rules.FIRST_ROSIE + 1) == "seat 1"


def test_other_hands_are_hidden_from_a_seat_and_shown_without_a_seat(shown):
    env, states = shown
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


def test_bids_are_secret_until_the_last_one(shown):
    env, states = shown
    bidding = [state for state in states if int(state.game.phase) == rules.BID]
    state = next(s for s in bidding if int(s.current_player) != int(s.game.round.leader))
    first = int(state.game.round.leader)
    mine, theirs = look(env, state, first).seats[first], look(env, state, (first + 1) % 3).seats[first]
    assert mine.bid is not None and theirs.bid is None and theirs.bid_made


def test_every_play_has_a_look_and_the_end_names_the_winner(shown):
    env, states = shown
    assert all(emblems.style_of(play).picture for play in range(c.NUM_PLAYS))
    last = states[-1] if bool(states[-1].terminated) else None
    assert last is not None and "the game is over" in env.render(last)
    best = int(last.game.scores.max())
    assert f"with {best} points" in env.render_svg(last)
