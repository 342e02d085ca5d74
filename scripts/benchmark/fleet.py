"""`python -m scripts.benchmark.fleet`: decisions a second of games on workers of Ray, and what carrying them costs.

The games of one actor are played by random actions, which the engines draw themselves, through `send` and `recv` in two
groups: beside the learner (0 workers), and on workers of a cluster on this machine. No network is in the way, so this
is the most that a training can get. Engines: those that sleep for so long at every decision and cost no processor time,
the battle, and one that does nothing. Transport is the processor time of all processes beyond what the same decisions
take beside the learner.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import config as configs
from jaxrl.games import make_env
from jaxrl.training.sebulba.remote.cluster import worker_pool
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import RANDOM, HostGame, make_buffers
from jaxrl_envs.host.python_game import PythonGame
from scripts.benchmark.engines import NoopGame

GROUPS = 2
ENGINES: dict[str, tuple[str, list[str]]] = {
    "10 ms": ("scripts.benchmark.fleet:Sleeping", ["env.options.milliseconds=10"]),
    "1 ms": ("scripts.benchmark.fleet:Sleeping", ["env.options.milliseconds=1"]),
    "battle": ("battle", []),
    "no-op": ("scripts.benchmark.fleet:Noop", []),
}
TICKS = os.sysconf("SC_CLK_TCK")


class Sleep(PythonGame):
    """One game of 100 decisions, before each of which it sleeps."""

    def __init__(self, seed: int, slot: int, seconds: float, seen: np.ndarray):
        super().__init__(seed, slot)
        self.seconds, self.seen, self.time = seconds, seen, 0

    def start(self) -> None:
        super().start()
        self.time = 0

    def step(self, action: int) -> None:
        time.sleep(self.seconds)
        self.time += 1

    def player(self) -> int:
        return -1 if self.ended() else self.time % 2

    def legal(self, action: int) -> bool:
        return True

    def mask(self) -> list[bool]:
        return [True] * SleepGame.num_actions

    def ended(self) -> int:
        return int(self.time >= 100)

    def rewards(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def observe(self, seat: int) -> np.ndarray:
        return self.seen

    def save(self) -> bytes:
        return self.time.to_bytes(SleepGame.state_bytes, "little")  # nothing is learned: the streams may begin again

    def load(self, data: bytes) -> None:
        self.time = int.from_bytes(data, "little")


class SleepGame(HostGame):
    """Games in which nothing happens, slowly, and without work for a core; observations of 6 KB."""

    id, version = "sleep", "1"
    num_players, num_actions, num_features, state_bytes = 2, 8, 1500, 8

    def __init__(self, seconds: float):
        self.seconds = seconds

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        """An engine whose decisions take a given number of seconds."""
        seen = np.zeros(self.num_features, np.float32)
        games = [Sleep(seed, first_slot + game, self.seconds, seen) for game in range(num_games)]
        sizes = {name: getattr(self, name) for name in ("num_players", "num_actions", "num_features", "state_bytes")}
        return PythonEngine(games, **sizes)


class Sleeping(HostEnv):
    """`SleepGame` by name."""

    id, version = SleepGame.id, SleepGame.version

    def __init__(self, *, milliseconds: float = 1.0):
        """A game.

        Args:
          milliseconds: of every decision.
        """
        super().__init__(SleepGame(milliseconds / 1e3))


class Noop(HostEnv):
    """`NoopGame` by name."""

    id, version = NoopGame.id, NoopGame.version

    def __init__(self) -> None:
        super().__init__(NoopGame())


class RecurrentInputs(NamedTuple):
    """What one way to play came to."""

    rate: float  # decisions a second
    learner: float  # processor time of a decision in µs: of the process that asks
    engines: float  # of the workers
    ray: float  # of Ray's own processes
    call_ms: float  # processor time of all for one call of one worker, of one group

    @property
    def processor(self) -> float:
        """µs of a decision, of all processes."""
        return self.learner + self.engines + self.ray


def play(engine: str, workers: int, games: int, seconds: float) -> RecurrentInputs:
    """Plays for a number of seconds, after a tenth of that to warm up."""
    id, options = ENGINES[engine]
    config = configs.load(None, [f"env.id={id}", *options, f"fleet.workers={workers}"], ["scripts"])
    game: HostGame = make_env(config).game  # type: ignore[attr-defined]  # of a HostEnv
    with _pool(config, game, workers, games) as pool:
        rows, actions = [make_buffers(game, games // GROUPS) for _ in range(GROUPS)], np.full(games, RANDOM, np.int32)
        pool.start(make_buffers(game, games))
        for group in range(GROUPS):
            pool.send(actions[: games // GROUPS], rows[group], group)
        _turns(pool, rows, actions[: games // GROUPS], seconds / 10)
        before, begin = _processor(), time.monotonic()
        turns = _turns(pool, rows, actions[: games // GROUPS], seconds)
        took, after = time.monotonic() - begin, _processor()
        for group in range(GROUPS):
            pool.recv(group)
    decisions = turns * games // GROUPS
    spent = {kind: after[kind] - before[kind] for kind in after}
    micro = {kind: 1e6 * value / decisions for kind, value in spent.items()}
    return RecurrentInputs(decisions / took, **micro, call_ms=1e3 * sum(spent.values()) / turns / max(1, workers))


@contextlib.contextmanager
def _pool(config: configs.Config, game: HostGame, workers: int, games: int) -> Iterator[Any]:
    """The games beside this process, with as many threads as one worker has; or on workers, with Ray ended after it."""
    if not workers:
        with HostPool(game.engine(games, 0), threads=GROUPS, groups=GROUPS) as pool:
            yield pool
        return
    with worker_pool(config, game, 0, games, seed=0, groups=GROUPS) as pool:
        yield pool
    import ray

    ray.shutdown()


def _turns(pool: Any, rows: list[Any], actions: np.ndarray, seconds: float) -> int:
    """Steps the groups in turn; how many times a group was stepped."""
    turns, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        group = turns % GROUPS
        pool.recv(group)
        pool.send(actions, rows[group], group)
        turns += 1
    return turns


def _processor() -> dict[str, float]:
    """Seconds of processor time so far: of this process, of the workers that it has started, and of the rest of Ray."""
    found = {"learner": 0.0, "engines": 0.0, "ray": 0.0}
    children: dict[int, list[tuple[int, str, float]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            spent = (int(fields[11]) + int(fields[12])) / TICKS
            children.setdefault(int(fields[1]), []).append((int(stat.parent.name), name, spent))
    family = [os.getpid()]
    for each in family:
        for pid, name, spent in children.get(each, []):
            family.append(pid)
            found["engines" if name.startswith("ray::EngineWork") else "ray"] += spent
    found["learner"] = time.process_time()
    return found


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=64, help="side by side, in two groups (default: 64)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of every measurement (default: 10)")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4], help="counts (default: 1 2 4)")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    args = parser.parse_args()
    if odd := [count for count in args.workers if args.games % (GROUPS * max(1, count))]:
        parser.error(f"--games {args.games} cannot be shared evenly by {odd[0]} workers in {GROUPS} groups")
    print(
        "| engine | workers | decisions/s | processor, µs a decision: learner + workers + Ray | transport | ms a call |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    for engine in args.engines:
        home = play(engine, 0, args.games, args.seconds)
        for workers in (0, *args.workers):
            found = play(engine, workers, args.games, args.seconds) if workers else home
            parts = f"{found.learner:.0f} + {found.engines:.0f} + {found.ray:.0f}"
            share = max(0.0, 1.0 - home.processor / found.processor)
            told = f"{share:.0%} | {found.call_ms:.2f}" if workers else "|"
            print(f"| {engine} | {workers} | {found.rate:,.0f} | {parts} | {told} |", flush=True)


if __name__ == "__main__":
    main()
