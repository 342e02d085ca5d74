"""Files of conversations: what is written is read, damage is survived, and commands are understood."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import demonstrations, recording
from jaxrl_envs.forge.recordings.recording import Folder, Writer
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.conversations import made_up

GAMES = [made_up(seed=seed, decisions=5 + 40 * seed) for seed in range(4)]


def written(path, games):
    with Writer(path) as writer:
        for game in games:
            writer.copy(game)
    return path


@pytest.mark.parametrize("suffix", recording.SUFFIXES)
def test_what_is_written_is_read(tmp_path, suffix):
    found = list(recording.read(written(tmp_path / f"games{suffix}", GAMES)))
    assert [each.lines for each in found] == [each.lines for each in GAMES]
    assert [each.meta["seed"] for each in found] == [0, 1, 2, 3]
    assert all(each.complete and each.result == "Agent(1)-a won in 3ms" for each in found)


@pytest.mark.parametrize("suffix", recording.SUFFIXES)
def test_equal_games_give_equal_files(tmp_path, suffix):
    first, second = (written(tmp_path / f"{name}{suffix}", GAMES) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("suffix", recording.SUFFIXES)
def test_a_file_that_breaks_off_is_read_as_far_as_it_goes(tmp_path, suffix):
    whole = written(tmp_path / f"whole{suffix}", GAMES).read_bytes()
    seen = set()
    for length in range(1, len(whole), 97):
        path = tmp_path / f"part{suffix}"
        path.write_bytes(whole[:length])
        found = list(recording.read(path))
        complete = [each for each in found if each.complete]
        assert [each.lines for each in complete] == [each.lines for each in GAMES[: len(complete)]]
        assert len(found) - len(complete) <= 1 and all(each.complete for each in found[:-1])
        seen.add(len(complete))
    assert len(seen) > 2


def test_a_killed_writer_leaves_what_was_played(tmp_path):
    path = tmp_path / "live.forge.gz"
    script = (
        "import os, sys; from jaxrl_envs.forge.recordings.recording import Writer\n"
        "from tests.support.forge.conversations import made_up\n"
        "w = Writer(sys.argv[1]); w.copy(made_up(seed=1)); w.begin(seed=2)\n"
        "[w.received(b'%d' % i) for i in range(200)]; os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)]).returncode == 9
    first, second = recording.read(path)
    assert first.complete and first.lines == made_up(seed=1).lines
    assert not second.complete and len(second.lines) >= 200 - recording.FLUSH


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no archive", "neither gzip nor xz"),
        (gzip.compress(b"hello\n", mtime=0), "line 1: not a conversation"),
        (gzip.compress(b"# something else\n", mtime=0), "is no recording"),
        (gzip.compress(b"# jaxrl forge conversation 7 {}\n", mtime=0), "another version"),
        (gzip.compress(recording.HEADER.encode() + b"{\n", mtime=0), "line 1: Expecting"),
        (gzip.compress(recording.HEADER.encode() + b"[]\n", mtime=0), "line 1: .* must be a JSON object"),
    ],
)
def test_a_file_that_is_no_recording(tmp_path, content, says):
    (tmp_path / "x.forge.gz").write_bytes(content)
    with pytest.raises(UserError, match=says):
        list(recording.read(tmp_path / "x.forge.gz"))


def test_a_damaged_decision(tmp_path):
    lines = [b"> NEWGAME a b -i", b'< DECISION:{"decision_type":', b"> \xff", b"< GAME_RESULT: \xff in 3ms"]
    with pytest.raises(UserError, match="decision is damaged"):
        recording.parsed(next(recording.Conversation({}, lines, True).decisions())[0])
    with Writer(tmp_path / "x.forge.gz") as writer:
        writer.copy(recording.Conversation({}, lines, True))
    (game,) = recording.read(tmp_path / "x.forge.gz")
    assert game.result == "\ufffd in 3ms"
    with pytest.raises(UserError, match="x.forge.gz: a recorded decision is damaged"):
        list(demonstrations.read(tmp_path / "x.forge.gz"))


def test_advice_is_what_is_learnt_where_there_is_some(tmp_path):
    """Whatever was answered; a question for which the adviser could say nothing is left out."""

    def asked(number: int, **more: object) -> bytes:
        state = {"turn": 1, "phase": "MAIN1", "active": 0, "priority": 0, "you": 0, "players": []}
        who = {"decision_id": number, "seat": number % 2, "name": "X", "min": 0, "max": 9, "game_state": state}
        return b"< DECISION:" + json.dumps({"decision_type": "announce_value", **who, **more}).encode()

    lines = [b"> NEWGAME a b -i -v"]
    for number, more in enumerate(({"advice": "3"}, {"advice": None}, {}, {"advice": "ai"}, {"advice": "0"})):
        lines += [asked(number, **more), b"> 7"]
    game = recording.Conversation({}, [*lines, b"< GAME_RESULT: Agent(1)-a won in 3ms"], True)
    with Writer(tmp_path / "x.forge.gz") as writer:
        writer.copy(game)
    (shown,) = demonstrations.read(tmp_path / "x.forge.gz")
    np.testing.assert_array_equal(shown.action, [3, 7, 0])
    np.testing.assert_array_equal(shown.seat, [0, 0, 0])
    assert shown.kind is not None and {ForgeGame.question_kinds[kind] for kind in shown.kind} == {"announce_value"}


def test_files_and_folders(tmp_path):
    with pytest.raises(UserError, match="no recordings"):
        recording.find([tmp_path])
    with pytest.raises(UserError, match="no recording .*missing"):
        recording.find([tmp_path / "missing.forge.gz"])
    (tmp_path / "b").mkdir()
    names = ["a.forge.gz", "b/c.forge.xz", "d.forge.gz"]
    for name in names:
        written(tmp_path / name, GAMES[:1])
    (tmp_path / "notes.txt").write_text("not one of ours")
    assert {str(path.relative_to(tmp_path)) for path in recording.find([tmp_path])} == set(names)
    assert [len(list(recording.read(each))) for each in recording.find([tmp_path])] == [1, 1, 1]
    with pytest.raises(UserError, match="cannot write"):
        Writer(tmp_path / "no" / "such" / "folder.forge.gz")


def test_a_folder_begins_a_new_file_when_one_is_full(tmp_path):
    folder, writer = Folder(tmp_path / "new" / "folder", limit_mb=0.02), None
    for game in GAMES:
        writer = folder.next(writer)
        writer.copy(game)
    writer.close()
    files = recording.find([tmp_path])
    assert 1 < len(files) < len(GAMES)
    assert [each.lines for file in files for each in recording.read(file)] == [each.lines for each in GAMES]


def test_decisions_and_answers():
    found = list(GAMES[0].decisions())
    assert [answer for _, answer in found] == ["0", "1", "2", "0", "1"]
    assert [recording.parsed(line)["decision_id"] for line, _ in found] == [1, 2, 3, 4, 5]


def test_observed_decisions_carry_the_choice():
    line = b'< INFO:{"info_type":"observed","decision_type":"confirm_action","seat":0,"choice":"y"}'
    other = b'< INFO:{"info_type":"reveal","seat":0,"cards":[]}'
    game = recording.Conversation({}, [other, line, line.replace(b'"y"', b"null")], False)
    assert [(recording.parsed(line)["decision_type"], choice) for line, choice in game.decisions()] == [
        ("confirm_action", "y"),
        ("confirm_action", None),
    ]


def test_a_refused_answer_is_none():
    lines = [b"< DECISION:{}", b"> x", b"< ERROR: no", b"< DECISION:{}", b"> 0", b"< GAME_RESULT: A won in 1ms"]
    assert [answer for _, answer in recording.Conversation({}, lines, True).decisions()] == [None, "0"]


@pytest.mark.parametrize("word", ["plain", "two words", 'a "quote"', "back\\slash", "", "-s"])
def test_words_are_quoted_and_read_back(word):
    assert recording.words(f"NEWGAME {recording.quoted(word)} other") == ["NEWGAME", word, "other"]


def test_deck_names():
    assert [recording.deck_name(each) for each in ("a", "/x/y z.dck", "c:\\d\\e.dck")] == ["a", "y z", "e"]


def test_what_is_known_from_the_lines():
    game = made_up(("a", "b"), 7)
    assert recording.meta_of(game.lines, "1.0") == game.meta
    assert recording.meta_of([b"> NEWGAME /x/a.dck b -o -q -s 3"])["seed"] == 3


def test_a_game_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "GAME", 1000)
    with pytest.raises(UserError, match="line .*: a game has more than"):
        list(recording.read(written(tmp_path / "x.forge.gz", GAMES)))
