"""The compiled Beasty Bar engine and its opponents against the golden vectors and the plain-Python referee."""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import setitem
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl_envs.beasty_bar.golden import BOT_CHOICES, DETERMINISTIC, GAMES, KINDS
from jaxrl_envs.shared.golden import Kind, verify
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar_generate as generate
from tests.support.generate import read, write
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "beasty_bar"


def golden(name: str) -> list[dict]:
    return read(FOLDER / f"{name}.jsonl.gz")


def differences(kind: Kind, recorded: list[dict]) -> list:
    return [entry for found in kind.compare(recorded) for entry in found]


def test_games() -> None:
    recorded = golden("games") + list(generate.games(7, 500))
    assert len(recorded) == 2_000
    assert {action for game in recorded for _, _, action, *_ in game["moves"]} == {*range(31)}
    assert all(21 <= len(game["moves"]) <= 24 for game in recorded)
    assert {len(legal) for game in recorded for _, legal, *_ in game["moves"]} == {*range(1, 16)}
    assert differences(GAMES, recorded) == []


def test_bot_choices() -> None:
    recorded = golden("bot_choices")[::4] + list(generate.games(7, 16, choices=True))
    assert len(recorded) > 2_300 and {record["bot"] for record in recorded} == set(DETERMINISTIC)
    assert differences(BOT_CHOICES, recorded) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("games", 1_500), ("bot_choices", 8_000)])
def test_golden_files_whole(name: str, count: int) -> None:
    report = verify(str(FOLDER / f"{name}.jsonl.gz"), KINDS)
    assert (report.counts[name.replace("_", " ")], report.disagreements) == (count, 0), report.first


@pytest.mark.slow
@pytest.mark.parametrize(("choices", "count"), [(False, 20_000), (True, 1_000)])
def test_many_random_games(choices: bool, count: int, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl.gz"
    write(path, generate.games(1, count, choices=choices))
    report = verify(str(path), KINDS)
    assert report.counts["bot choices" if choices else "games"] >= count and report.disagreements == 0, report.first


# ---- damaged and unreadable files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def games() -> list[dict]:
    return golden("games")[:2]


def written(folder: Path, recorded: list[dict]) -> str:
    path = folder / "copy.jsonl.gz"
    write(path, recorded)
    return str(path)


def swapped(deck: list, i: int, j: int) -> None:
    deck[i], deck[j] = deck[j], deck[i]


DAMAGES: list[tuple[Callable[[dict], object], str]] = [
    (lambda x: setitem(x["points"], 1, x["points"][1] + 1), "end: points"),
    (lambda x: x["moves"][6][3].reverse(), "turn 6: queue"),
    (lambda x: (row := x["moves"][3])[1].remove(next(n for n in row[1] if n != row[2])), "turn 3: legal ids"),
    (lambda x: setitem(bar := x["moves"][-2][4], 0, bar[0] ^ 1), ": bar expected"),
    (lambda x: setitem(row := x["moves"][5], 2, min({*range(9)} - {*row[1]})), "turn 5: "),
    (lambda x: x["moves"].pop(), "game over expected True, got False"),
    (lambda x: swapped(x["decks"][0], 0, 4), "turn "),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGES)
def test_damaged_copy_is_caught(damage: Callable, named: str, games: list[dict], tmp_path: Path, capsys) -> None:
    recorded = copy.deepcopy(games)
    damage(recorded[1])
    assert cli.main(["check", "beasty_bar", written(tmp_path, recorded)]) == 1
    printed = capsys.readouterr().out
    assert "first disagreement: game 1, " in printed and named in printed
    assert "expected" in printed and "got" in printed and " 0 disagreements" not in printed


def test_wrong_best_ids_are_caught(tmp_path: Path, capsys) -> None:
    recorded = golden("bot_choices")[:4]
    assert cli.main(["check", "beasty_bar", written(tmp_path, recorded)]) == 0
    assert "4 bot choices, 0 disagreements" in capsys.readouterr().out
    recorded[2]["best"] = [next(number for number in recorded[2]["legal"] if number not in recorded[2]["best"])]
    recorded[3]["score"][0] += 0.01
    assert cli.main(["check", "beasty_bar", written(tmp_path, recorded)]) == 1
    printed = capsys.readouterr().out
    assert "2 disagreements" in printed and "decision 2 of heuristic, choice: best ids expected" in printed


@pytest.mark.parametrize(
    ("kind", "name", "value", "sentence"),
    [
        ("games", "decks", [[1] * 12, list(range(1, 13))], "a deck is not a permutation"),
        ("games", "start", 2, "start must be 0..1, not 2"),
        ("games", "moves", [], "the number of turns is impossible"),
        ("games", "moves", [[0, [0], 31, [0], [0, 0], [0, 0]]], "moves.0.2 must be 0..30, not 31"),
        ("games", "points", [1, 2, 3], "points must be a list of 2, not [1, 2, 3]"),
        ("bot_choices", "queue", [0, 0], "the queue has at most four different cards"),
        ("bot_choices", "hand", [[1, 2, 3, 4], [5, 6, 7, 8]], "a card is in two places, or in none"),
        ("bot_choices", "ply", 9, "after 4 turns of a seat its deck has another size"),
        ("bot_choices", "score", [1.0], "every legal id needs a score"),
    ],
)
def test_a_malformed_record_names_its_line(kind: str, name: str, value, sentence: str, tmp_path: Path, capsys) -> None:
    recorded = golden(kind)[:2]
    recorded[1][name] = value
    assert cli.main(["check", "beasty_bar", written(tmp_path, recorded)]) == 2
    assert f"line 2: not a record of {kind.replace('_', ' ')} ({sentence}" in capsys.readouterr().err
