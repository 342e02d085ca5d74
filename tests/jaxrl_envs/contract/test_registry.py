"""Games by name: what is found, what is refused, and that the refusal says what to do."""

from __future__ import annotations

import pytest

from jaxrl_envs.contract import registry
from jaxrl_envs.contract.registry import make, options_of, register, registered
from jaxrl_envs.shared.errors import UserError, nearest


def test_an_importable_class_and_its_options():
    env = make("tests.support.games:RockPaperScissors", num_players=3, no_repeat=True)
    assert env.num_players == 3 and env.no_repeat
    options = options_of("tests.support.games:RockPaperScissors")
    assert options["num_players"] == (int, 2, "seats at the table, at least 2.")
    assert list(options) == ["num_players", "rounds", "no_repeat"]


def test_a_registered_name():
    register("tic_tac_toe", "tests.support.games:TicTacToe")
    assert "tic_tac_toe" in registered()
    assert make("tic_tac_toe").id == "tic_tac_toe"


def test_what_lies_beside_a_game(monkeypatch):
    absent = registry.Entry("nowhere.games:Chess", "nowhere.games")  # found missing when it is played, not before
    monkeypatch.setitem(registry._GAMES, "absent", absent)
    assert registry.games_with("golden") == ["skull_king", "beasty_bar", "car_soccer", "battle"]
    assert registry.games_with("commands") == registry.games_with("diagnosis") == ["forge"]
    assert registry.game_module("skull_king", "golden").KINDS and registry.find_module("forge", "golden") is None
    assert registry.find_module("tests.support.games:TicTacToe", "nim").__name__ == "tests.support.nim"
    with pytest.raises(UserError, match="game 'forge' has no 'golden' module"):
        registry.game_module("forge", "golden")
    with pytest.raises(UserError, match="unknown game 'skull_kin'"):
        registry.game_module("skull_kin", "golden")
    assert registry.section_of("skull_king") is None and registry.section_of("forge").__name__ == "Deployment"


@pytest.mark.parametrize(
    ("game", "options", "message"),
    [
        ("skull_kin", {}, "did you mean 'skull_king'"),
        ("nowhere.games:Chess", {}, "no module 'nowhere'"),
        ("tests.support.games:TicTacTo", {}, "did you mean 'TicTacToe'"),
        ("tests.support.games:TicTacToe", {"random_strt": True}, "did you mean 'random_start'"),
        ("tests.support.games:TicTacToe", {"random_start": 1}, "random_start must be true or false, got 1"),
        ("tests.support.games:Corridor", {"length": True}, "length must be a whole number, got True"),
        ("tests.support.games:RockPaperScissors", {"num_players": 1}, "at least 2"),
        ("pathlib:Path", {}, "no subclass of jaxrl_envs.contract.env.Env"),
    ],
)
def test_a_mistake_is_one_clear_sentence(game, options, message):
    with pytest.raises(UserError, match=message):
        make(game, **options)


def test_nearest():
    assert nearest("num_plyers", ["num_players", "rounds"]) == "did you mean 'num_players'?"
    assert nearest("zzz", ["a", "b"]) == "known: a, b"
