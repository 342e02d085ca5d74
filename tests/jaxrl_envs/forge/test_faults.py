"""Whatever goes wrong with daemons, no transition is lost or counted twice: the same games as without faults.

Games are played through the whole chain, pool, engine, links and fleet; the daemons play recorded games and go wrong on
request.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from jaxrl_envs.forge.engine.faults import GameFault
from jaxrl_envs.forge.engine.games import INFO_NAMES
from jaxrl_envs.forge.engine.live_game import LiveGame, Terms
from jaxrl_envs.forge.engine.state import ENDS, GameState
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.forge.wire.link import Link
from jaxrl_envs.host.game import EngineError
from tests.support.forge.conversations import RECORDED
from tests.support.forge.fake import Fault, RecordedGame, fake_home, fake_java
from tests.support.forge.lines import server
from tests.support.forge.play import HASTY, STEPS, faking, play

pytestmark = pytest.mark.thorough

GAMES = 8


@pytest.fixture(scope="module")
def recorded():
    return [RecordedGame(each) for each in recording.read(RECORDED / "both_seats.forge.gz")]


@pytest.fixture(scope="module")
def clean(recorded):
    """What happens without faults."""
    with faking(recorded, GAMES) as fleet:
        return play(fleet)


def same(found, expected):
    """The same transitions, and the same totals."""
    for game, (got, wanted) in enumerate(zip(found.rows, expected.rows, strict=True)):
        for step, pair in enumerate(zip(got, wanted, strict=True)):
            assert pair[0] == pair[1], f"game {game}, step {step}"
    assert np.array_equal(found.state, expected.state)
    for name in ("games_started", "games_finished"):
        assert found.counters[name] == expected.counters[name]
    assert found.ended == expected.ended > GAMES


def test_the_games_that_are_compared(clean, recorded):
    """There is something to compare: games of all lanes end, and rewards add up."""
    assert all(sum(row.terminated for row in rows) >= 1 for rows in clean.rows)
    assert clean.counters["games_finished"] == clean.ended and not clean.counters["faults_by_reason"]
    for rows in clean.rows:
        length = 0
        for row in rows:
            mine, theirs = np.frombuffer(row.rewards, np.float32)
            assert mine == -theirs and abs(mine) == row.terminated  # a recorded game is never a draw
            over = row.terminated or row.truncated
            assert row.length > length or over
            length = 0 if over else row.length
    with faking(recorded, GAMES) as fleet:
        same(play(fleet, threads=2), clean)


def at_times(kind, **more):
    """A fault of that kind in several games: in some of the first ones, and in games that come later."""
    places = zip((2, 5, 11, 15, 19, 24), (4, 12, 3, 7, 1, 9), strict=True)
    return [Fault(kind, game=game, decision=decision, **more) for game, decision in places]


REASONS = {
    **{"close": "closed", "half": "closed", "garbage": "garbage", "utf8": "bad utf-8", "long": "too long"},
    **{"noise": "garbage", "chatter": ""},
}


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_daemons_that_keep_going_wrong(clean, recorded, kind):
    with faking(recorded, GAMES, at_times(kind)) as fleet:
        found = play(fleet)
    struck = fleet.mischief.struck
    same(found, clean)
    replays = {reason: count for reason, count in found.replays.items() if reason != "evicted"}
    assert struck > 3 and replays == ({REASONS[kind]: struck} if REASONS[kind] else {})
    assert found.counters["faults_by_reason"] == replays


def test_a_game_that_is_another_one_when_it_is_played_again(clean, recorded):
    """Once: it is tried again. That cannot be told from a JVM in which something is broken."""
    faults = [Fault("close", game=1, decision=12), Fault("other", game=2, decision=2)]
    with faking(recorded, 2, faults) as fleet:
        found = play(fleet, games=1)
    assert found.rows[0] == clean.rows[0]
    assert found.replays == {"closed": 1, "different game": 1}


@pytest.mark.parametrize("kind", ["silent", "stall"])
def test_daemons_that_stop_answering(clean, recorded, kind):
    with faking(recorded, GAMES, at_times(kind)[:3], decision_timeout=0.6) as fleet:
        found = play(fleet)
    struck = fleet.mischief.struck
    same(found, clean)
    assert struck and found.replays["timeout"] == struck


@pytest.mark.parametrize("kind", ["hang", "vanish"])
def test_daemons_that_never_come_back(clean, recorded, kind):
    """The others play all the games, evicting each other."""
    faults = [Fault(kind, game=3, decision=5), Fault(kind, game=6, decision=9)]
    with faking(recorded, GAMES, faults, decision_timeout=0.6) as fleet:
        found = play(fleet, steps=60)
    struck = fleet.mischief.struck
    assert [rows[:60] for rows in clean.rows] == found.rows
    assert found.replays["evicted"] > 0
    assert 1 <= sum(daemon["state"] == "down" for daemon in found.counters["daemons"]) <= struck


def test_few_daemons_for_many_games(clean, recorded):
    with faking(recorded, 3) as fleet:
        found = play(fleet, steps=40)
    assert [rows[:40] for rows in clean.rows] == found.rows
    assert found.replays["evicted"] > 0 and set(found.replays) == {"evicted"}


def test_all_daemons_are_gone_at_once(clean, recorded):
    """Several times, in the middle of their games; they are started again."""
    with faking(recorded, GAMES) as fleet:

        def strike(step):
            if step in (15, 60, 110):
                for each in fleet.fakes:
                    each.close()
                    threading.Timer(0.05, each.open).start()

        same(found := play(fleet, watch=strike), clean)
    assert found.replays["closed"] >= 3


def test_kill_9(tmp_path):
    """Processes of ours are killed in the middle of their games; every game goes on where it was."""
    played = []
    for faults in ([], [Fault("die", start=1, decision=3), Fault("die", start=2, decision=5)]):
        folder = tmp_path / str(len(played))
        folder.mkdir()
        places = {"home": str(fake_home(folder)), "java": str(fake_java(folder, faults))}
        with Fleet(Deployment(daemons=2, **places), HASTY) as fleet:
            played.append(play(fleet, games=2, steps=30))
    clean, found = played
    assert found.rows == clean.rows and np.array_equal(found.state, clean.state)
    assert found.counters["restarts"] == 2 and found.replays["closed"] == 2


def test_unknown_decision_types(recorded):
    """Forge decides those; the game goes on, is counted, and is the same again."""
    with faking(recorded, GAMES, [Fault("unknown", decision=3, times=0)]) as fleet:
        first, second = play(fleet), play(fleet, threads=1)
    assert first.rows == second.rows
    assert all(max(row.info[4] for row in rows) == 1 for rows in first.rows)


@pytest.mark.parametrize("kind", ["timeout", "error"])
def test_games_that_the_daemon_gives_up(recorded, kind):
    """They are cut off, not decided; the next game begins."""
    with faking(recorded, GAMES, [Fault(kind, decision=8, times=0)]) as fleet:
        found = play(fleet)
        assert set(fleet.finished) == {kind}
    assert found.ended > 2 * GAMES
    for rows in found.rows:
        for row in rows:
            assert not row.terminated and row.rewards == bytes(8)
            if row.truncated:
                assert ENDS[row.info[INFO_NAMES.index("end")]] == kind and row.final_player >= 0
                errors = row.info[INFO_NAMES.index("engine_errors")]
                assert errors == row.stats[4] == row.stats[9] == (kind == "error")


AGAIN = "Forge failed 3 times at the same place of the game with seed .*"


@pytest.mark.parametrize(
    ("faults", "says", "failures"),
    [
        ([Fault("close", decision=5, times=0)], f"{AGAIN}the connection to .* is closed", ["closed"] * 3),
        ([Fault("garbage", decision=5, times=0)], f"{AGAIN}a line that is no message of its protocol", ["garbage"] * 3),
        ([Fault("long", decision=5, times=0)], f"{AGAIN}sent a line that is too long", ["too long"] * 3),
        ([Fault("utf8", decision=5, times=0)], f"{AGAIN}sent a line that is not UTF-8", ["bad utf-8"] * 3),
        ([Fault("silent", decision=5, times=0)], f"{AGAIN}it did not answer for 1(.0)? s", ["timeout"] * 3),
        ([Fault("refuse", decision=0)], "Forge's daemon does not begin the game .no deck of that name.", []),
        (
            [Fault("close", game=1, decision=6), *(Fault("other", game=n, decision=2) for n in (2, 3))],
            r"plays seed \d+ differently than before.* was Forge, Java or a deck changed since it began",
            ["closed", "different game", "different game"],
        ),
    ],
    ids=["close", "garbage", "long", "utf8", "silent", "refuse", "other"],
)
def test_what_does_not_go_away_ends_in_one_sentence(recorded, faults, says, failures):
    with faking(recorded, 2, faults, decision_timeout=1.0) as fleet, pytest.raises(EngineError, match=says) as error:
        play(fleet, games=1, steps=60)
    assert "\n" not in str(error.value) and str(error.value).startswith("game 0: ")
    assert fleet.failures == failures and fleet.mischief.games == len(failures) + (not failures)


def test_a_daemon_that_talks_and_asks_nothing():
    def serve(connection):
        while True:
            connection.sendall(b'INFO:{"info_type":"weather"}\n' * 100)

    live = LiveGame(Terms(decision_timeout=0.2))
    with server(serve) as port:
        live.begin(Lease(Link.to("127.0.0.1", port)), "NEWGAME a b")
        with pytest.raises(GameFault, match=r"asked nothing for 0.2 s|did not answer for 0.2 s") as fault:
            live.forward(GameState(0, 0))
        live.lease.link.close()
        assert fault.value.kind == "timeout"


def test_a_checkpoint_goes_on_with_other_daemons(clean, recorded):
    with faking(recorded, GAMES) as fleet:
        first = play(fleet, steps=80)
    faults = at_times("close")
    with faking(recorded, GAMES, faults) as fleet:
        second = play(fleet, steps=STEPS - 80, after=first)
    joined = [a + b for a, b in zip(first.rows, second.rows, strict=True)]
    places = ((game, step) for game in range(GAMES) for step in range(STEPS))
    unlike = {(game, step) for game, step in places if joined[game][step] != clean.rows[game][step]}
    assert not unlike
    assert np.array_equal(second.state, clean.state)


def test_what_is_recorded_is_what_was_said(clean, recorded, tmp_path):
    """forge.record: played again with the answers in the files, by a server that takes no others."""
    with faking(recorded, GAMES, record=str(tmp_path)) as fleet:
        same(play(fleet), clean)
    found = [each for path in recording.find([tmp_path]) for each in recording.read(path)]
    games = [each for each in found if each.complete]
    assert len(games) == clean.ended
    with faking([RecordedGame(each) for each in games], GAMES, strict=True) as fleet:
        found = play(fleet, steps=30)
        assert not fleet.failures
    assert found.rows == [rows[:30] for rows in clean.rows]
