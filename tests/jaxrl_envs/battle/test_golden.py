"""The compiled battle engine against the golden battles, and what `jaxrl check battle` says about damaged files."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from operator import setitem
from pathlib import Path

import pytest

from jaxrl_envs.battle.golden import KINDS, differences
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.golden import verify
from tests.support.generate import read, write
from tests.support.paths import GOLDEN

FILE = GOLDEN / "battle" / "battles.jsonl.gz"


def test_golden_battles() -> None:
    report = verify(str(FILE), KINDS)
    assert (*report.counts.values(), report.disagreements) == (60, 5_603, 0), report.first


@pytest.fixture(scope="module")
def battles() -> list[dict]:
    """Two battles: one of random players, one of two styles with an end before the round limit."""
    recorded = read(FILE)
    found = [recorded[1], recorded[4]]
    assert [battle["players"] for battle in found] == [["random", "random"], ["objective", "aggressor"]]
    return found


def written(folder: Path, recorded: list[dict]) -> str:
    path = folder / "copy.jsonl.gz"
    write(path, recorded)
    return str(path)


def more(place: dict | list, key: int | str, by: float = 1) -> None:
    place[key] += by


def another(legal: list[int], than: int) -> int:
    return next(number for number in legal if number != than)


def shorter_tape(record: dict) -> None:
    record["faces"].pop()
    record["dice"].pop()
    record["decisions"][-1][8] = min(record["decisions"][-1][8], len(record["dice"]))


def longer_tape(record: dict) -> None:
    record["faces"].append(6)
    record["dice"].append(1)


def other_die(record: dict) -> None:
    record["dice"][-1] = 1 + record["dice"][-1] % record["faces"][-1]


def cut_short(record: dict) -> None:
    record["decisions"].pop()
    record["scripts"].pop()
    record["obs"] = [entry for entry in record["obs"] if entry[0] < len(record["decisions"])]


DAMAGES: list[tuple[Callable[[dict], object], str]] = [  # a change, and what is named after the battle
    (lambda x: setitem(x["decisions"][7], 1, 9), "decision 7: kind expected 9, got"),
    (lambda x: (row := x["decisions"][3])[6].remove(another(*row[6:8])), "decision 3: legal ids expected"),
    (lambda x: setitem(row := x["decisions"][4], 7, min({*range(69)} - {*row[6]})), "decision 4: "),
    (lambda x: more(x["decisions"][9], 8), "decision 9: dice before it expected"),
    (
        lambda x: setitem(row := x["scripts"][6], 3, another(x["decisions"][6][6], row[3])),
        "6: script objective expected",
    ),
    (lambda x: more(x["obs"][0][2][0], 1, 0.00001), "features, first ["),
    (other_die, "end: dice["),
    (longer_tape, "end: number of faces expected"),
    (shorter_tape, ""),
    (lambda x: more(x["half_turns"][2][4][0][1][3], 0), "end: state after half-turn 2 expected"),
    (lambda x: more(x["result"]["vp"], 1), "end: vp expected"),
    (cut_short, "end: the battle expected over after"),
    (lambda x: more(x["start"][2], 0), "setup: start expected"),
    (lambda x: more(x["rosters"][0]["units"][0], "M", 3), "decision "),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("damage", "named"), DAMAGES)
def test_damaged_copy_is_caught(damage: Callable, named: str, battles: list[dict], tmp_path: Path) -> None:
    for i in range(2):
        recorded = copy.deepcopy(battles)
        damage(recorded[i])
        report = verify(written(tmp_path, recorded), KINDS)
        assert report.disagreements > 0 and report.first is not None
        assert report.first.startswith(f"battle {battles[i]['id']}, key, ") and named in report.first
        assert "expected" in report.first and "got" in report.first


def test_tape_is_played_too(battles: list[dict], tmp_path: Path) -> None:
    for damage, named in (
        (longer_tape, "tape, end: dice left on the tape expected 0, got 1"),
        (shorter_tape, "tape, decision "),
        (other_die, "tape, "),
    ):
        recorded = copy.deepcopy(battles[:1])
        damage(recorded[0])
        found = [str(entry) for entry in differences(recorded[0])]
        assert any(named in entry for entry in found), found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\nno json\n", "line 3: not JSON"),
        (b'{"moves": []}\n', "is no recording of this game: its first line has none of 'half_turns'"),
        (b'{"half_turns": []}\n', "line 1: not a record of battles ('config' is missing)"),
        (gzip.compress(b'{"half_turns": []}\n' * 50, mtime=0)[:20], "the file is damaged"),
        (gzip.compress(b"\n" * 300_000), "(unpacked): split it"),
        (b"\n" * 300_000, "(unpacked): split it"),
        (b"[" + b" " * 100_000 + b"]", "line 1: it has more than"),
        (b"[" * 50_000, "line 1: not JSON"),
    ],
)
def test_unreadable_file_is_one_sentence(content: bytes, sentence: str, tmp_path: Path, monkeypatch) -> None:
    """By the reader of all games; what else lies in a file's place is tried in tests/attacks/test_files.py."""
    monkeypatch.setattr(golden, "LIMIT", 200_000)
    monkeypatch.setattr(golden, "LINE", 60_000)
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        verify(str(path), KINDS)
    assert sentence in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("rosters", [{"name": "x", "units": []}] * 2, "roster 0: units must be a list of 1 to 8 units, got 0"),
        ("config", {"maps": []}, "a battle needs a map"),
        ("key", "xyz", "invalid literal for int()"),
        ("dice", [1], "faces and dice must be of one length"),
        ("scripts", [], "scripts must have one entry for each decision"),
        ("decisions", [[0, 0, 0, -1, 0, 0, [0], 0, 6]], "a decision needs two legal ids or more"),
        ("obs", [[99_999, 0, []]], "obs must name a decision"),
        ("half_turns", [], "half_turns must have an entry for each half-turn"),
        ("result", {"winner": 2, "end": 1}, "result.winner must be one of 0, 1, None, not 2"),
    ],
)
def test_malformed_battle_names_its_line(name: str, value, sentence: str, battles: list[dict], tmp_path: Path) -> None:
    path = written(tmp_path, [battles[0], {**battles[1], name: value}])
    with pytest.raises(UserError) as error:
        verify(path, KINDS)
    assert "line 2: not a record of battles (" in str(error.value) and sentence in str(error.value)
