"""For tests of games of Magic: the real Forge if there is one, and daemons in Python that really depend on answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from envs.forge.daemon import FleetError
from envs.forge.engine import ForgeEngine
from envs.forge.fleet import Fleet
from envs.forge.recording import deck_name
from envs.forge.settings import Deployment
from envs.forge.wire import Lease, Link
from envs.host.bridge import HostPool
from envs.host.core import RANDOM, make_buffers
from tests.forge_decisions import Maker

MISSING = "FORGE_HOME is not set: tests against the real engine need the folder of a Forge release"
LONG = b'DECISION:{"decision_type":"' + b"x" * (5 << 20) + b'"}\n'


def forge_home() -> str:
    """The folder of the release to test against; the test is skipped if there is none."""
    home = os.environ.get("FORGE_HOME", "")
    if not home:
        pytest.skip(MISSING)
    return home


@pytest.fixture(scope="session")
def running_daemon() -> Iterator[Deployment]:
    """A deployment of two real daemons, FORGE_TEST_PORT and the next; they run until the tests are over."""
    port = int(os.environ.get("FORGE_TEST_PORT", "17400"))
    deployment = Deployment(home=forge_home(), daemons=2, port=port, heap_mb=512, start_timeout=300.0)
    fleet = Fleet.shared(deployment)
    yield deployment
    fleet.close()


# ---- a daemon in Python ---------------------------------------------------------------------------------------------


def usable(decision: dict[str, Any], answer: str) -> bool:
    """Whether an answer fits the grammar and the bounds of its decision."""
    kind, options = decision["decision_type"], decision.get("options", decision.get("actions", []))
    if answer == "ai" or re.fullmatch(r"ai!( \w+)?", answer):
        return True
    if kind in ("confirm_action", "play_trigger", "mulligan"):
        return answer in ("y", "n")
    if kind == "declare_attackers":
        pairs = [tuple(map(int, pair.split(":"))) for pair in answer.split(",") if pair]
        sizes = {attacker["index"]: len(attacker["defenders"]) for attacker in decision["attackers"]}
        return len(dict(pairs)) == len(pairs) and all(0 <= d < sizes[a] for a, d in pairs)
    if kind == "declare_blockers":
        pairs = [tuple(map(int, pair.split(":"))) for pair in answer.split(",") if pair]
        able = {blocker["index"]: blocker["can_block"] for blocker in decision["blockers"]}
        return len(dict(pairs)) == len(pairs) and all(a in able[b] for b, a in pairs)
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


class ScriptedDaemon:
    """Plays games whose every decision depends on the seed and all answers before it; one game at a time.

    Args:
      faults: {(number of the NEWGAME, number of its decision): kind}, done instead of that decision: close, half,
        silent, long, utf8, garbage, noise, other, timeout, error, unknown; at decision 0: refuse, mute, gone.
      length: decisions of a game, about.
    """

    def __init__(self, faults: dict[tuple[int, int], str] | None = None, length: int = 12):
        self.faults, self.length = dict(faults or {}), length
        self.games = 0
        self.unusable: list[tuple[str, str]] = []
        self.commands: list[str] = []
        self.answers: list[str] = []
        self._table = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._clients):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, StopIteration, ValueError), client, client.makefile("rb") as lines:
            for line in lines:
                words = line.decode().split()
                if words[:1] == ["NEWGAME"]:
                    with self._table:
                        self._play(client, lines, words)
                elif words == ["PING"]:
                    client.sendall(b"PONG\n")

    def _play(self, client: socket.socket, lines: Any, words: list[str]) -> None:
        self.games += 1
        number = self.games
        self.commands.append(" ".join(words))
        seed = int(words[words.index("-s") + 1])
        decks = [deck_name(word) for word in words[1:3]]  # the same game wherever the decks lie
        state = zlib.crc32(f"{seed} {decks}".encode())
        fault = self.faults.pop((number, 0), None)
        if fault == "refuse":
            client.sendall(b"ERROR: no deck of that name\n")
            return
        if fault is not None:
            self._strike(client, fault, b"", {})
        held: set[int] = set()
        for count in range(1, self.length + state % 7):
            decision = Maker(state).decision(count, size=3)
            if decision["seat"] in held:
                state = zlib.crc32(b"held", state)
                continue
            line = b"DECISION:" + json.dumps(decision, separators=(",", ":")).encode() + b"\n"
            fault = self.faults.pop((number, count), None)
            if fault is not None:
                line = self._strike(client, fault, line, decision)
                if fault in ("timeout", "error"):
                    client.sendall(line)
                    return
            client.sendall(line)
            answer = next(lines).decode().rstrip("\n")
            if not usable(decision, answer):
                self.unusable.append((decision["decision_type"], answer))
            self.answers.append(answer)
            if answer.startswith("ai!"):
                held.add(decision["seat"])
            state = zlib.crc32(answer.encode(), state)
        result = ("Draw in", "Agent(1)-a won in", "Ai(2)-b won in")[state % 3]
        client.sendall(f"INFO:{{}}\nGAME_RESULT: {result} 5ms\n".encode())

    def _strike(self, client: socket.socket, fault: str, line: bytes, decision: dict[str, Any]) -> bytes:
        if fault in ("close", "gone", "half"):
            client.sendall(line[: len(line) // 2] if fault == "half" else b"")
            client.shutdown(socket.SHUT_RDWR)
            raise StopIteration
        if fault in ("silent", "mute"):
            client.settimeout(30.0)
            client.recv(1)
            raise StopIteration
        ended = {"timeout": "GAME_TIMEOUT: 120 s", "error": "GAME_ERROR: NullPointerException"}
        if fault in ended:
            return f"{ended[fault]}\nGAME_RESULT: Draw in 7ms\n".encode()
        return {
            "long": LONG,
            "utf8": line.replace(b'"player":"', b'"player":"\xff'),
            "garbage": line[:-20] + b"\n",
            "noise": b"java.lang.NullPointerException\n",
            "other": line.replace(b'"decision_id":', b'"decision_id":9'),
            "unknown": line.replace(decision.get("decision_type", "").encode(), b"choose_wisely", 1),
        }[fault]


# ---- a fleet in Python ----------------------------------------------------------------------------------------------


class FakeFleet:
    """Lends scripted daemons: no health, no restarts. The last used idle lease gives way at once."""

    def __init__(self, daemons: Sequence[ScriptedDaemon], patience: float = 10.0):
        self.daemons, self.patience = list(daemons), patience
        self.held: dict[ScriptedDaemon, Lease] = {}
        self.started = self.replays = self.evictions = 0
        self.failures: list[str] = []
        self.finished: list[str] = []
        self._changed = threading.Condition()

    @property
    def capacity(self) -> int:
        return len(self.daemons)

    def lease(self, timeout: float | None = None, *, replay: bool = False) -> Lease:
        end = time.monotonic() + self.patience
        with self._changed:
            while True:
                daemon = next((each for each in self.daemons if each not in self.held), None)
                for held, lease in sorted(self.held.items(), key=lambda pair: pair[1].last_used):
                    if daemon is None and lease.evict():
                        self.evictions += 1
                        daemon = held
                if daemon is not None:
                    break
                if time.monotonic() > end:
                    raise FleetError("no Forge daemon was free.")
                self._changed.wait(0.01)
            self.held[daemon] = Lease(Link("127.0.0.1", daemon.port), daemon)
            self.started, self.replays = self.started + (not replay), self.replays + replay
            return self.held[daemon]

    def release(self, lease: Lease, *, finished: bool = True) -> None:
        self._end(lease)

    def failed(self, lease: Lease, reason: str) -> None:
        self.failures.append(reason)
        self._end(lease)

    def _end(self, lease: Lease) -> None:
        with self._changed:
            lease.link.close()
            if self.held.get(lease.daemon) is lease:
                del self.held[lease.daemon]
            self._changed.notify_all()

    def game_finished(self, seconds: float, how: str) -> None:
        assert seconds >= 0.0
        self.finished.append(how)


@contextlib.contextmanager
def scripted(count: int = 1, faults: dict[tuple[int, int], str] | None = None, length: int = 12) -> Iterator[FakeFleet]:
    """A fleet of scripted daemons; the faults are those of the first."""
    daemons = [ScriptedDaemon(None if number else faults, length) for number in range(count)]
    try:
        yield FakeFleet(daemons)
    finally:
        for daemon in daemons:
            daemon.close()


# ---- play -----------------------------------------------------------------------------------------------------------

Step = tuple[Any, ...]


def row_of(out: Any, game: int) -> Step:
    """All that a step told about a game, hashable."""
    return (
        int(out.current_player[game]),
        zlib.crc32(np.ascontiguousarray(out.observation[game])),
        out.legal_action_mask[game].tobytes(),
        int(out.action[game]),
        out.rewards[game].tobytes(),
        bool(out.terminated[game]),
        bool(out.truncated[game]),
        tuple(out.info[game].tolist()),
        tuple(out.stats[game].ravel().tolist()) if out.terminated[game] or out.truncated[game] else (),
    )


def trace(
    engine: ForgeEngine, steps: int, *, actions: int = RANDOM, threads: int = 1, **options: Any
) -> list[list[Step]]:
    """Plays all games so many steps; for each step and game what it told."""
    with HostPool(engine, threads=threads, **options) as pool:
        out = make_buffers(engine, engine.num_games)
        pool.start(out)
        found = [[row_of(out, game) for game in range(engine.num_games)]]
        for _ in range(steps):
            pool.send(np.full(engine.num_games, actions, np.int32), out)
            pool.recv()
            found.append([row_of(out, game) for game in range(engine.num_games)])
        return found
