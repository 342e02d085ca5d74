"""What people are told of a step: who played and won what, and nothing that they could not see."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from jaxrl_envs.contract.registry import make
from jaxrl_envs.shared import prng
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display.position import field, full_trick
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
    assert env.event(state, mermaid, state, 0) == "Seat 1 plays Mermaid A and wins the trick (+40)."
    assert env.event(state, mermaid, state, 1) == "You play Mermaid A and win the trick (+40)."
    assert env.event(state, rules.FIRST_PLAY, state, 2) == "Seat 1 plays Parrot 1. You win the trick (+30)."
    assert (
        env.event(state, rules.FIRST_PLAY + c.KRAKEN, state)
        == "Seat 1 plays Kraken. The trick is void; seat 2 leads next."
    )
    loot = crafted(steps[0][0], 3, 4, leader=0)
    told = env.event(loot, rules.FIRST_PLAY + c.LOOTS[0], loot, 1)
    assert told == "Seat 2 plays Loot A. You win the trick. Seat 2 and you are allied by Loot."
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


def test_an_illegal_action(game):
    env, steps = game
    before = steps[0][0]
    after = before.replace(illegal_action=jnp.bool_(True), terminated=jnp.bool_(True))
    assert "an illegal action: the game is over" in env.event(before, 99, after, 0)
