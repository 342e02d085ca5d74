"""A person at the table: answers by number and by name, illegal ones asked again."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console
from rich.style import Style

from examples.nim import Nim
from jaxrl import cli
from jaxrl.matches.play import Sitting, adviser_of, options, parse_action, render_for
from jaxrl.players.player import Player, bot_player
from jaxrl_envs.contract import registry
from tests.support.games import HighCard, TicTacToe

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


def sit(env, seat, others, answers, key=0, **more):
    """The end of a game with these answers, and what was shown; asked once too often, the person leaves."""
    screen = Console(file=io.StringIO(), width=100, highlight=False)
    answers = iter(answers)

    def ask(prompt):
        screen.print(prompt, end="")
        try:
            answer = next(answers)
        except StopIteration:
            raise EOFError from None
        answer = answer(screen.file.getvalue()) if callable(answer) else answer
        screen.print(answer)
        return answer

    screen.input = ask
    end = None
    with contextlib.suppress(EOFError):
        end = Sitting(env, seat, others, screen=screen, **more).play(jax.random.key(key))
    return end, screen.file.getvalue()


def lowest(shown):
    """The number of the first option."""
    return re.findall(r"\[(\d+)\]", shown.rpartition("\n\n")[2])[0]


def test_a_whole_game_with_mistakes_in_between():
    env = TicTacToe()
    answers = ["9", "center", "0", "3", "0", "6", "8"]  # the bot takes the lowest free cell: 1, 2, 4, ...
    end, text = sit(env, 0, [bot_player(env, "lowest")] * 2, answers)
    assert bool(end.terminated) and float(end.rewards[0]) == 1.0  # the column 0, 3, 6
    assert text.count("not a legal action now") == 3  # 9, center, 0 again
    assert re.findall(r"^  (you|seat 1): (\d)", text, re.MULTILINE) == [
        ("you", "0"),
        ("seat 1", "1"),
        ("you", "3"),
        ("seat 1", "2"),
        ("you", "6"),
    ]
    assert "X X" not in text and "the game is over" in text and "seat 0 (you): won, return 1\n" in text


def test_the_end_tells_who_won_and_the_return_of_the_whole_game():
    env = registry.make("examples.tricks:Tricks")
    _, text = sit(env, 0, [bot_player(env, "thrifty")] * 3, [*[lowest] * 2, "undo", *[lowest] * 3], 3)
    assert re.findall("(won|lost), return (.+)", text) == [("lost", "-2"), ("lost", "-2"), ("won", "4")]  # four tricks


def test_what_happened_is_told_between_the_position_and_the_options():
    env = TicTacToe()
    _, text = sit(env, 0, [bot_player(env, "lowest")] * 2, ["0"])
    assert text.endswith(
        "\nX O .\n. . .\n. . .\n\nsince your last turn:\n  you: 0\n  seat 1: 1\n\n"
        "[2]  [3]  [4]  [5]  [6]  [7]  [8]\nseat 0, your action: "
    )


def test_a_decision_is_taken_back_and_the_others_play_as_before():
    env = TicTacToe()
    end, text = sit(env, 0, [bot_player(env, "random")] * 2, ["undo", "4", "undo", "4", "undo", "0", lowest, "undo"], 5)
    assert end is None and "this is your first decision: there is nothing to take back" in text
    shown = re.findall(r"you: (\d)\n  seat 1: (\d)", text)
    assert shown[0] == shown[1]  # the same game as before
    boards = re.findall(r"^[XO.] [XO.] [XO.]\n[XO.] [XO.] [XO.]\n[XO.] [XO.] [XO.]$", text, re.MULTILINE)
    assert boards[0] == boards[2] == boards[4] and boards[5] == boards[7] and boards[5].startswith("X")


def test_the_seats_of_others_stay_hidden_and_nothing_illegal_is_played():
    env = HighCard()
    end, text = sit(env, 1, [bot_player(env, "random")] * 3, [lowest] * 3, 3)
    assert bool(end.terminated) and not bool(end.illegal_action) and "tricks" in text


def test_what_a_step_settled_is_told_from_the_persons_side():
    class Telling(HighCard):
        def event(self, before, action, after, seat=None):
            return f"seat {seat} is told that seat {int(before.current_player)} played {action}"

    env = Telling()
    _, text = sit(env, 1, [bot_player(env, "lowest")] * 3, [lowest] * 3, 3)
    events = re.findall(r"^  seat 1 is told that seat (\d)", text, re.MULTILINE)
    assert len(events) == 9 and events.count("1") == 3


def test_rules_help_and_a_hint():
    env = Nim()
    perfect = bot_player(env, "perfect")
    said = ["rules", "HELP", "hint", ""]
    _, text = sit(env, 0, [perfect] * 2, said, 5, adviser=perfect)
    assert "The player who takes the last one wins." in text and "back to your last decision" in text
    assert "perfect would choose [0] take 1" in text  # of nine stones
    assert text.count("9 stones") == 2  # Enter alone shows them again
    assert "no text of its rules" in sit(TicTacToe(), 0, [None] * 2, ["rules"])[1]
    assert "no player here can give a hint" in sit(TicTacToe(), 0, [None] * 2, ["hint"])[1]


def test_a_trained_policy_tells_its_probabilities():
    env = TicTacToe()
    logits = jnp.log(jnp.array([0.7, 0.2, 0.1, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9]))
    policy = Player("run", lambda params, memory, state, key: (jnp.argmax(params), memory), logits)
    policy = dataclasses.replace(policy, odds=lambda params, memory, state: jax.nn.softmax(params))
    assert "run would choose [0] 70 %, [1] 20 %, [2] 10 %\n" in sit(env, 0, [policy] * 2, ["hint"], adviser=policy)[1]


def test_hints_come_from_a_player_that_knows_the_game():
    nim, plain = Nim(), TicTacToe()
    random = [bot_player(nim, "random")] * 2
    assert adviser_of(nim, random[0], random).name == "perfect"
    plain_random = bot_player(plain, "random")
    assert adviser_of(plain, plain_random, [bot_player(plain, "lowest")] * 2).name == "lowest"
    trained = Player("run", lambda params, memory, state, key: (0, memory))
    assert adviser_of(plain, trained, []) is trained

    class NoBots(TicTacToe):
        bots = {"random": TicTacToe().random_action}

    searching = adviser_of(NoBots(), plain_random, [plain_random])
    assert searching.name == "a search"
    won = NoBots().init(jax.random.key(0)).replace(board=jnp.array([0, 0, -1, 1, 1, -1, -1, -1, -1], jnp.int8))
    won = won.replace(legal_action_mask=won.board < 0, observation=NoBots().observe(won, 0))
    memory = searching.init(searching.params, won, jnp.int32(0), jax.random.key(1))
    assert int(searching.act(searching.params, memory, won, jax.random.key(2))[0]) == 2  # completes the line

    class Closed(NoBots):
        perfect_information = False

    assert adviser_of(Closed(), plain_random, [plain_random]) is None


def test_options_stand_in_columns_and_break_between_words():
    screen = Console(file=io.StringIO(), width=40)
    screen.print(
        options({0: "move forward, half", 1: "move back", 12: "a name that is longer than a line of this screen"})
    )
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40 and "longer than" in " ".join(lines)
    screen = Console(file=io.StringIO(), width=40)
    screen.print(options({0: "north", 1: "east", 2: "2"}))
    assert screen.file.getvalue().rstrip() == "[0] north  [1] east  [2]"


def test_a_rendering_without_a_seat_is_an_error_not_an_open_table():
    class Old(HighCard):
        def render(self, state):  # the contract is render(state, seat=None)
            return str(state.owner)

    with pytest.raises(TypeError):
        render_for(Old(), Old().init(jax.random.key(0)), 0)


def test_the_command_against_bots(monkeypatch, capsys):
    answers = iter(["nonsense"])

    def ask() -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    command = ["play", "bot:lowest", "--seed", "1", "env.id=tests.support.games:TicTacToe", "run.cache_dir=''"]
    assert cli.main(command) == 0
    output = capsys.readouterr().out
    assert "you are seat 0 of 2" in output and "not a legal action now" in output and "you left the table" in output
    assert cli.main([*command, "--seat", "2"]) == 2
    assert "--seat must be between 0 and 1" in capsys.readouterr().err
    assert cli.main(["play", "bot:random", "env.id=tests.support.games:RockPaperScissors"]) == 2
    assert "cannot be played in a terminal" in capsys.readouterr().err


@pytest.mark.parametrize("game", ["skull_king", "beasty_bar", "battle", "examples.nim:Nim"])
def test_registered_games_tell_their_rules_in_a_page(game):
    env = registry.make(game)
    assert "win" in env.how_to_play and len(env.how_to_play.splitlines()) < 40
    for pattern, style in env.colours.items():
        assert re.compile(pattern) and Style.parse(style)
