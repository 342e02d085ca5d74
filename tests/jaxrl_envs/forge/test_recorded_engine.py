"""The recorded engine, which serves recorded games in place of a daemon; the tests' fake daemon is built on it."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys

import pytest

from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Writer
from tests.support.forge.conversations import RECORDED, made_up
from tests.support.forge.fleets import until as settled
from tests.support.forge.recorded_engine import RecordedEngine, RecordedGame
from tests.support.paths import ROOT

NEWGAME = "NEWGAME a b -i -a -s 1"


class Client:
    """A client of a daemon that does one thing after the other."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile()

    def say(self, line: str) -> None:
        self.socket.sendall(line.encode() + b"\n")

    def hear(self) -> str | None:
        """The next line; None if the connection was closed."""
        return self.file.readline().rstrip("\n") or None

    def ask(self, line: str) -> str | None:
        self.say(line)
        return self.hear()

    def play(self, newgame: str, answers=lambda line: "0") -> list[str]:
        """All lines of a game."""
        heard = [self.ask(newgame)]
        while not heard[-1].startswith(("GAME_RESULT:", "ERROR:")):
            heard.append(self.ask(answers(heard[-1])) if heard[-1].startswith("DECISION:") else self.hear())
        return heard

    def __enter__(self):
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()
        self.socket.close()


def settle(condition):
    settled(condition, "the daemon has noticed")


@contextlib.contextmanager
def replaying(conversations, strict=False):
    """A replay daemon in threads of this process."""
    daemon = RecordedEngine([RecordedGame(each) for each in conversations], strict=strict, forge="1.0")
    daemon.in_thread()
    yield daemon
    daemon.shutdown()
    daemon.server_close()


def recorded(conversation):
    """The lines of the daemon."""
    return [line[2:].decode() for line in conversation.lines if line.startswith(b"< ")]


def test_all_recorded_games_are_replayed_to_the_letter():
    games = [game for path in recording.find([RECORDED]) for game in recording.read(path)]
    with replaying(games, strict=True) as daemon, Client(daemon.port) as client:
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
        assert daemon.played == len(games) > 20


def test_any_answer_will_do_unless_it_is_strict():
    game = made_up()
    with replaying([game]) as daemon, Client(daemon.port) as client:
        for _ in range(2):  # the connection stays
            assert client.play(NEWGAME, lambda line: "94") == recorded(game)
        assert client.play(NEWGAME + " -q") == recorded(game)[2:] and daemon.played == 3
    with replaying([game], strict=True) as daemon, Client(daemon.port) as client:
        heard = client.play(NEWGAME, lambda line: "0")
        assert heard[-1] == "ERROR: decision 2 was answered '1' in the recording, not '0'"
        assert client.hear() is None


def test_the_choice_of_a_recording():
    games = [
        made_up(("a", "b"), 1, 5, note="x"),
        made_up(("a", "b"), 2, 6, note="x"),
        made_up(("b", "a"), 1, 7, note="x"),
        made_up(("a", "b"), 1, 8, options="-p 1 -a", note="x"),
        made_up(("a", "b"), 1, 9, options="-i", note="x"),
    ]
    with replaying(games) as daemon, Client(daemon.port) as client:

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


def test_one_game_at_a_time():
    with replaying([made_up()]) as daemon:
        first, second, third = (Client(daemon.port) for _ in range(3))
        with first, second, third:
            for each in (first, second, third):
                each.say(NEWGAME)
            settle(lambda: (daemon.active, daemon.waiting) == (1, 2))
            second.__exit__()  # leaves the queue when it is its turn
            first.__exit__()  # in the middle of its game
            assert third.hear() == "GAME_START: a vs b"


# ---- as a process ---------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    with Writer(tmp_path / "games.forge.gz") as writer:
        for seed in range(1, 4):
            writer.copy(made_up(seed=seed, decisions=8 + seed))
    return tmp_path / "games.forge.gz"


def test_it_is_a_process(file):
    command = [sys.executable, "-m", "tests.support.forge.recorded_engine", "--port", "0", "--daemons", "3"]
    with subprocess.Popen([*command, str(file)], stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        told = re.fullmatch(r"FORGE DAEMON READY port=(\d+),(\d+),(\d+) forge=1.0\n", process.stdout.readline())
        assert f"'forge.daemons=[127.0.0.1:{told[1]},127.0.0.1:{told[2]},127.0.0.1:" in process.stdout.readline()
        for port in map(int, told.groups()):
            with Client(port) as client:
                assert client.ask("HELLO 1") == "HELLO 1 forge=1.0"
                assert client.play("NEWGAME a b -i -a -s 2") == recorded(made_up(seed=2, decisions=10))
        with Client(port) as client:
            client.say("SHUTDOWN")
        assert process.wait(10) == 0
