"""A person at the table: answers by number and by name, illegal ones asked again."""

from __future__ import annotations

import jax
import pytest

from jaxrl import cli
from jaxrl.commands.play import Sitting, parse_action, render_for
from jaxrl.players import bot_player
from tests.games import HighCard, TicTacToe

LEGAL = {3: "Parrot 1", 4: "Parrot 10", 7: "bid 2"}


@pytest.mark.parametrize(
    "answer, action",
    [("3", 3), ("parrot 1", 3), ("Parrot 10", 4), ("bid", 7), ("BID 2", 7), ("5", None), ("parrot", None), ("", None)],
)
def test_answers(answer, action):
    found, problem = parse_action(answer, LEGAL)
    assert found == action and bool(problem) == (action is None)


def test_a_misspelt_answer_gets_a_hint():
    assert "did you mean 'parrot 1'" in parse_action("parot 1", LEGAL)[1]
    assert "may mean Parrot 1, Parrot 10" in parse_action("par", LEGAL)[1]


def test_a_whole_game_with_mistakes_in_between():
    env = TicTacToe()
    told: list[str] = []
    answers = iter(["9", "center", "0", "3", "0", "6", "8"])  # the bot takes the lowest free cell: 1, 2, 4, ...
    table = Sitting(env, 0, [bot_player(env, "lowest")] * 2, ask=lambda prompt: next(answers), tell=told.append)
    end = table.play(jax.random.key(0))
    assert bool(end.terminated) and float(end.rewards[0]) == 1.0  # the column 0, 3, 6
    text = "\n".join(told)
    assert text.count("not a legal action now") == 3  # 9, center, 0 again
    assert [line for line in told if line.startswith("  seat")] == [
        f"  seat {turn % 2}: {cell}" for turn, cell in enumerate((0, 1, 3, 2, 6))
    ]
    assert "X" in text and "the game is over" in text and "seat 0 (you)" in text


def test_the_other_seats_are_shown_as_public_information_only():
    env = HighCard()
    told: list[str] = []

    def lowest(prompt: str) -> str:
        return told[-1].split("]")[0].lstrip("[")

    table = Sitting(env, 1, [bot_player(env, "random")] * 3, ask=lowest, tell=told.append)
    end = table.play(jax.random.key(3))
    assert bool(end.terminated) and not bool(end.illegal_action)
    assert "tricks" in told[-1]


def test_what_a_step_settled_is_told_from_the_persons_side():
    class Telling(HighCard):
        def event(self, before, action, after, seat=None):
            return f"seat {seat} is told that seat {int(before.current_player)} played {action}"

    told: list[str] = []
    env = Telling()
    table = Sitting(
        env, 1, [bot_player(env, "lowest")] * 3, ask=lambda prompt: told[-1][1:].split("]")[0], tell=told.append
    )
    table.play(jax.random.key(3))
    events = [line for line in told if "is told" in line]
    assert len(events) == 9 and all(line.startswith("  seat 1 is told") for line in events)
    assert sum("that seat 1 played" in line for line in events) == 3


def test_a_rendering_without_a_seat_is_an_error_not_an_open_table():
    class Old(HighCard):
        def render(self, state):  # the contract is render(state, seat=None)
            return str(state.owner)

    with pytest.raises(TypeError):
        render_for(Old(), Old().init(jax.random.key(0)), 0)


def test_the_command_against_bots(monkeypatch, capsys):
    answers = iter(["nonsense"])

    def ask(prompt: str) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    command = ["play", "bot:lowest", "--seed", "1", "env.id=tests.games:TicTacToe", "run.cache_dir=''"]
    assert cli.main(command) == 0
    output = capsys.readouterr().out
    assert "you are seat 0 of 2" in output and "not a legal action now" in output and "you left the table" in output
    assert cli.main([*command, "--seat", "2"]) == 2
    assert "--seat must be between 0 and 1" in capsys.readouterr().err
    assert cli.main(["play", "bot:random", "env.id=tests.games:RockPaperScissors"]) == 2
    assert "cannot be played in a terminal" in capsys.readouterr().err
