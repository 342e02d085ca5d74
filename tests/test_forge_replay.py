"""The replay server: a daemon made of recordings, that goes wrong when it is told to."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest

from envs.errors import UserError
from envs.forge import recording
from envs.forge.recording import Writer
from envs.forge.replay import ReplayServer
from envs.forge.replay_faults import KINDS, LONG_LINE, ReplayFault
from tests.forge_conversations import GOLDEN, Client, made_up, serving

NEWGAME = "NEWGAME a b -i -a -s 1"


def recorded(conversation):
    """The lines of the daemon."""
    return [line[2:].decode() for line in conversation.lines if line.startswith(b"< ")]


def recorded_answers(conversation):
    answers = iter([line[2:].decode() for line in conversation.lines[1:] if line.startswith(b"> ")])
    return lambda line: next(answers)


@pytest.fixture
def file(tmp_path):
    with Writer(tmp_path / "games.forge.gz") as writer:
        for seed in range(1, 4):
            writer.copy(made_up(seed=seed, decisions=8 + seed))
    return tmp_path / "games.forge.gz"


def test_commands():
    with serving([made_up()]) as server, Client(server.ports[0]) as client:
        assert client.ask("HELLO 1") == "HELLO 1 forge=1.0"
        assert client.ask("PING") == "PONG"
        assert client.ask("STATUS") == "FORGE DAEMON STATUS"
        assert [client.hear() for _ in range(7)][0] == "  Active games: 0"
        assert client.ask("DANCE") == "ERROR: unknown command DANCE"
        assert client.ask("3") == "ERROR: no decision is awaited"
        assert client.ask("NEWGAME a").startswith("ERROR: ")
        assert client.ask("QUIT") is None


def test_a_game_is_what_was_recorded():
    game = made_up(decisions=30)
    with serving([game], strict=True) as server, Client(server.ports[0]) as client:
        for _ in range(3):  # the connection stays
            assert client.play(NEWGAME, recorded_answers(game)) == recorded(game)
        assert client.play(NEWGAME + " -q", recorded_answers(game)) == recorded(game)[2:]
        assert server.games == 4 and server.mismatches == 0


def test_all_recorded_games_are_replayed_to_the_letter():
    games = [game for path in recording.find([GOLDEN]) for game in recording.read(path)]
    with serving(games, strict=True) as server, Client(server.ports[0]) as client:
        for game in games:
            newgame = game.lines[0][2:].decode()
            if any(line.startswith(b"< DECISION") for line in game.lines):
                client.say(newgame)
                for line in game.lines[1:]:
                    if line.startswith(b"> "):
                        client.say(line[2:].decode())
                    else:
                        assert client.hear() == line[2:].decode()
            else:
                assert client.play(newgame) == recorded(game)
        assert server.games == len(games) > 20 and server.mismatches == 0


def test_any_answer_will_do_unless_it_is_strict():
    game = made_up()
    with serving([game]) as server, Client(server.ports[0]) as client:
        assert client.play(NEWGAME, lambda line: "94") == recorded(game)
    with serving([game], strict=True) as server, Client(server.ports[0]) as client:
        heard = client.play(NEWGAME, lambda line: "0")
        assert heard[-1] == "ERROR: decision 2 was answered '1' in the recording, not '0'"
        assert client.hear() is None and server.mismatches == 1


def test_commands_between_decision_and_answer():
    with serving([made_up()]) as server, Client(server.ports[0]) as client, Client(server.ports[0]) as other:
        client.say(NEWGAME)
        assert [client.hear()[:5] for _ in range(3)] == ["GAME_", "SEED:", "DECIS"]
        assert client.ask("PING") == "PONG" and other.ask("PING") == "PONG"
        client.say(NEWGAME)  # waits for its turn
        assert client.ask("PING") == "PONG"
        other.say("STATUS")
        assert [other.hear() for _ in range(8)][1:4:2] == ["  Active games: 1", "  Waiting: 1"]
        assert '"decision_id":2' in client.ask("0")
        for _ in range(9):
            client.say("0")
        assert [client.hear() for _ in range(10)][-2:] == [recorded(made_up())[-1], "GAME_START: a vs b"]


def test_the_choice_of_a_recording():
    games = [
        made_up(("a", "b"), 1, 5, note="x"),
        made_up(("a", "b"), 2, 6, note="x"),
        made_up(("b", "a"), 1, 7, note="x"),
        made_up(("a", "b"), 1, 8, options="-p 1 -a", note="x"),
        made_up(("a", "b"), 1, 9, options="-i", note="x"),
    ]
    with serving(games) as server, Client(server.ports[0]) as client:

        def length(newgame):
            heard = client.play(newgame)
            return sum(line.startswith("DECISION:") for line in heard), heard[1]

        assert length("NEWGAME a b -i -a -s 1") == (5, "SEED: 1")
        assert length("NEWGAME /decks/a.dck b.dck -i -a -s 2") == (6, "SEED: 2")
        assert length("NEWGAME b a -i -a -s 99") == (7, "SEED: 99")
        assert length("NEWGAME b a -p 1 -a -s 99")[0] == 8
        assert length("NEWGAME a b -i -s 1")[0] == 9
        chosen = [length(f"NEWGAME a b -i -a -s {seed}")[0] for seed in range(3, 30)]
        assert set(chosen) == {5, 6}
        assert [length(f"NEWGAME a b -i -a -s {seed}")[0] for seed in range(3, 30)] == chosen
        assert {length("NEWGAME c d -i -a")[0] for _ in range(30)} == {5, 6, 7}


def test_one_game_at_a_time_for_each_daemon():
    with serving([made_up()], daemons=2) as server:
        first, second, third, elsewhere = (Client(server.ports[i]) for i in (0, 0, 0, 1))
        with first, second, third, elsewhere:
            for each in (first, second, third, elsewhere):
                each.say(NEWGAME)
                time.sleep(0.05)
            assert first.hear() and elsewhere.hear()
            first.say("STATUS")
            assert "  Waiting: 2" in [first.hear() for _ in range(8)]
            second.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                second.socket.recv(1)
            second.close()  # leaves the queue
            first.close()  # in the middle of its game
            assert third.hear() == "GAME_START: a vs b"


def test_a_seat_that_is_given_away_is_not_asked_again():
    with serving([made_up(decisions=10)]) as server, Client(server.ports[0]) as client:
        heard = client.play(NEWGAME, lambda line: "ai! Reckless" if '"decision_id":3,' in line else "0")
        asked = [int(re.search(r'"decision_id":(\d+)', line)[1]) for line in heard if line.startswith("DECISION")]
        assert asked == [1, 2, 3, 4, 6, 8, 10] and heard[-1].startswith("GAME_RESULT")


def test_an_observed_game_is_sent_at_once():
    lines = [b"> NEWGAME a b -o -s 1", b"< GAME_START: a vs b", b"< SEED: 1"]
    lines += [b'< INFO:{"info_type":"observed","n":%d,"pad":"%s"}' % (i, b"x" * 5000) for i in range(500)]
    game = made_up()._replace(lines=[*lines, b"< GAME_RESULT: Draw in 1ms"])
    with serving([game]) as server, Client(server.ports[0]) as client:
        client.say("NEWGAME a b -o -s 1")
        time.sleep(0.3)  # more than the kernel keeps for a slow reader
        assert [client.hear() for _ in range(503)] == [line.decode()[2:] for line in game.lines[1:]]
        assert client.ask("PING") == "PONG"


def test_many_connections():
    game = made_up(decisions=50)
    with serving([game], daemons=40) as server:
        clients = [Client(port) for port in server.ports]
        for client in clients:
            client.say(NEWGAME)
        for _ in range(50):
            for client in clients:
                while not client.hear().startswith("DECISION:"):
                    pass
                client.say("0")
        assert {client.hear() for client in clients} == {recorded(game)[-1]}
        for client in clients:
            client.close()


# ---- faults ---------------------------------------------------------------------------------------------------------


def test_unknown_fault():
    with pytest.raises(UserError, match="did you mean 'close'"):
        ReplayFault("closed")


def play(client, newgame=NEWGAME):
    client.socket.settimeout(0.5)
    try:
        return client.play(newgame)
    except (TimeoutError, OSError):
        return ["nothing"]


ENDS = {  # how a game of ten decisions looks to the client when its third one is hit
    "close": (None, 4), "half": (None, 4), "stall": ("nothing", None), "silent": ("nothing", None),
    "hang": ("nothing", None), "vanish": (None, 4), "refuse": ("ERROR: ", 1), "timeout": ("GAME_RESULT: Draw", 6),
    "error": ("GAME_RESULT: Draw", 6), "slow": ("GAME_RESULT: Agent", 13), "chatter": ("GAME_RESULT: Agent", 15),
    "long": ("GAME_RESULT: Agent", 13), "utf8": ("GAME_RESULT: Agent", 13), "garbage": ("GAME_RESULT: Agent", 13),
    "unknown": ("GAME_RESULT: Agent", 13), "other": ("GAME_RESULT: Agent", 13),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(ENDS))
def test_each_fault(kind):
    fault = ReplayFault(kind, game=2, decision=3, seconds=0.2 if kind == "slow" else 0.0)
    games = [made_up(seed=1), made_up(seed=2, note="other")]
    with serving(games, faults=[fault]) as server:
        with Client(server.ports[0]) as client:
            assert play(client) == recorded(games[0])
            heard = play(client)
            end, count = ENDS[kind]
            if end is not None:
                assert heard[-1].startswith(end)
            if count is not None:
                assert len(heard) == count
            plain = [line for line in heard if line in recorded(games[0])]
            assert len(plain) < len(recorded(games[0])) or kind in ("slow", "chatter")
        if kind in ("vanish", "hang"):
            with pytest.raises((OSError, AssertionError)), Client(server.ports[0], timeout=0.3) as client:
                assert client.ask("PING") == "PONG"
        else:
            with Client(server.ports[0]) as client:
                assert play(client) == recorded(games[0]), "once only"


def test_every_fault_is_tested():
    assert {*ENDS, "die"} == set(KINDS)


def test_what_faulty_lines_look_like():
    def third(kind):
        with serving([made_up()], faults=[ReplayFault(kind, decision=3)]) as server, Client(server.ports[0]) as client:
            return play(client)[4]

    assert len(third("long")) > LONG_LINE
    assert "\udcff" in third("utf8")
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(third("garbage").partition(":")[2])
    unknown = json.loads(third("unknown").partition(":")[2])
    assert unknown["decision_type"] == "choose_wisely" and unknown["decision_id"] == 3


def test_a_daemon_that_comes_back():
    with serving([made_up()], faults=[ReplayFault("vanish", decision=2, seconds=0.3)]) as server:
        with Client(server.ports[0]) as client:
            assert len(play(client)) == 3
        with pytest.raises(OSError):
            Client(server.ports[0])
        time.sleep(0.6)
        with Client(server.ports[0]) as client:
            assert play(client) == recorded(made_up())


def test_faults_at_a_rate():
    with serving([made_up(decisions=20)], faults=[ReplayFault("close", rate=0.02, times=0)]) as server:
        ended = 0
        for _ in range(100):
            with Client(server.ports[0]) as client:
                ended += len(play(client)) == 23
        assert 50 < ended < 85  # 0.98 ** 20 = 0.67


def test_a_server_in_a_process_of_its_own(file):
    with ReplayServer([file], daemons=3) as server:
        assert len(set(server.ports)) == 3 and server.addresses[0] == f"127.0.0.1:{server.ports[0]}"
        for port in server.ports:
            with Client(port) as client:
                assert client.ask("HELLO 1") == "HELLO 1 forge=1.0"
                assert client.play("NEWGAME a b -i -a -s 2") == recorded(made_up(seed=2, decisions=10))
    assert server.process.returncode == 0
    with pytest.raises(OSError):
        Client(server.ports[0])


def test_kill_9(file):
    with ReplayServer([file.parent], faults=[ReplayFault("die", game=2, decision=4)]) as server:
        with Client(server.ports[0]) as client:
            assert play(client)[-1].startswith("GAME_RESULT")
            assert len(play(client)) == 5
        assert server.process.wait(5) == -signal.SIGKILL


def test_shutdown(file):
    with ReplayServer([file]) as server, Client(server.ports[0]) as client:
        client.say("SHUTDOWN")
        assert server.process.wait(5) == 0


def test_a_server_that_cannot_start(file, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no recordings"):
        ReplayServer([tmp_path / "empty"])
    with ReplayServer([file]) as server, pytest.raises(UserError, match=f"cannot listen on port {server.ports[0]}"):
        ReplayServer([file], port=server.ports[0])
