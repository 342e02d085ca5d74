"""What games of Magic cost: CPU of the JVMs and of everything else, profile by profile, and what it is spent on.

CPU is what is measured, not the clock: a JVM's is read from /proc before and after a block of games, ours is that of
this process. What is compared takes turns on the same JVMs, which have warmed up, with the same decks.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl_envs.forge.fleet.daemon import number_of
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.profiles import PROFILES
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import record_ai, recording
from jaxrl_envs.forge.settings import OVERHEAD_MB, Deployment, available_mb
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, make_buffers

DECKS = ("aggro", "counterspells", "xcosts", "walkers")
HEAPS = (512, 1024)
GAME_SECONDS = 900.0  # for one game, on a busy machine
GAME_THREAD, COLLECTED = "Game thread", "Garbage collection"  # lines of a daemon's status
SAMPLE_SECONDS = 0.02  # between two looks at what a JVM does
DOINGS = {  # what the game thread of a daemon says that it does, in words
    "rules": "rules of the game",
    "ai": "Forge's AI, which pays for spells too",
    "seats": "legal moves, what a seat sees, carrying out",
    "idle": "between two games",
    "waiting": "waiting for an answer",
}


class Block(NamedTuple):
    """Some games, and what they cost."""

    games: int
    decisions: int  # that our side was asked
    jvm_seconds: float  # of CPU
    own_seconds: float  # of CPU, of this process
    clock_seconds: float
    durations: tuple[float, ...] = ()  # seconds of the clock, of each game

    @property
    def ms_per_game(self) -> float:
        """CPU of the JVM."""
        return 1e3 * self.jvm_seconds / self.games


class Bench:
    """The daemons of one deployment with a game that is played on them; a context manager.

    Args:
      deployment: of daemons on this machine.
      decks: each is played against itself, in turn.
    """

    def __init__(self, deployment: Deployment, decks: Sequence[str] = DECKS):
        self.game = ForgeGame(decks=tuple(decks), pairings="mirror")
        self.game.deploy(dataclasses.replace(deployment, record=""))
        self.fleet: Fleet = self.game.fleet()
        self._seed, self._durations = 0, list[float]()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.fleet.close()

    def against_itself(self, games: int) -> Block:
        """Forge's AI in both seats: no decision is asked of us."""
        return self._measured(lambda: self._watched(games))

    def random_play(self, games: int) -> Block:
        """Both seats are ours and choose at random, through engine and pool as in a training."""
        return self._measured(lambda: self._played(games))

    def memory_mib(self) -> float:
        """Resident, of the largest JVM."""
        return max(each.get("rss_mib", 0.0) for each in self.fleet.counters()["daemons"])

    def _measured(self, run: Callable[[], tuple[int, int]]) -> Block:
        self.fleet.release(self.fleet.lease(), finished=False)  # a start is not a part of it
        self._durations = []
        before = self._jvm_seconds(), time.process_time(), time.perf_counter()
        games, decisions = run()
        own, clock = time.process_time() - before[1], time.perf_counter() - before[2]
        return Block(games, decisions, self._jvm_seconds() - before[0], own, clock, tuple(self._durations))

    def _jvm_seconds(self) -> float:
        return sum(each["cpu_seconds"] for each in self.fleet.counters()["daemons"])

    def _watched(self, games: int) -> tuple[int, int]:
        pairs, _ = self.game._located()
        for number in range(games):
            one, other = map(recording.quoted, pairs[number % len(pairs)])
            self._seed, began = self._seed + 1, time.perf_counter()
            record_ai.play(self.fleet, f"NEWGAME {one} {other} -q -s {self._seed}", GAME_SECONDS)
            self._durations.append(time.perf_counter() - began)
        return games, 0

    def _played(self, games: int) -> tuple[int, int]:
        self._seed += 1
        engine = self.game.engine(1, self._seed)
        buffers, done, decisions = make_buffers(self.game, 1), 0, 0
        slots, choice = np.zeros(1, np.int32), np.full(1, RANDOM, np.int32)
        with HostPool(engine, threads=1, mode="async", timeout=GAME_SECONDS, follow=False) as pool:
            while done < games:  # each begins when the one before it is over: no half of another is in the figures
                began = time.perf_counter()
                pool.begin(slots, buffers)
                pool.recv(count=1)
                while not (buffers.terminated[0] or buffers.truncated[0]):
                    pool.send(choice, games=slots)
                    pool.recv(count=1)
                    decisions += 1
                self._durations.append(time.perf_counter() - began)
                done += 1
        return done, decisions


class Watch:
    """Looks from time to time at what a daemon does, in a thread of its own; a context manager."""

    def __init__(self, bench: Bench):
        [self._daemon] = bench.fleet.daemons
        self._over, self._thread = threading.Event(), threading.Thread(target=self._look, daemon=True)
        self.statuses: list[dict[str, str]] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            with contextlib.suppress(OSError):
                self.statuses.append(self._daemon.status(GAME_SECONDS))


def shares(block: Block, statuses: Sequence[dict[str, str]]) -> dict[str, float]:
    """What the time of a block of games was spent on, as shares of the clock.

    Args:
      block: the games.
      statuses: of their daemon, at equal intervals.

    Returns:
      A share for every key of `DOINGS`, which add up to 1. Parts of these: `gc` (the JVM stands and collects garbage),
      `own` (waiting, while this process computes) and `network` (the rest of waiting: sockets and the scheduler).
      Empty if the daemon says nothing about it.
    """
    counts = collections.Counter(each[GAME_THREAD] for each in statuses if GAME_THREAD in each)
    if not counts:
        return {}
    found = {name: counts[name] / counts.total() for name in DOINGS}
    collected = [number_of(each, COLLECTED) for each in statuses]
    found["gc"] = (collected[-1] - collected[0]) / 1e3 / block.clock_seconds
    found["own"] = min(found["waiting"], block.own_seconds / block.clock_seconds)
    return found | {"network": found["waiting"] - found["own"]}


class Machine(NamedTuple):
    """A machine to play on."""

    cores: int
    price: float | None = None  # per hour, in whatever currency


def on_machine(machine: Machine, games_per_cpu_second: float, games: float = 1e7) -> dict[str, float | None]:
    """What `games` take there, if each core plays as many as one does here: per second and hour, days, and price."""
    each_second = machine.cores * games_per_cpu_second
    hours = games / each_second / 3600
    price = None if machine.price is None else hours * machine.price
    return {**machine._asdict(), "per_second": each_second, "per_hour": 3600 * each_second, "days": hours / 24} | {
        "total": price
    }


def compared(bench: Bench, *, warm_up: int, rounds: int, games: int) -> Iterator[tuple[Block, Block]]:
    """Rounds of (the AI against itself, random play) in turn on the same JVM."""
    bench.against_itself(warm_up)
    bench.random_play(warm_up)
    for _ in range(rounds):
        yield bench.against_itself(games), bench.random_play(games)


def summary(rounds: Sequence[tuple[Block, Block]]) -> dict[str, Any]:
    """Medians over rounds, JSON-ready."""
    ai, ours = ([each[side] for each in rounds] for side in (0, 1))
    own, all_of_it = (sum(f(each) for each in ours) for f in (lambda b: b.own_seconds, _everything))
    found: dict[str, Any] = {
        "games": sum(each.games for each in ours),
        "ai_ms_per_game": statistics.median(each.ms_per_game for each in ai),
        "random_ms_per_game": statistics.median(each.ms_per_game for each in ours),
        "decisions_per_game": sum(each.decisions for each in ours) / sum(each.games for each in ours),
        "own_ms_per_game": 1e3 * own / sum(each.games for each in ours),
        "outside_the_jvm": own / all_of_it,
        "ai_seconds": quantiles(ai),
        "random_seconds": quantiles(ours),
        "games_per_clock_second": sum(each.games for each in ours) / sum(each.clock_seconds for each in ours),
    }
    # Ours pays for client and encoder too: the AI's games need none.
    found["random_games_per_cpu_second"] = sum(each.games for each in ours) / all_of_it
    found["ai_games_per_cpu_second"] = sum(each.games for each in ai) / sum(each.jvm_seconds for each in ai)
    found["ratio"] = found["random_games_per_cpu_second"] / found["ai_games_per_cpu_second"]
    return found


def quantiles(blocks: Sequence[Block]) -> list[float]:
    """Seconds of the clock that half of the games, and 95 % of them, took at most."""
    return [float(found) for found in np.quantile([each for block in blocks for each in block.durations], [0.5, 0.95])]


def _everything(block: Block) -> float:
    return block.jvm_seconds + block.own_seconds


# ---- short cuts -----------------------------------------------------------------------------------------------------


def short_cuts(
    deployment: Deployment, decks: Sequence[str], *, warm_up: int, rounds: int, games: int, say: Callable[[str], Any]
) -> list[dict[str, Any]]:
    """The same games on a daemon with its short cuts and on one without, in turn, deck by deck.

    Args:
      deployment: what else is the same for both.
      decks: each is played against itself.
      warm_up: games of each kind, deck and daemon before anything counts.
      rounds: of all, in turn.
      games: of each kind, deck and daemon in a round.
      say: told how far it is.

    Returns:
      Of each deck: deck, decisions_per_game, and CPU of the JVM in ms a game, medians over rounds: ai and random (both
      seats), ai_stock and random_stock (without short cuts).
    """
    places = [dataclasses.replace(deployment, daemons=1, stock=stock) for stock in (False, True)]
    benches = [[Bench(place, [deck]) for place in places] for deck in decks]
    found: list[dict[str, Any]] = [{"deck": deck, "times": collections.defaultdict(list)} for deck in decks]
    try:
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            for (ours, stock), facts in zip(benches, found, strict=True):
                count = games if number else warm_up
                blocks = {"ai": ours.against_itself(count), "ai_stock": stock.against_itself(count)}
                blocks |= {"random": ours.random_play(count), "random_stock": stock.random_play(count)}
                if blocks["random"].decisions != blocks["random_stock"].decisions:
                    raise RuntimeError(f"{facts['deck']}: with short cuts other games were played: {blocks}")
                if number == 0:
                    continue
                facts["decisions_per_game"] = blocks["random"].decisions / count
                for kind, block in blocks.items():
                    facts["times"][kind].append(block.ms_per_game)
        for facts in found:
            facts |= {kind: statistics.median(times) for kind, times in facts["times"].items()}
        return found
    finally:
        for each in benches[0]:
            each.fleet.close()


# ---- profiles -------------------------------------------------------------------------------------------------------


class ProfileTrial(NamedTuple):
    """A profile and a heap, and what it has cost so far."""

    profile: str
    heap_mb: int
    bench: Bench
    blocks: list[Block]

    @property
    def ms_per_game(self) -> float:
        """The median over rounds."""
        return statistics.median(each.ms_per_game for each in self.blocks)


def heaps_that_fit(deployment: Deployment) -> tuple[int, ...]:
    """Heaps to try: all JVMs are there at the same time, so that they can take turns."""
    heaps = tuple(sorted({*HEAPS, deployment.heap_mb}))
    memory = available_mb()
    wanted = len(PROFILES) * sum(heap + OVERHEAD_MB for heap in heaps)
    return heaps if memory is None or wanted < 0.9 * memory else (deployment.heap_mb,)


def sweep(
    deployment: Deployment, decks: Sequence[str], *, warm_up: int, rounds: int, games: int, say: Callable[[str], Any]
) -> list[dict[str, Any]]:
    """Random play with every profile and heap, in turn; the cheapest first.

    Args:
      deployment: what else is the same for all.
      decks: to play with.
      warm_up: games of each before anything counts.
      rounds: of all, in turn.
      games: of each in a round.
      say: told how far it is.
    """
    found: list[ProfileTrial] = []
    one = dataclasses.replace(deployment, daemons=1)
    try:
        for heap in heaps_that_fit(deployment):
            for profile in PROFILES:
                place = dataclasses.replace(one, profile=profile, heap_mb=heap)
                found.append(ProfileTrial(profile, heap, Bench(place, decks), []))
                say(f"warming up {profile}, {heap} MiB")
                found[-1].bench.random_play(warm_up)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for each in found:
                each.blocks.append(each.bench.random_play(games))
        return [_of_trial(each) for each in sorted(found, key=lambda each: each.ms_per_game)]
    finally:
        for each in found:
            each.bench.fleet.close()


def _of_trial(each: ProfileTrial) -> dict[str, Any]:
    times = [block.ms_per_game for block in each.blocks]
    return {
        "profile": each.profile,
        "heap_mb": each.heap_mb,
        "ms_per_game": each.ms_per_game,
        "lowest": min(times),
        "highest": max(times),
        "rss_mib": each.bench.memory_mib(),
    }
