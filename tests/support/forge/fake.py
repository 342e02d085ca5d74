"""The one fake daemon of the tests, which goes wrong as a list of faults says; and a release and a `java` around it.

    FakeDaemon(faults=[Fault("close", game=2, decision=3)])       # in a thread of the tests: games of five numbers
    FakeDaemon(scripted)                                          # games that depend on every answer before them
    FakeDaemon(recorded_games, faults=...)                        # recorded games

    home = fake_home(folder)                                      # a folder with a jar and res/
    java = fake_java(folder, [Fault("die", start=1, decision=2)]) # takes the place of `java`: a daemon of numbers

What it compiled is told by the file `compiles` of `folder`. A file `cannot_compile` there holds what its compiler says
instead, and with nothing in it the compiler is killed once. With a file `scripted` its games are scripted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import re
import signal
import socket
import socketserver
import stat
import sys
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.forge.deckbuilding.deck import read_deck
from jaxrl_envs.forge.fleet.classes import BRIDGE
from jaxrl_envs.forge.fleet.daemon import PROTOCOL, TOKEN
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation, deck_name
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import PYTHONPATH

DECISIONS = 5  # of a game of numbers
VERSION = "1.6.99-FAKE"
KINDS = """
close half stall silent hang vanish die long utf8 garbage noise unknown other chatter refuse timeout error stuck
late say fail exit stubborn protocol work ready
""".split()


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Instead of a decision: close the connection, after half of the line (half), or say nothing more (silent), after half
    of the line (stall), on any connection (hang); vanish from the network, die as by kill -9; a line of 10 MB (long),
    not of UTF-8, of no JSON (garbage), of no kind (noise), of an unknown type, or another decision than before; chatter
    before it; an ERROR (refuse); the end of the game by timeout or error; a game that goes on after its client has left
    (stuck).

    Of the process: ready late by `seconds` (0: never), say `text` first, fail because of `text`, exit with code 1, be
    stubborn (SHUTDOWN, SIGTERM and the end of input do nothing), be `ready` with `text` more to say, speak another
    protocol, work `seconds` of CPU more for a game if `text` is among the flags of Java.

    Attributes:
      kind: one of KINDS.
      game: the number of the game, from 1 in the order in which they begin; 0: any.
      decision: which of its decisions is hit, from 1; 0: NEWGAME itself. A shorter game is left alone.
      times: how often it happens in all; 0: every time.
      start: the start of the process that it concerns, 0: all.
    """

    kind: str
    game: int = 0
    decision: int = 1
    times: int = 1
    start: int = 0
    seconds: float = 0.0
    text: str = ""

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind


class Mischief:
    """The faults of one or several daemons, which count their games together, and what was done of them."""

    def __init__(self, faults: Iterable[Fault] = ()):
        self.faults = list(faults)
        self.left = [each.times or -1 for each in self.faults]
        self.games = self.struck = 0
        self._lock = threading.Lock()

    def begin(self) -> int:
        """Returns the number of a game."""
        with self._lock:
            self.games += 1
            return self.games

    def due(self, game: int, decision: int) -> Fault | None:
        """Returns the fault that strikes now, if any."""
        with self._lock:
            for i, each in enumerate(self.faults):
                if self.left[i] and each.game in (0, game) and each.decision == decision:
                    self.left[i] -= 1
                    self.struck += 1
                    return each
        return None

    def of(self, kind: str) -> list[Fault]:
        return [each for each in self.faults if each.kind == kind]


# ---- games ----------------------------------------------------------------------------------------------------------

Game = Generator[bytes, bytes, bytes]  # yields what is said before each answer, returns what comes after the last one
Source = Callable[["FakeDaemon", "NewGame"], Game]


class NewGame(NamedTuple):
    """The fields of a NEWGAME line."""

    decks: tuple[str, ...]
    seed: int | None
    mode: str  # "i", "1" or "2": the seats that the client holds; "o": observed; "ai": no seat is asked
    quiet: bool
    always_ask: bool
    mulligans: bool


def parse_newgame(line: str) -> NewGame:
    """Parses a NEWGAME line."""
    found = recording.words(line)[1:]
    decks = tuple(itertools.takewhile(lambda word: not re.fullmatch(r"-[a-zA-Z]", word), found))
    seed, seats, flags, rest = None, set(), set(), iter(found[len(decks) :])
    for word in rest:
        flags.add(word)
        value = next(rest, "") if word in ("-p", "-c", "-s", "-A", "-f") else ""
        seats |= {value} if word == "-p" else set()
        seed = int(value) if word == "-s" else seed
    held = "i" if "-i" in flags or len(seats) == 2 else "".join(seats) or "ai"
    mode = "o" if "-o" in flags else held
    return NewGame(decks, seed, mode, "-q" in flags, "-a" not in flags, "-m" in flags)


def opening(wanted: NewGame) -> bytes:
    said = f"GAME_START: {' vs '.join(map(deck_name, wanted.decks))}\nSEED: {wanted.seed}\n"
    return b"" if wanted.quiet else said.encode()


def line_of(decision: dict[str, Any]) -> bytes:
    return b"DECISION:" + json.dumps(decision, separators=(",", ":")).encode() + b"\n"


def numbers(daemon: FakeDaemon, wanted: NewGame) -> Game:
    """Asks for numbers from 0 to 9, the seats in turn."""
    said = opening(wanted)
    for number in range(DECISIONS if wanted.mode == "i" else 0):
        seat = number % 2
        who = {"decision_id": number + 1, "player": f"Agent({seat + 1})-a", "seat": seat, "turn": number}
        state = {"turn": number, "phase": "MAIN1", "active": seat, "priority": seat, "you": seat, "players": []}
        asked = {"decision_type": "announce_value", **who, "phase": "MAIN1", "name": "X", "min": 0, "max": 9}
        yield said + line_of(asked | {"game_state": state})
        said = b""
    for each in daemon.mischief.of("work"):
        end = time.process_time() + each.seconds * any(each.text in word for word in sys.argv)
        while time.process_time() < end:
            pass
    left = b'INFO:{"info_type":"left","choices":{"payment":3},"asked":5}\n' if wanted.mode == "i" else b""
    return said + left + f"GAME_RESULT: {'Agent' if wanted.mode == 'i' else 'Ai'}(1)-a won in 5ms\n".encode()


def scripted(daemon: FakeDaemon, wanted: NewGame) -> Game:
    """Asks made-up decisions of all types, each of which depends on the seed and all answers before it."""
    from tests.support.forge.decisions import Maker

    decks = [deck_name(word) for word in wanted.decks]  # the same game wherever the decks lie
    state = zlib.crc32(f"{wanted.seed} {decks}".encode())
    held: set[int] = set()
    for count in range(1, daemon.length + state % 7):
        decision = Maker(state).decision(count, size=3)
        if decision["seat"] in held:
            state = zlib.crc32(b"held", state)
            continue
        answer = (yield line_of(decision)).decode()
        if not usable(decision, answer):
            daemon.unusable.append((decision["decision_type"], answer))
        if answer.startswith("ai!"):
            held.add(decision["seat"])
        state = zlib.crc32(answer.encode(), state)
    result = ("Draw in", "Agent(1)-a won in", "Ai(2)-b won in")[state % 3]
    return f"INFO:{{}}\nGAME_RESULT: {result} 5ms\n".encode()


def usable(decision: dict[str, Any], answer: str) -> bool:
    """Returns whether an answer fits the grammar and the bounds of its decision."""
    kind, options = decision["decision_type"], decision.get("options", decision.get("actions", []))
    if answer == "ai" or re.fullmatch(r"ai!( \w+)?", answer):
        return True
    if kind in ("confirm_action", "play_trigger", "mulligan"):
        return answer in ("y", "n")
    if kind in ("declare_attackers", "declare_blockers"):
        pairs = [tuple(map(int, pair.split(":"))) for pair in answer.split(",") if pair]
        if kind == "declare_attackers":
            able: dict[int, Any] = {each["index"]: range(len(each["defenders"])) for each in decision["attackers"]}
        else:
            able = {each["index"]: each["can_block"] for each in decision["blockers"]}
        return len(dict(pairs)) == len(pairs) and all(goal in able[who] for who, goal in pairs)
    if not re.fullmatch(r"(-?\d+(,-?\d+)*)?", answer):
        return False
    numbers = [int(number) for number in answer.split(",") if number]
    if kind == "announce_value":
        return len(numbers) == 1 and decision["min"] <= numbers[0] <= max(decision["min"], decision["max"])
    if kind == "choose_action" or (kind == "choose_entity" and decision["optional"]):
        return len(numbers) == 1 and -1 <= numbers[0] < len(options)
    if not all(0 <= number < len(options) for number in numbers):
        return False
    if kind == "order":
        return sorted(numbers) == list(range(len(options)))
    if kind in ("choose_ability", "choose_entity", "choose_color"):
        return len(numbers) == 1
    distinct = decision.get("repeat", False) or len(set(numbers)) == len(numbers)
    least, most = decision.get("min", 0), decision.get("max", len(options))
    return distinct and min(least, len(options)) <= len(numbers) <= most


# ---- recorded games -------------------------------------------------------------------------------------------------


class RecordedGame:
    """A recorded game, split at the client's answers. It takes any answer, or, if it is strict, the recorded ones only.

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
            elif line.startswith(recording.DAEMON) and not line.startswith((b"< GAME_START:", b"< SEED:")):
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
        """Plays the game again; seats that the client gives to Forge's AI are not asked any more."""
        said, held = opening(wanted), set()
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
    """Returns the seat that the last decision of a text asks."""
    found = re.search(rb'"seat":(\d+)', text[text.rfind(b"DECISION:") :])
    return int(found[1]) if found else None


def choose(recorded_games: Sequence[RecordedGame], wanted: NewGame) -> RecordedGame:
    """Returns the recording for a game: that of its decks and seed, else one that depends on them alone."""
    fits = [each.fits(wanted) for each in recorded_games]
    if all(max(fits)):
        return recorded_games[fits.index(max(fits))]
    best = [each for each, fit in zip(recorded_games, fits, strict=True) if fit[:3] == max(fits)[:3]]
    names = ",".join(map(recording.deck_name, wanted.decks))
    return best[zlib.crc32(f"{names} {wanted.seed}".encode()) % len(best)]


def recorded(daemon: FakeDaemon, wanted: NewGame) -> Game:
    """Plays one of the daemon's recorded games."""
    return choose(daemon.recorded_games, wanted).play(wanted, daemon.strict)


# ---- the daemon -----------------------------------------------------------------------------------------------------

STATUS = """FORGE DAEMON STATUS
  Active games: {active}
  Total games played: {played}
  Memory: 0MB / 0MB
  Max concurrent: 1
  Waiting: {waiting}
"""


class FakeHandler(socketserver.StreamRequestHandler):
    """A client's connection in a thread of its own, on which things go wrong."""

    server: FakeDaemon
    disable_nagle_algorithm = True
    known = False

    def say(self, text: bytes) -> None:
        if not self.server.deaf:
            self.wfile.write(text)

    def lines(self) -> Iterator[bytes]:
        """Yields the client's lines until it goes."""
        while (line := self.rfile.readline()).endswith(b"\n"):
            yield line.rstrip(b"\r\n")

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            for line in self.lines():
                if not self.command(line.decode(errors="replace")):
                    return

    def command(self, line: str) -> bool:
        """Does what a line says that is no answer; returns whether the connection goes on."""
        daemon, name = self.server, line.partition(" ")[0]
        self.known |= line == f"HELLO 1 {daemon.token}".strip() or not daemon.token
        if not self.known:
            self.say(b"ERROR: HELLO 1 and the token of this daemon come first\n")
            return False
        if name == "NEWGAME":
            daemon.commands.append(line)
            return self.newgame(parse_newgame(line))
        if name == "SHUTDOWN":
            daemon.end()
        elif name == "HELLO":
            self.say(f"HELLO {2 if daemon.mischief.of('protocol') else PROTOCOL} forge={VERSION}\n".encode())
        elif name == "PING":
            self.say(b"PONG\n")
        elif name == "STATUS":
            self.say(STATUS.format(active=daemon.active, played=daemon.played, waiting=daemon.waiting).encode())
        elif line and name != "QUIT":
            self.say(b"ERROR: no decision is awaited\n")
        return name not in ("QUIT", "SHUTDOWN")

    def newgame(self, wanted: NewGame) -> bool:
        """Plays a game when it is its turn; returns whether the connection goes on."""
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

    def answer(self) -> bytes | None:
        """Returns the next line that is no command (they begin with a capital letter), None if the client has gone."""
        for line in self.lines():
            if not line[:1].isupper():
                return line
            if line.startswith(b"NEWGAME") or not self.command(line.decode(errors="replace")):
                break
        return None

    def game(self, wanted: NewGame) -> Game:
        mischief, source = self.server.mischief, self.server.source(self.server, wanted)
        game, decision, text = mischief.begin(), 0, b""
        answer: bytes | None = None
        while True:
            fault = mischief.due(game, decision)
            if fault is not None:
                text = self.strike(fault, text)
            if b"GAME_RESULT" in text or (fault is not None and fault.kind == "refuse"):
                return text
            if decision:
                answer = yield text
                self.server.answers.append(answer.decode(errors="replace"))
            try:
                text = next(source) if answer is None else source.send(answer)
            except StopIteration as end:
                if decision:  # a game without questions is hit as a whole
                    return end.value
                text = end.value
            decision += 1

    def strike(self, fault: Fault, text: bytes) -> bytes:
        """Does what was ordered; what is said instead of `text`, if the game goes on."""
        kind, daemon = fault.kind, self.server
        if kind in ("half", "stall"):
            self.say(text[: len(text) // 2])
        if kind in ("close", "half"):
            raise ConnectionAbortedError
        if kind == "hang":
            daemon.deaf = True
        if kind in ("silent", "stall", "hang", "stuck"):
            self.say(text if kind == "stuck" else b"")
            while self.rfile.readline():
                pass
            time.sleep(3600 if kind == "stuck" else 0)
            raise ConnectionAbortedError
        if kind == "vanish":
            daemon.close()
            raise ConnectionAbortedError
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return {
            "long": b"DECISION:" + b"x" * (10 << 20) * (kind == "long") + b"\n",
            "utf8": text.replace(b'"player":"', b'"player":"\xc3\x28\xff', 1),
            "garbage": b'DECISION:{"decision_type":"choose_action","actions":[}\n',
            "noise": b"java.lang.NullPointerException\n",
            "unknown": re.sub(rb'"decision_type":"\w+"', b'"decision_type":"choose_wisely"', text),
            "other": text.replace(b'"decision_id":', b'"decision_id":9'),
            "chatter": b'INFO:{"info_type":"weather","sun":true}\nINFO:{"info_type":"reveal"}\n' + text,
            "refuse": b"ERROR: no deck of that name\n",
            "timeout": b"GAME_TIMEOUT: 120 s\nGAME_RESULT: Draw in 120000ms\n",
            "error": b"GAME_ERROR: NullPointerException\nGAME_RESULT: Draw in 5ms\n",
        }.get(kind, text)


class FakeDaemon(socketserver.ThreadingTCPServer):
    """One daemon in threads of this process, or of one of its own, which plays one game at a time; other clients wait.

    Args:
      games: a source, or recorded games.
      faults: what goes wrong, or a Mischief that several daemons share.
      port: the port to listen on, 0: a free one.
      strict: whether recorded games refuse other answers than the recorded ones.
      length: decisions of a scripted game, about.
      token: what it wants to hear first.
    """

    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        games: Source | Sequence[RecordedGame] = numbers,
        faults: Sequence[Fault] | Mischief = (),
        *,
        port: int = 0,
        strict: bool = False,
        length: int = 12,
        token: str = "",
    ):
        self.recorded_games, self.source = ((), games) if callable(games) else (games, recorded)
        self.mischief = faults if isinstance(faults, Mischief) else Mischief(faults)
        self.strict, self.deaf, self.length, self.token = strict, False, length, token
        self.commands: list[str] = []
        self.answers: list[str] = []
        self.unusable: list[tuple[str, str]] = []
        self.end: Callable[[], Any] = lambda: None  # what SHUTDOWN does
        self.active = self.waiting = self.played = 0
        self.seeds = itertools.count(1)  # of games that have none
        self._clients: list[socket.socket] = []
        self._table, self._counts = threading.Lock(), threading.Lock()
        super().__init__(("127.0.0.1", port), FakeHandler)
        self.port: int = self.server_address[1]
        self.in_thread()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def in_thread(self) -> None:
        """Serves from now on."""
        threading.Thread(target=self.serve_forever, args=(0.02,), name=f"daemon {self.port}", daemon=True).start()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for the turn of a game, and holds it."""
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

    def process_request(self, request: Any, client_address: Any) -> None:
        self._clients.append(request)
        super().process_request(request, client_address)

    def close(self) -> None:
        """As if the process were gone."""
        self.shutdown()
        self.server_close()
        for each in self._clients:
            try:
                each.shutdown(socket.SHUT_RDWR)  # its own thread closes it
            except OSError:
                continue

    def open(self) -> None:
        """Listens again where it did."""
        self.socket = socket.socket(self.address_family, self.socket_type)
        self.server_address = ("127.0.0.1", self.port)
        self.server_bind()
        self.server_activate()
        self.in_thread()


# ---- a release and a Java -------------------------------------------------------------------------------------------


def fake_home(folder: Path, card: bool = False) -> Path:
    """Returns a folder that looks like a release; `card`: one with the cards of the shipped decks."""
    home = folder / "forge"
    for part in ("cardsfolder", "editions"):
        (home / "res" / part).mkdir(parents=True)
    (home / f"forge-gui-desktop-{VERSION}-jar-with-dependencies.jar").write_bytes(b"no jar")
    if card:
        for number, name in enumerate(sorted({name for path in DECKS.glob("*.dck") for name in read_deck(path).cards})):
            (home / "res" / "cardsfolder" / f"card{number}.txt").write_text(f"Name:{name}\n")
    return home


def fake_java(
    folder: Path,
    faults: Sequence[Fault] = (),
    *,
    version: str = "17.0.9",
    modules: tuple[str, ...] = ("java.base", "jdk.compiler"),
) -> Path:
    """Returns a program that answers as a `java` does, and is a daemon where a `java` would be one."""
    (folder / "faults.json").write_text(json.dumps([dataclasses.asdict(each) for each in faults]))
    (folder / "starts").write_text("0")
    java = folder / "java"
    lines = "\n".join(f"{name}@{version}" for name in modules)
    java.write_text(
        "#!/bin/sh\n"
        f"""[ "$1" = --list-modules ] && {{ echo '{lines}'; exit 0; }}\n"""
        f"""PYTHONPATH='{PYTHONPATH}' exec '{sys.executable}' -m tests.support.forge.fake '{folder}' "$@"\n"""
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def started(folder: Path) -> list[Fault]:
    """Returns the faults of this start of a process."""
    with (folder / "starts").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two may start at the same time
        starts = int(file.read()) + 1
        file.seek(0)
        file.write(str(starts))
    faults = [Fault(**each) for each in json.loads((folder / "faults.json").read_text())]
    return [each for each in faults if each.start in (0, starts)]


def main(folder: Path, arguments: list[str]) -> None:
    """Does what a `java` would."""
    if BRIDGE in arguments:  # a second step of compiling
        return
    if "-d" in arguments:  # the compiler
        if (refused := folder / "cannot_compile").exists():
            if said := refused.read_text():
                sys.exit(said)
            refused.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        Path(arguments[arguments.index("-d") + 1]).mkdir()
        with (folder / "compiles").open("a") as file:
            file.write(" ".join(Path(each).name for each in arguments if each.endswith(".java")) + "\n")
        return
    faults = Mischief(started(folder))
    stubborn = bool(faults.of("stubborn"))
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for each in faults.of("say"):
        print(each.text, flush=True)
    for each in faults.of("late"):
        time.sleep(each.seconds or 3600)
    if faults.of("exit"):
        sys.exit(1)
    try:
        for each in faults.of("fail"):
            raise UserError(each.text)
        port = int(arguments[arguments.index("--port") + 1])
        games = scripted if (folder / "scripted").exists() else numbers
        daemon = FakeDaemon(games, faults, port=port, token=os.environ[TOKEN])
    except (UserError, OSError) as error:
        print(f"FORGE DAEMON FAILED: {error}", flush=True)
        sys.exit(2)
    daemon.end = (lambda: None) if stubborn else lambda: os._exit(0)
    told = " ".join(each.text for each in faults.of("ready"))
    print(f"FORGE DAEMON READY port={daemon.port} forge={VERSION} {told}", flush=True)
    while "--watch-stdin" in arguments and os.read(0, 1):
        pass
    time.sleep(3600 if stubborn else 0)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
