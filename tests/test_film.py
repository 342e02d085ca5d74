"""`jaxrl film`: a game between players as an animated picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import jax
import pytest

from jaxrl import cli
from jaxrl.commands.film import record
from jaxrl.envs import registry
from jaxrl.players import bot_player
from tests.games import TicTacToe

COMMAND = ["film", "bot:balanced", "--opponents", "aggressor", "run.cache_dir=''", "env.id=battle"]
SHORT = ["env.options.maps=[small]", "env.options.zone=10", "env.options.rounds=1"]


def test_a_game_is_recorded_step_by_step():
    env = TicTacToe()
    states, actions = record(env, [bot_player(env, "lowest")] * 2, jax.random.key(0))
    assert actions == list(range(7)) and len(states) == 8
    assert bool(states[-1].terminated) and not bool(states[-2].terminated)


def test_the_command_writes_the_same_film_again(tmp_path, capsys):
    pages = []
    for name in ("one.svg", "two.svg"):
        assert cli.main([*COMMAND, *SHORT, "--seed", "4", "--file", str(tmp_path / name)]) == 0
        pages.append((tmp_path / name).read_text(encoding="utf-8"))
    assert pages[0] == pages[1] and ElementTree.fromstring(pages[0]).tag.endswith("svg")
    output = capsys.readouterr().out
    assert re.search(r"two.svg: \d+ decisions \(seat 0: balanced, seat 1: aggressor\), \d+ kB", output)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seat", "2"], "--seat must be between 0 and 1"),
        (["--pace", "0"], "--pace must be from 0.1 to 20, got 0"),
        (["--pace", "1e9"], "--pace must be from 0.1 to 20, got 1e+09"),
        (["--pace", "nan"], "--pace must be from 0.1 to 20, got nan"),
        (["--file", "nowhere/film.svg"], "cannot write nowhere/film.svg"),
        (["--file", "/dev/full"], "cannot write /dev/full: No space left on device"),
        (["--opponents", "balance"], "did you mean 'balanced'?"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, said, capsys):
    assert cli.main([*COMMAND, *SHORT, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_game_without_films(capsys):
    assert cli.main(["film", "bot:lowest", "env.id=tests.games:TicTacToe", "run.cache_dir=''"]) == 2
    assert "tests.games:TicTacToe has no films" in capsys.readouterr().err


def test_the_game_is_registered():
    assert callable(registry.make("battle").game.film)
