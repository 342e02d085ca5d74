"""How fast games of a host engine run, at every layer: the engine alone, the bridge around it, others' ways to step it.

All contestants play the same games of one engine, scripted players (the random one among them) on all seats:

- ``engine``: a loop in the engine's own language, without threads of the bridge, queues or buffers for others;
- ``bridge``: through `send` and `recv` of `HostPool`, which writes observation, mask and everything else of `Buffers`
  at every decision. The engine chooses the actions, as told by the number sent;
- ``chosen``: the same, with actions drawn by NumPy from the masks that came back, as a program that learns would;
- ``peer``: Gymnasium's AsyncVectorEnv around the same engine, with the same choice.

A unit is one decision. How many decisions and rounds a game has is counted before anything is timed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxrl.diagnose.host_play import BLOCK, by_engine, host_play
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.engine import NoopEngine
from jaxrl_envs.host.game import Buffers, HostGame
from scripts.benchmark.engine_play import EnginePlay, WorkEngine

COUNTED = 600  # decisions of each slot that the length of games is counted over
ROUND = "round"  # the info number of an engine that counts rounds, if it has one


class NoopGame(HostGame):
    """Games in which nothing happens: what the bridge itself costs."""

    id, version = "noop", "1"
    num_players, num_actions, num_features, state_bytes = 2, 8, 16, 8
    info_names = ("episode",)

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> Any:
        """An engine that does nothing; `seed` and `first_slot` change nothing."""
        return NoopEngine(num_games, num_features=self.num_features, num_actions=self.num_actions)


class WorkGame(HostGame):
    """Games in which nothing happens, slowly: what a training makes of an engine that costs so much."""

    id, version = "work", "1"
    num_players, num_actions, num_features, state_bytes = 2, 8, 16, 4

    def __init__(self, work_us: float):
        """An engine that takes `work_us` microseconds of a core for each decision."""
        self.work_us = work_us

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> Any:
        """An engine that waits; `seed` and `first_slot` change nothing."""
        sizes = {"num_features": self.num_features, "num_actions": self.num_actions}
        return WorkEngine(num_games, int(1e3 * self.work_us), **sizes)


def find_game(env_id: str, options: dict[str, Any]) -> HostGame:
    """The host game of a registered name; "" is the one in which nothing happens."""
    if not env_id:
        return NoopGame()
    from jaxrl_envs.contract import registry  # imports jax, which the processes of a peer do without

    env: Any = registry.make(env_id, **options)
    return env.game


class HostContestants:
    """Makes contestants for one game and batch, and ends their threads and processes; a context manager."""

    def __init__(self, game: HostGame, batch: int, options: dict[str, Any] | None = None):
        """Starts nothing yet.

        Args:
          game: whose engine is played.
          batch: games side by side.
          options: that `game` was made with, for processes that make one of their own.
        """
        self.game, self.batch, self._options = game, batch, options or {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> HostContestants:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all threads and processes."""
        self._stack.close()

    # ---- contestants ----

    def contestant(self, layer: str, bot: int, observe: bool, threads: int) -> Contestant:
        """The way to play that `layer` names; see the module."""
        if layer == "engine":
            return self.engine_alone(bot, observe=observe, threads=threads)
        if layer == "bridge":
            return self.bridge(bot, threads=threads)
        return self.chosen(threads=threads) if layer == "chosen" else self.peer()

    def engine_alone(self, bot: int, *, observe: bool, threads: int) -> Contestant:
        """The engine's own loop with bot number `bot` on all seats, its games shared by `threads` threads."""
        play, counted = self._played(bot, observe)
        steps = max(1, BLOCK // self.batch)
        if threads == 1:
            return self._contestant("engine", bot, observe, threads, lambda: play.play(steps), steps, counted)
        pool = self._stack.enter_context(ThreadPoolExecutor(threads))
        bounds = [self.batch * i // threads for i in range(threads + 1)]
        parts = [(steps, low, high - low) for low, high in zip(bounds, bounds[1:], strict=False)]

        def block() -> None:
            list(pool.map(lambda part: play.play(*part), parts))

        return self._contestant("engine", bot, observe, threads, block, steps, counted)

    def bridge(self, bot: int, *, threads: int) -> Contestant:
        """Through the bridge; the engine chooses."""
        counted = self._played(bot, False)[1] if self.game.id != NoopGame.id else {}
        return self._bridged("bridge", bot, threads, by_engine(self.batch, bot), max(1, BLOCK // self.batch), counted)

    def chosen(self, *, threads: int) -> Contestant:
        """Through the bridge; NumPy chooses by the masks."""
        generator = np.random.default_rng(0)

        def choose(buffers: Buffers) -> np.ndarray:
            return legal_choice(generator, buffers.legal_action_mask)

        return self._bridged("chosen", 0, threads, choose, max(1, BLOCK // self.batch // 4), {})

    def peer(self) -> Contestant:
        """AsyncVectorEnv with a process for each game; NumPy chooses by the masks."""
        from scripts.benchmark.peers.gymnasium_vector import vector_env

        env = vector_env(functools.partial(type(self.game), **self._options), self.batch)
        self._stack.callback(env.close)
        generator = np.random.default_rng(0)
        seen = [env.reset()[0]]

        def block() -> None:
            for _ in range(50):
                seen[0] = env.step(legal_choice(generator, seen[0]["mask"]))[0]

        return self._contestant("peer", 0, True, self.batch, block, 50, {})

    # ---- parts ----

    def _contestant(
        self,
        layer: str,
        bot: int,
        observe: bool,
        threads: int,
        block: Callable[[], Any],
        steps: int,
        counted: dict[str, float],
    ) -> Contestant:
        """A contestant named after what it is."""
        who = self.game.bots[bot]
        what = "" if layer != "engine" else ", observed" if observe else ", lean"
        unit = "processes" if layer == "peer" else "thread" if threads == 1 else "threads"
        name = f"{layer}: {who}{what}, {threads} {unit}"
        info: dict[str, Any] = {"batch": self.batch, "layer": layer, "bot": who, "observe": observe, "threads": threads}
        return Contestant(name, float(self.batch * steps), block, info | counted)

    def _played(self, bot: int, observe: bool) -> tuple[EnginePlay, dict[str, float]]:
        """Games in the middle of their course, and the mean decisions and rounds of a game."""
        rounds = self.game.info_names.index(ROUND) if ROUND in self.game.info_names else -1
        engine = self.game.engine(self.batch, 1)
        play = EnginePlay(engine, [bot] * self.game.num_players, observe=observe, round_info=rounds)
        decisions, games, total = play.play(COUNTED)
        if not games:
            return play, {}
        counted = {"decisions_per_game": decisions / games}
        return play, counted | ({"rounds_per_game": total / games} if rounds >= 0 else {})

    def _bridged(
        self,
        layer: str,
        bot: int,
        threads: int,
        choose: Callable[[Buffers], np.ndarray],
        steps: int,
        counted: dict[str, float],
    ) -> Contestant:
        """A contestant with a pool of its own."""
        pool = self._stack.enter_context(HostPool(self.game.engine(self.batch, 1), threads=threads))
        play = host_play(pool, self.game, self.batch, choose)
        return self._contestant(layer, bot, True, threads, lambda: play(steps), steps, counted)

    def hot_paths(self, threads: int) -> Iterator[tuple[str, Callable[[], Any], int]]:
        """(name, block, decisions in a block) of what must not allocate: the engine alone, and through the bridge."""
        for bot in sorted({0, len(self.game.bots) - 1}):
            alone = self.engine_alone(bot, observe=True, threads=1)
            yield alone.name, alone.block, int(alone.units)
        bridge = self.bridge(0, threads=threads)
        yield bridge.name, bridge.block, int(bridge.units)


def legal_choice(generator: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """A uniformly drawn legal action i32[N] for each row of bool[N, A]."""
    score = 1.0 - generator.random(mask.shape, np.float32)  # above 0, so that a masked action never wins
    return (score * mask).argmax(axis=1).astype(np.int32)
