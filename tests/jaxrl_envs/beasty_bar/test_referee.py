"""The plain-Python Beasty Bar referee and its bots against the golden vectors and the worked turns of the rules."""

from __future__ import annotations

import pytest

from tests.jaxrl_envs.beasty_bar.referee import beasty_bar as referee
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar_bots as bots
from tests.support.generate import read
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "beasty_bar"


def golden(name: str) -> list[dict]:
    return read(FOLDER / f"{name}.jsonl.gz")


NAMES = "skunk parrot kangaroo monkey chameleon seal zebra giraffe snake crocodile hippo lion".split()


def codes(text: str) -> list[int]:
    """Card codes of "a:lion b:skunk"; seat a is 0."""
    return [12 * "ab".index(card[0]) + NAMES.index(card[2:]) for card in text.split()]


def sets(text: str) -> list[int]:
    """One mask for each seat."""
    return [sum(1 << code % 12 for code in codes(text) if code // 12 == seat) for seat in (0, 1)]


# Section 7: queue before, action id, queue after, into the bar, thrown out.
WORKED = [
    ("a:zebra b:monkey b:crocodile", 8, "a:lion a:zebra b:crocodile", "", "b:monkey"),
    ("b:zebra a:crocodile b:parrot b:giraffe", 7, "a:crocodile b:giraffe", "b:zebra a:hippo", "b:parrot"),
    ("b:hippo a:parrot b:monkey b:seal", 1, "a:monkey b:monkey a:parrot b:seal", "", "b:hippo"),
    ("b:lion a:snake b:skunk", 0, "b:skunk a:skunk", "", "b:lion a:snake"),
    ("b:crocodile a:giraffe b:parrot", 2, "b:crocodile", "", "a:seal a:giraffe b:parrot"),
    ("b:hippo a:giraffe b:skunk b:parrot", 2, "b:parrot a:giraffe", "b:hippo a:seal", "b:skunk"),
    ("b:hippo b:parrot a:seal a:snake", 10, "a:kangaroo a:seal", "b:hippo b:parrot", "a:snake"),
    ("b:lion a:parrot", 15, "b:lion a:parrot", "", "a:chameleon"),
    ("b:lion b:seal b:skunk a:zebra", 23, "b:seal b:skunk a:chameleon", "", "b:lion a:zebra"),
    ("b:snake a:seal b:chameleon", 15, "b:snake a:chameleon a:seal b:chameleon", "", ""),
    ("a:parrot b:kangaroo b:snake", 15, "b:kangaroo b:snake a:chameleon", "", "a:parrot"),
    ("b:chameleon", 15, "b:chameleon a:chameleon", "", ""),
    ("", 11, "a:parrot", "", ""),
]


@pytest.mark.parametrize("turn", WORKED, ids=lambda turn: f"{turn[1]} on {turn[0] or 'nothing'}")
def test_worked_turns(turn: tuple) -> None:
    queue, action, after, entered, thrown = turn
    species = referee.decode(action, [referee.card_of(code) for code in codes(queue)]).species
    hand = 1 << species - 1
    found = referee.play_turn(codes(queue), [0, 0], [0, 0], hand, [], action, seat=0)
    assert found == (codes(after), sets(entered), sets(thrown), 0, [])


def test_golden_games() -> None:
    records = golden("games")
    assert len(records) == 1_500
    lengths = dict.fromkeys(range(21, 25), 0)
    for record in records:
        game = referee.new_game(record["decks"], record["start"])
        for move, (seat, legal, action, *table) in enumerate(record["moves"]):
            assert (game.actor, game.legal()) == (seat, legal), (record["g"], move)
            game = game.after(action)
            assert game.table == table, (record["g"], move)
            assert game.over == (move == len(record["moves"]) - 1), (record["g"], move)
        assert game.points == record["points"], record["g"]
        lengths[len(record["moves"])] += 1
    assert list(lengths.values()) == [131, 526, 474, 369]


def test_golden_bot_choices() -> None:
    records = golden("bot_choices")
    assert len(records) == 8_000 and {record["bot"] for record in records} == set(bots.BOTS) - {"random", "noisy"}
    for record in records:
        game = referee.position(record)
        found = bots.scores(record["bot"], game)
        assert game.legal() == record["legal"]
        assert found == pytest.approx(record["score"], abs=1e-6), record
        assert bots.best(record["bot"], game) == record["best"], record


def test_rewards() -> None:
    assert referee.rewards("win", [10, 4]) == [1.0, -1.0] and referee.rewards("win", [7, 7]) == [0.0, 0.0]
    assert referee.rewards("margin", [10, 4]) == [6 / 36, -6 / 36]
    assert referee.rewards("shaped", [10, 4]) == [1.6, -1.6] and referee.rewards("shaped", [0, 36]) == [-2, 2]
