"""A server that speaks like Forge's daemon and answers from recorded conversations: tests and benchmarks without a JVM.

    with ReplayServer(["tests/golden/forge"], daemons=4) as server:       # in a process of its own
        server.ports                                                      # one for each daemon

    python -m envs.forge.replay --port 17171 tests/golden/forge           # the same from a shell

A game asked for by NEWGAME gets the recording with its decks and seed if there is one, else one that its decks and
its seed choose: the same game always gives the same decisions, whatever was played before. By default any answer will
do (the recording goes on as it was recorded); a strict server refuses answers that are not the recorded ones. Faults
can be ordered: see `envs.forge.replay_faults`.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from envs.errors import UserError
from envs.forge import recording
from envs.forge.recording import Conversation, NewGame
from envs.forge.replay_faults import Mischief, ReplayFault
from envs.forge.replay_server import Core, Slices

PROTOCOL = 1
NOBODY = 31  # the seat of a slice that asks nobody, or somebody unknown
HEAD = (b"< GAME_START:", b"< SEED:")
START_SECONDS = 30.0
STATUS = """FORGE DAEMON STATUS
  Active games: {active}
  Total games played: {games}
  Waiting: {waiting}
  Memory: 0MB / 0MB
  Max concurrent: 1
  Decisions: {decisions}
  Bytes: {bytes}
"""


class Tape:
    """A recording that is ready to be played."""

    def __init__(self, conversation: Conversation):
        newgame = next((line[2:] for line in conversation.lines if line.startswith(b"> NEWGAME")), b"NEWGAME")
        self.newgame = recording.parse_newgame(newgame.decode())
        self.decks = tuple(map(recording.deck_name, self.newgame.decks))
        seed = next((line for line in conversation.lines if line.startswith(b"< SEED:")), None)
        self.seed = int(seed.split(b":")[1]) if seed else self.newgame.seed
        start = next((line for line in conversation.lines if line.startswith(b"< GAME_START:")), None)
        self.start = (start[2:] if start else f"GAME_START: {' vs '.join(self.decks)}".encode()) + b"\n"
        self.slices = slices_of(conversation)

    def fits(self, wanted: NewGame) -> tuple[bool, bool, bool, bool]:
        """How well it serves as the game that is wanted: a better one is greater."""
        decks = tuple(map(recording.deck_name, wanted.decks))
        return (
            self.newgame.mode == wanted.mode,
            (self.newgame.always_ask, self.newgame.mulligans) == (wanted.always_ask, wanted.mulligans),
            self.decks == decks,
            wanted.seed is not None and self.seed == wanted.seed,
        )


def slices_of(conversation: Conversation) -> Slices:
    """A conversation cut at the client's answers; GAME_START and SEED are left out."""
    slices, answers, seats = [b""], [], []
    for line in conversation.lines:
        if line.startswith(b"> NEWGAME") or line.startswith(HEAD):
            continue
        if line.startswith(recording.CLIENT):
            answers.append(line[2:])
            seats.append(seat_of(slices[-1]))
            slices.append(b"")
        else:
            slices[-1] += line[2:] + b"\n"
    return Slices(slices, answers, [*seats, NOBODY])


def seat_of(text: bytes) -> int:
    """The seat that the last decision of a slice asks."""
    found = re.search(rb'"seat":(\d+)', text[text.rfind(b"DECISION:") :])
    return int(found[1]) if found else NOBODY


class Server:
    """What the core's loop asks: which recording, what to say to commands, when something goes wrong.

    Each daemon plays one game at a time, as the real one does; others wait for their turn. STATUS also says how many
    decisions and bytes the whole server has sent.
    """

    def __init__(
        self, conversations: Sequence[Conversation], *, strict: bool = False, faults: Iterable[ReplayFault] = ()
    ):
        self.tapes = [Tape(each) for each in conversations]
        self.core = Core(self, [tape.slices for tape in self.tapes], strict)
        self.forge = next((each.meta.get("forge") for each in conversations if each.meta.get("forge")), "") or "replay"
        self.mischief = Mischief(self, list(faults))
        self.ports: list[int] = []
        self.playing: list[int] = []  # by daemon: the connection whose game it is, -1: none
        self.waiting: list[collections.deque[tuple[int, NewGame]]] = []
        self.games = self.mismatches = 0
        self.deaf: set[int] = set()  # daemons that do not answer
        self.later: list[tuple[float, Callable[[], None]]] = []
        self._choices: dict[tuple[Any, ...], list[int]] = {}
        self._unseeded = 0

    def listen(self, port: int = 0) -> int:
        """One more daemon; returns its port."""
        try:
            self.ports.append(self.core.listen(port))
        except OSError as error:
            raise UserError(f"cannot listen on port {port}: {error.strerror}; choose another one.") from None
        self.playing.append(-1)
        self.waiting.append(collections.deque())
        return self.ports[-1]

    # ---- called by the core -----------------------------------------------------------------------------------------

    def command(self, connection: int, line: bytes) -> None:
        """A line that is no answer."""
        daemon = self.core.daemon_of(connection)
        if daemon in self.deaf:
            return
        name, _, _ = line.partition(b" ")
        if name == b"NEWGAME":
            self._newgame(connection, daemon, line.decode(errors="replace"))
        elif name == b"HELLO":
            self.core.say(connection, f"HELLO {PROTOCOL} forge={self.forge}\n".encode())
        elif name == b"PING":
            self.core.say(connection, b"PONG\n")
        elif name == b"STATUS":
            active = int(self.playing[daemon] >= 0)
            text = STATUS.format(
                active=active,
                games=self.games,
                waiting=len(self.waiting[daemon]),
                decisions=self.core.decisions,
                bytes=self.core.bytes_out,
            )
            self.core.say(connection, text.encode())
        elif name == b"QUIT":
            self.core.drop(connection)
        elif name == b"SHUTDOWN":
            self.core.stop()
        elif line:
            what = b"unknown command " + name if name.isupper() else b"no decision is awaited"
            self.core.say(connection, b"ERROR: " + what + b"\n")

    def finished(self, connection: int) -> None:
        """A game ended; the next in the queue begins."""
        self._free(self.core.daemon_of(connection))

    def closed(self, connection: int, daemon: int) -> None:
        """A connection was closed, perhaps in the middle of a game."""
        self.waiting[daemon] = collections.deque(each for each in self.waiting[daemon] if each[0] != connection)
        if self.playing[daemon] == connection:
            self._free(daemon)

    def mismatch(self, connection: int, place: int, answer: bytes) -> None:
        """Strict: an answer is not the recorded one."""
        self.mismatches += 1
        game, _ = self.core.playing(connection)
        recorded = self.tapes[game].slices.answer(place).decode()
        text = f"ERROR: decision {place + 1} was answered {recorded!r} in the recording, not {answer.decode()!r}\n"
        self.core.say(connection, text.encode())
        self.core.drop(connection)

    def fault(self, connection: int, place: int) -> None:
        """A slice at which something was ordered to go wrong."""
        self.mischief.strike(connection, place)

    def tick(self) -> None:
        """Every few milliseconds."""
        now = time.monotonic()
        due = [each for each in self.later if each[0] <= now]
        self.later = [each for each in self.later if each[0] > now]
        for _, act in due:
            act()

    # ---- games ------------------------------------------------------------------------------------------------------

    def choose(self, wanted: NewGame) -> int:
        """The recording for a game: always the same for the same decks, options and seed."""
        key = (wanted.mode, wanted.always_ask, wanted.mulligans, wanted.decks)
        if wanted.seed is not None:
            exact = [i for i, tape in enumerate(self.tapes) if all(tape.fits(wanted))]
            if exact:
                return exact[0]
        if key not in self._choices:
            best = max(tape.fits(wanted)[:3] for tape in self.tapes)
            self._choices[key] = [i for i, tape in enumerate(self.tapes) if tape.fits(wanted)[:3] == best]
        names = ",".join(map(recording.deck_name, wanted.decks))
        return self._choices[key][zlib.crc32(f"{names} {wanted.seed}".encode()) % len(self._choices[key])]

    def _newgame(self, connection: int, daemon: int, line: str) -> None:
        wanted = recording.parse_newgame(line)
        if len(wanted.decks) != 2:
            self.core.say(connection, b"ERROR: NEWGAME needs two decks\n")
        elif self.playing[daemon] >= 0:
            self.waiting[daemon].append((connection, wanted))
        else:
            self._begin(connection, daemon, wanted)

    def _begin(self, connection: int, daemon: int, wanted: NewGame) -> None:
        if wanted.seed is None:
            self._unseeded += 1
            wanted = wanted._replace(seed=self._unseeded)
        self.games += 1
        number = self.choose(wanted)
        fault = self.mischief.order(connection, number)
        if fault is None:  # refused
            return
        tape = self.tapes[number]
        self.playing[daemon] = connection
        head = b"" if wanted.quiet else tape.start + f"SEED: {wanted.seed}\n".encode()
        self.core.begin(connection, number, head, fault)

    def _free(self, daemon: int) -> None:
        self.playing[daemon] = -1
        while self.waiting[daemon] and self.playing[daemon] < 0 and daemon not in self.deaf:
            connection, wanted = self.waiting[daemon].popleft()
            self._begin(connection, daemon, wanted)


# ---- a server in a process of its own -------------------------------------------------------------------------------


class ReplayServer:
    """A replay server in its own process, from `with` to the end of the block.

    Attributes:
      ports: one for each of its daemons.
      process: the subprocess.
    """

    def __init__(
        self,
        paths: Iterable[str | Path],
        port: int = 0,
        *,
        daemons: int = 1,
        strict: bool = False,
        faults: Sequence[ReplayFault] = (),
    ):
        """Starts it.

        Args:
          paths: recordings, or folders of recordings.
          port: of the first daemon, the others have the ports after it; 0: free ones.
          daemons: how many daemons it plays.
          strict: answers must be the recorded ones.
          faults: what is to go wrong.
        """
        command = [sys.executable, "-m", "envs.forge.replay", *map(str, paths)]
        command += ["--port", str(port), "--daemons", str(daemons), "--watch-stdin"]
        command += ["--strict"] if strict else []
        command += ["--faults", json.dumps([each.fields() for each in faults])] if faults else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " READY " not in line:
            self.close()
            raise UserError(line.strip().partition("FAILED: ")[2] or "the replay server did not start.")
        self.ports = [int(text) for text in re.findall(r"(?:port=|,)(\d+)", line.split(" forge=")[0])]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The daemons as `host:port`."""
        return tuple(f"127.0.0.1:{port}" for port in self.ports)

    def close(self) -> None:
        """Ends the process."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()  # it ends when its input does
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> ReplayServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `jaxrl forge replay`."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="recordings, or folders of recordings")
    parser.add_argument("--port", type=int, default=17171, help="of the first daemon; 0: a free one (default: 17171)")
    parser.add_argument("--daemons", type=int, default=1, help="daemons, on consecutive ports (default: 1)")
    parser.add_argument("--strict", action="store_true", help="refuse answers that are not the recorded ones")
    parser.add_argument("--watch-stdin", action="store_true", help="end when the standard input does")
    parser.add_argument("--faults", default="[]", help="what is to go wrong, as JSON (envs.forge.replay_faults)")


def main(args: argparse.Namespace) -> int:
    """Serves until it is stopped; one line on stdout says that it is ready, in the words of the real daemon."""
    faults = [ReplayFault(**each) for each in json.loads(args.faults)]
    server = Server(recording.read_all(args.paths), strict=args.strict, faults=faults)
    for i in range(args.daemons):
        server.listen(args.port + i if args.port else 0)
    ports = ",".join(map(str, server.ports))
    print(f"FORGE DAEMON READY port={ports} forge={server.forge}", flush=True)
    if args.watch_stdin:
        threading.Thread(target=lambda: (sys.stdin.read(), server.core.stop()), daemon=True).start()
    server.core.run()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m envs.forge.replay", description="serves recorded games")
    add_arguments(parser)
    try:
        sys.exit(main(parser.parse_args()))
    except UserError as problem:
        print(f"FORGE DAEMON FAILED: {problem}", flush=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
