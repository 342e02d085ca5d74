"""Recorded engine: serves recorded games in place of Forge's daemon.

A game asked for by NEWGAME gets the recording with its decks and seed if there is one, else one that its decks and
its seed choose: the same game always gives the same decisions, whatever was played before. By default any answer will
do (the recording goes on as it was recorded); a strict daemon refuses answers that are not the recorded ones.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socketserver
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.forge.fleet.daemon import PROTOCOL
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.shared.errors import UserError

HEAD = (b"< GAME_START:", b"< SEED:")
STATUS = """FORGE DAEMON STATUS
  Active games: {active}
  Total games played: {played}
  Memory: 0MB / 0MB
  Max concurrent: 1
  Waiting: {waiting}
"""
LONGEST = 1 << 16  # bytes of a client's line
Game = Generator[bytes, bytes, bytes]  # yields what is said before each answer, returns what comes after the last one


class NewGame(NamedTuple):
    """The fields of a NEWGAME line."""

    decks: tuple[str, ...]
    seed: int | None
    mode: str  # "i", "1", "2" or "12": the seats that the client holds; "o": observed; "ai": no seat is asked
    quiet: bool
    always_ask: bool
    mulligans: bool
    options: str  # as they were written, without the decks and the seed


def parse_newgame(line: str) -> NewGame:
    """Parses a NEWGAME line; unknown options with a value are kept as text."""
    found = recording.words(line)[1:]
    decks = tuple(itertools.takewhile(lambda word: not re.fullmatch(r"-[a-zA-Z]", word), found))
    values: dict[str, str] = {}
    rest = iter(found[len(decks) :])
    seats = ""
    for word in rest:
        value = next(rest, "") if word in ("-p", "-c", "-s", "-A", "-f") else ""
        seats += value if word == "-p" else ""
        values[word] = value
    seats = "12" if "-i" in values else "".join(sorted(set(seats)))
    mode = "o" if "-o" in values else {"12": "i"}.get(seats, seats or "ai")
    seed = values.pop("-s", "")
    return NewGame(
        decks=decks,
        seed=int(seed) if re.fullmatch(r"-?\d+", seed) else None,
        mode=mode,
        quiet="-q" in values,
        always_ask="-a" not in values,
        mulligans="-m" in values,
        options=" ".join(f"{key} {recording.quoted(value)}" if value else key for key, value in values.items()),
    )


def read_all(paths: Iterable[str | Path]) -> list[Conversation]:
    """All complete conversations of files and folders.

    Raises:
      UserError: as `find` and `read`, and if there is not one complete game.
    """
    paths = recording.find(paths)
    found = [each for path in paths for each in recording.read(path) if each.complete]
    if not found:
        raise UserError(f"there is no complete game in {', '.join(map(str, paths)) or 'an empty list'}.")
    return found


class RecordedGame:
    """A recorded game, split at the client's answers.

    Attributes:
      parts: for each answer: the daemon's text before it, the seat that was asked (None: unknown), and the answer.
      end: the daemon's text after the last answer.
    """

    def __init__(self, conversation: Conversation):
        newgame = next((line[2:] for line in conversation.lines if line.startswith(b"> NEWGAME")), b"NEWGAME")
        self.newgame = parse_newgame(newgame.decode())
        self.decks = tuple(map(recording.deck_name, self.newgame.decks))
        seed = next((line for line in conversation.lines if line.startswith(b"< SEED:")), None)
        self.seed = int(seed.split(b":")[1]) if seed else self.newgame.seed
        self.parts: list[tuple[bytes, int | None, bytes]] = []
        self.end = b""
        for line in conversation.lines:
            if line.startswith(recording.CLIENT) and not line.startswith(b"> NEWGAME"):
                self.parts.append((self.end, _seat_of(self.end), line[2:]))
                self.end = b""
            elif line.startswith(recording.DAEMON) and not line.startswith(HEAD):
                self.end += line[2:] + b"\n"

    def fits(self, wanted: NewGame) -> tuple[bool, bool, bool, bool]:
        """Rates how well it serves as the wanted game: a better one is greater."""
        return (
            self.newgame.mode == wanted.mode,
            (self.newgame.always_ask, self.newgame.mulligans) == (wanted.always_ask, wanted.mulligans),
            self.decks == tuple(map(recording.deck_name, wanted.decks)),
            wanted.seed is not None and self.seed == wanted.seed,
        )

    def play(self, wanted: NewGame, strict: bool) -> Game:
        """The game again; seats that the client gives to Forge's AI are not asked any more."""
        said = b"" if wanted.quiet else f"GAME_START: {' vs '.join(self.decks)}\nSEED: {wanted.seed}\n".encode()
        held = set()
        for number, (text, seat, recorded) in enumerate(self.parts, 1):
            if seat in held:
                continue
            answer = yield said + text
            said = b""
            if strict and answer != recorded:
                refused = f"was answered {recorded.decode()!r} in the recording, not {answer.decode()!r}"
                return f"ERROR: decision {number} {refused}\n".encode()
            if answer.startswith(b"ai!") and seat is not None:
                held.add(seat)
        return said + self.end


def _seat_of(text: bytes) -> int | None:
    """The seat that the last decision of a text asks."""
    found = re.search(rb'"seat":(\d+)', text[text.rfind(b"DECISION:") :])
    return int(found[1]) if found else None


def choose(recorded_games: Sequence[RecordedGame], wanted: NewGame) -> RecordedGame:
    """The recording for a game: always the same for the same decks, options and seed."""
    fits = [each.fits(wanted) for each in recorded_games]
    if all(max(fits)):
        return recorded_games[fits.index(max(fits))]
    best = [each for each, fit in zip(recorded_games, fits, strict=True) if fit[:3] == max(fits)[:3]]
    names = ",".join(map(recording.deck_name, wanted.decks))
    return best[zlib.crc32(f"{names} {wanted.seed}".encode()) % len(best)]


class ClientHandler(socketserver.StreamRequestHandler):
    """Serves one client's connection, in its own thread."""

    server: RecordedEngine
    disable_nagle_algorithm = True

    def say(self, text: bytes) -> None:
        """Sends whole lines."""
        self.wfile.write(text)

    def lines(self) -> Iterator[bytes]:
        """The client's lines, until it goes or a line is too long."""
        while (line := self.rfile.readline(LONGEST + 1)).endswith(b"\n"):
            yield line.rstrip(b"\r\n")
        if len(line) > LONGEST:
            self.say(b"ERROR: line too long\n")

    def handle(self) -> None:
        """Until the client goes."""
        with contextlib.suppress(OSError):
            for line in self.lines():
                if not self.command(line.decode(errors="replace")):
                    return

    def command(self, line: str) -> bool:
        """Does what a line that is no answer says; false: the connection is over."""
        daemon, name = self.server, line.partition(" ")[0]
        if name == "NEWGAME":
            return self.newgame(parse_newgame(line))
        if name == "SHUTDOWN":
            daemon.end()
        elif name == "HELLO":
            self.say(f"HELLO {PROTOCOL} forge={daemon.forge}\n".encode())
        elif name == "PING":
            self.say(b"PONG\n")
        elif name == "STATUS":
            self.say(STATUS.format(active=daemon.active, played=daemon.played, waiting=daemon.waiting).encode())
        elif line and name != "QUIT":
            what = f"unknown command {name}" if name.isupper() else "no decision is awaited"
            self.say(f"ERROR: {what}\n".encode())
        return name not in ("QUIT", "SHUTDOWN")

    def newgame(self, wanted: NewGame) -> bool:
        """Plays a game when it is its turn; false: the connection is over."""
        if len(wanted.decks) != 2:
            self.say(b"ERROR: NEWGAME needs two decks\n")
            return True
        with self.server.turn():
            seed = next(self.server.seeds) if wanted.seed is None else wanted.seed
            game, answer = self.game(wanted._replace(seed=seed)), None
            while True:
                try:
                    self.say(next(game) if answer is None else game.send(answer))
                except StopIteration as end:
                    self.say(end.value)
                    return not end.value.startswith(b"ERROR: decision")  # of a strict daemon
                answer = self.answer()
                if answer is None:
                    return False

    def game(self, wanted: NewGame) -> Game:
        """The game to play."""
        return choose(self.server.recorded_games, wanted).play(wanted, self.server.strict)

    def answer(self) -> bytes | None:
        """The next line that is no command, for those begin with a capital letter; None: the client has gone."""
        for line in self.lines():
            if not line[:1].isupper():
                return line
            if line.startswith(b"NEWGAME") or not self.command(line.decode(errors="replace")):
                break
        return None


class RecordedEngine(socketserver.ThreadingTCPServer):
    """A daemon on this machine that serves recorded games one at a time, as the real one plays; other clients wait."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    handler: type[ClientHandler] = ClientHandler

    def __init__(
        self, recorded_games: Sequence[RecordedGame], port: int = 0, *, strict: bool = False, forge: str = "replay"
    ):
        """Listens on `port`, 0: a free one; `end` is what SHUTDOWN does."""
        self.recorded_games, self.strict, self.forge = recorded_games, strict, forge
        self.end: Callable[[], Any] = lambda: None
        self.active = self.waiting = self.played = 0
        self.seeds = itertools.count(1)  # of games that have none
        self._table, self._counts = threading.Lock(), threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), self.handler)
        except OSError as error:
            raise UserError(f"cannot listen on port {port}: {error.strerror}; choose another one.") from None
        self.port: int = self.server_address[1]

    def in_thread(self) -> None:
        """Serves from now on."""
        threading.Thread(target=self.serve_forever, args=(0.02,), name=f"daemon {self.port}", daemon=True).start()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """While it lasts, the one game is the caller's."""
        with self._counts:
            self.waiting += 1
        with self._table:
            with self._counts:
                self.waiting -= 1
            self.active, self.played = 1, self.played + 1
            try:
                yield
            finally:
                self.active = 0
