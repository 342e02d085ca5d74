"""The compiled Skull King engine and bots against the golden vectors and the plain-Python referee."""

from __future__ import annotations

import copy
import json
from operator import setitem
from pathlib import Path

import numpy as np
import pytest

from jaxrl import cli
from jaxrl_envs.shared.golden import Disagreement, verify
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.golden import BOT_CHOICES, GAMES, KINDS
from tests.support import generate
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "skull_king"
# Each is a program: every combination of switches, and few, some and many players; all 28 are in the slow tests.
TABLES = [(2, 0, 1), (4, 1, 1), (5, 1, 0), (8, 0, 0)]
BOT_TABLES = [(2, 0, 1), (8, 0, 0)]


def golden(name: str) -> list[dict]:
    return generate.read(FOLDER / f"{name}.jsonl.gz")


def at(tables: list[tuple], records: list[dict]) -> list[dict]:
    return [record for record in records if (record["n"], record["expansion"], record["abilities"]) in tables]


def numbers(tables: list[tuple], count: int) -> list[int]:
    """The numbers of the first `count` generated games of each table."""
    cycle = len(generate.CONFIGURATIONS)
    return [generate.CONFIGURATIONS.index(table) + cycle * i for table in tables for i in range(count)]


def differences(records: list[dict], *, bots: bool = False) -> list[Disagreement]:
    return [entry for found in (BOT_CHOICES if bots else GAMES).compare(records) for entry in found]


@pytest.mark.thorough
def test_games() -> None:
    recorded = at(TABLES, golden("games"))
    random_games = [generate.random_game(7, number) for number in numbers(TABLES, 60)]
    assert len(recorded) == 176 and len(random_games) == 240
    assert differences(recorded + random_games) == []


@pytest.mark.thorough
def test_bot_choices() -> None:
    recorded = at(BOT_TABLES, golden("bot_choices"))
    random_games = [generate.bot_game(7, number, checks=40) for number in numbers(BOT_TABLES, 10)]
    assert {check["phase"] for record in random_games for check in record["checks"]} == set(range(6))
    assert differences(recorded + random_games, bots=True) == []


def test_tricks() -> None:
    report = verify(str(FOLDER / "tricks.jsonl.gz"), KINDS)
    assert (report.counts, report.disagreements) == ({"tricks": 19_390}, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "decisions"), [("games", 248_061), ("bot_choices", 18_545), ("tricks", None)])
def test_golden_files_whole(name: str, decisions: int | None) -> None:
    report = verify(str(FOLDER / f"{name}.jsonl.gz"), KINDS)
    assert report.disagreements == 0, report.first
    assert decisions == report.counts.get("decisions")


@pytest.mark.slow
def test_ten_thousand_random_games(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl.gz"
    generate.write(path, generate.games(1, 10_000))
    report = verify(str(path), KINDS)
    assert (report.counts["games"], report.disagreements) == (10_000, 0), report.first


@pytest.mark.slow
def test_thousand_random_bot_games(tmp_path: Path) -> None:
    path = tmp_path / "bots.jsonl.gz"
    generate.write(path, generate.games(2, 1_000, bots=True))
    report = verify(str(path), KINDS)
    assert report.counts["bot choices"] > 70_000 and report.disagreements == 0, report.first


# ---- damaged and unreadable files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_games() -> list[dict]:
    return at([(2, 1, 1)], golden("games"))[:2]


def written(folder: Path, records: list[dict]) -> str:
    path = folder / "copy.jsonl.gz"
    generate.write(path, records)
    return str(path)


def swapped(deck: list, i: int, j: int) -> None:
    deck[i], deck[j] = deck[j], deck[i]


def fewer_legal(record: dict) -> None:
    decision = next(d for d in record["rounds"][8]["dec"] if d[1] == 1 and len(d[2]) > 2)
    decision[2].remove(next(action for action in decision[2] if action != decision[3]))


def illegal_card(record: dict) -> None:
    decision = next(d for d in record["rounds"][4]["dec"] if d[1] == 1)
    decision[3] = next(action for action in range(11, 85) if action not in decision[2])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda x: setitem(scores := x["rounds"][6]["scores"], 1, scores[1] + 10), "round 7: scores"),
        (lambda x: setitem(x["rounds"][3]["tricks"][2], "win", -1), "round 4, trick 3"),
        (fewer_legal, "round 9, decision"),
        (lambda x: setitem(decision := x["rounds"][9]["dec"][0], 3, decision[3] ^ 1), "round 10"),
        (illegal_card, "round 5, decision"),
        (lambda x: swapped(x["decks"][5], 0, 6), "round 6, decision"),
        (lambda x: setitem(x["rank"], 0, x["rank"][0] + 1), "end: rank"),
    ],
)
def test_damaged_copy_is_caught(damage, named: str, two_games: list[dict], tmp_path: Path, capsys) -> None:
    records = copy.deepcopy(two_games)
    damage(records[1])
    assert cli.main(["check", "skull_king", written(tmp_path, records)]) == 1
    printed = capsys.readouterr().out
    assert f"first disagreement: game {records[1]['game']}, {named}" in printed
    assert "expected" in printed and "got" in printed and " 0 disagreements" not in printed


def test_undamaged_copy_passes(two_games: list[dict], tmp_path: Path, capsys) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text("\n".join(map(json.dumps, two_games)))
    for path in (written(tmp_path, two_games), str(plain)):
        assert cli.main(["check", "skull_king", path]) == 0
        assert "2 games, " in (printed := capsys.readouterr().out) and " 0 disagreements" in printed


def test_malformed_record_names_its_line(two_games: list[dict], tmp_path: Path, capsys) -> None:
    records = copy.deepcopy(two_games)
    records[1]["decks"][3][0] = records[1]["decks"][3][1]
    assert cli.main(["check", "skull_king", written(tmp_path, records)]) == 2
    assert "line 2: not a record of games (a deck is not a permutation of the cards)" in capsys.readouterr().err


def test_the_table_of_bits_is_the_rule() -> None:
    assert rules.BITS.tolist() == rules.bit_of_action(np.arange(rules.NUM_ACTIONS)).tolist()
