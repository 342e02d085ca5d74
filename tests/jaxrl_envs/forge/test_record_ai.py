"""Recording Forge's AI against itself: which games, each written once and whole, and that faults cost nothing."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from jaxrl.cli import main
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.recordings import record_ai, recording
from jaxrl_envs.forge.recordings.record_ai import Job
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.conversations import RECORDED
from tests.support.forge.fake import FakeDaemon, Fault, RecordedGame
from tests.support.forge.play import faking

GAMES = list(recording.read(RECORDED / "observed.forge.gz"))
OBSERVED = [RecordedGame(each) for each in GAMES]


def body(conversation):
    """The lines behind NEWGAME, GAME_START and SEED."""
    return conversation.lines[3:]


@pytest.fixture
def recorded(tmp_path):
    """Records with fake daemons; gives the last progress, and the games by file."""

    def run(wanted, faults=()):
        with faking(OBSERVED, 2, faults, decision_timeout=0.5) as fleet:
            *_, progress = record_ai.record(fleet, wanted, tmp_path)
        games = {path.name: next(recording.read(path)) for path in recording.find([tmp_path])}
        return progress, games, fleet.mischief.games

    return run


def test_which_games_are_watched():
    found = record_ai.jobs(["a", "b"], ["", "Reckless"], 9, seed=5)
    assert [job.seed for job in found] == list(range(5, 14))
    assert [job.decks for job in found[:3]] == [("a", "b"), ("b", "a"), ("a", "b")]
    assert {job.profiles for job in found} == {(p, q) for p in ("", "Reckless") for q in ("", "Reckless")}
    assert len({(job.decks, job.profiles) for job in found}) == 8 and len({job.file for job in found}) == 9
    begun = [job.decks for job in record_ai.jobs("abcd", [], 12)]
    assert [first for first, _ in begun[:4]] == list("abcd") == sorted(second for _, second in begun[:4])
    assert set(begun) == set(itertools.permutations("abcd", 2))
    assert record_ai.jobs(["x/my deck.dck"], [], 1) == [Job(("x/my deck.dck", "x/my deck.dck"), ("", ""), 0)]
    assert record_ai.jobs(["x/my deck.dck"], [], 1)[0].file == "000000_my_deck_vs_my_deck.forge.xz"


def test_commands_for_the_daemon(tmp_path):
    (tmp_path / "my deck.dck").write_text("[Main]\n60 Plains\n")
    job = Job(("aggro", str(tmp_path / "my deck")), ("", "Reckless"), 3)
    assert recording.words(record_ai.newgame(job)) == [
        *("NEWGAME", str(DECKS / "aggro.dck"), str(tmp_path / "my deck.dck")),
        *("-o", "-a", "-A", "Default,Reckless", "-c", "30", "-s", "3"),
    ]
    assert (
        record_ai.newgame(Job(("far", "away"), ("", ""), 0), passes=True, limit=2.5)
        == "NEWGAME far away -o -c 2.5 -s 0"
    )


def test_games_are_written_once_and_whole(recorded, tmp_path):
    wanted = record_ai.jobs(["aggro", "counterspells"], [], 6)
    progress, games, played = recorded(wanted[:4])
    assert (progress.done, progress.kept, played) == (4, 0, 4) and set(games) == {job.file for job in wanted[:4]}
    for game in games.values():
        assert game.complete and body(game) in [body(each) for each in GAMES]
        assert game.meta["options"] == "-o -a -c 30" and list(game.decisions())
    progress, games, played = recorded(wanted)  # goes on where it stopped
    assert (progress.done, progress.kept, played) == (2, 4, 2) and set(games) == {job.file for job in wanted}
    assert "6 of 6 games" in str(progress) and "kB a game" in str(progress)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["close", "half", "silent"])
def test_a_daemon_that_goes_wrong_costs_nothing(recorded, kind):
    wanted = record_ai.jobs(["aggro", "counterspells"], [], 4)
    _, clean, _ = recorded(wanted[:2])
    _, games, played = recorded(wanted, faults=[Fault(kind, game=2)])
    assert played == 3  # one of two twice
    assert len(games) == 4 and all(game.complete for game in games.values())
    assert {name: games[name].lines for name in clean} == {name: game.lines for name, game in clean.items()}


def test_a_game_that_is_refused_or_always_fails_ends_it(recorded):
    wanted = record_ai.jobs(["aggro", "counterspells"], [], 3)
    with pytest.raises(UserError, match="Forge refuses a game: no deck of that name"):
        recorded(wanted, faults=[Fault("refuse", times=0)])
    with pytest.raises(UserError, match="a game failed 3 times"):
        recorded(wanted, faults=[Fault("close", times=0)])


def test_the_command_line(tmp_path, capsys):
    with contextlib.closing(FakeDaemon(OBSERVED)) as daemon:
        out, place = str(tmp_path / "out"), daemon.address
        assert main(["forge", "record", "--games", "2", "--out", out, f"forge.daemons={place}"]) == 0
        assert "out: 2 of 2 games" in capsys.readouterr().out
    assert main(["forge", "story", out, "--game", "2"]) == 0
    assert "Result: " in capsys.readouterr().out
    for wrong, says in (
        (["forge"], "forge needs a command first: decks, record, story"),
        (["forge", "stroy"], "did you mean 'story'"),
        (["forge", "record", "--games", "0"], "at least one game"),
        (["forge", "record", "--limit", "0"], "--limit is in seconds of computing, at least 0.001"),
        (["forge", "record", "forge.daemons=nowhere"], "host:port"),
        (
            ["forge", "record", "forge.daemons=127.0.0.1:1", "--out", "/dev/null/x"],
            "the folder /dev/null/x for recordings cannot be made",
        ),
        (["forge", "story", str(tmp_path / "missing")], "there is no recording"),
    ):
        assert main(wrong) == 2
        assert says in capsys.readouterr().err
