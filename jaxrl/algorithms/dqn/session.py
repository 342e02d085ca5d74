"""The threads of a DQN training on the host while it runs: made from a state, ended together."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from envs.host.core import EngineError, HostGame
from jaxrl.algorithms.dqn.host_replay import HostReplay
from jaxrl.algorithms.dqn.player import Acting, HostPlayer, HostPolicy
from jaxrl.algorithms.dqn.prefetch import Prefetcher
from jaxrl.config.schema import Config
from jaxrl.training.sebulba.counters import Timers
from jaxrl.training.sebulba.faults import explained
from jaxrl.training.sebulba.pools import actor_pool
from jaxrl.training.sebulba.state import HostLanes
from jaxrl.training.sebulba.storage import Storage, make_storage


class PlayingFailed(Exception):
    """A rollout could not be played; `__cause__` is what happened."""


class Session:
    """Players, the replay memory's thread, and two rollouts' worth of storage that take turns.

    Attributes:
      lanes: of the state that has been reached: only with that one the session goes on.
      prefetcher: the owner of the replay memory.
    """

    def __init__(
        self,
        config: Config,
        game: HostGame,
        policy: HostPolicy,
        numbers: np.ndarray,
        replay: HostReplay,
        timers: Timers,
        seed: int = 0,
    ):
        """Starts the engine threads; no game is played yet.

        Args:
          config, game: what is trained.
          policy: the compiled functions.
          numbers: i8[1 + M], what the engine calls each controller.
          replay: the memory.
          timers: counters of the run.
          seed: of the games; games that are loaded bring theirs.
        """
        sebulba = config.sebulba
        self.lanes: HostLanes | None = None
        self.prefetcher = Prefetcher(replay, timers)
        self._timers = timers
        self.players: list[HostPlayer] = []
        self._share = config.train.num_envs // sebulba.actors
        for number in range(sebulba.actors):
            pool = actor_pool(sebulba, game, number, self._share, seed=seed, groups=sebulba.groups)
            self.players.append(HostPlayer(number, pool, policy, numbers, timers))
        self._storages = [
            make_storage(game, config.train.num_steps, config.train.num_envs, sebulba.actors, sebulba.groups)
            for _ in range(2)
        ]
        self._threads = ThreadPoolExecutor(sebulba.actors, thread_name_prefix="player")
        self._rollouts = 0
        self._playing: list[Future] = []

    @property
    def storage(self) -> Storage:
        """Where the next rollout goes."""
        return self._storages[self._rollouts % 2]

    def start(self, acting: Acting) -> Storage:
        """Deals the first games; returns the storage whose row 0 and `after` show them.

        Raises:
          UserError: an engine failed or hangs.
        """
        for number, player in enumerate(self.players):
            try:
                player.start(self.storage, acting)
            except EngineError as error:
                raise explained(error, number * self._share) from error
        return self.storage

    def load(self, lanes: HostLanes) -> None:
        """Takes over the games of a state.

        Raises:
          UserError: the engine refuses one: other maps, rosters or settings.
        """
        for number, player in enumerate(self.players):
            try:
                player.load(lanes, self.storage)
            except EngineError as error:
                raise explained(error, number * self._share) from error
        self.lanes = lanes

    def begin(self, acting: Acting) -> None:
        """Begins to play the next rollout."""
        storage, last = self.storage, self._storages[(self._rollouts + 1) % 2] if self._rollouts else None
        storage.renew()
        self._playing = [self._threads.submit(player.play, storage, last, acting) for player in self.players]

    def take(self) -> Storage:
        """Waits for the rollout that is played; it stays as it is until the one after the next is begun.

        Raises:
          PlayingFailed: an engine failed or hangs.
        """
        storage, playing, self._playing = self.storage, self._playing, []
        errors = [future.exception() for future in playing]
        for number, error in enumerate(errors):
            if isinstance(error, EngineError):
                raise PlayingFailed from explained(error, number * self._share)
            if error is not None:
                raise PlayingFailed from error
        self._rollouts += 1
        return storage

    # ---- figures ------------------------------------------------------------------------------------------------

    def work(self) -> np.ndarray:
        """ns that the engine threads have worked: in all, on rules and observations, on scripted players."""
        total = np.zeros(3, np.int64)
        for player in self.players:
            parts = player.pool.counters
            total += [int(player.pool.busy_ns.sum()), parts["step"][0] + parts["observe"][0], parts["bots"][0]]
        return total

    def count(self, before: np.ndarray) -> float:
        """Adds the engines' work since `before` to the counters; returns the ns of all threads."""
        busy, rules, bots = self.work() - before
        self._timers.add_ns("env_step", int(rules))
        self._timers.add_ns("opponent_turn", int(bots))
        return float(busy)

    @property
    def num_threads(self) -> int:
        """Engine threads."""
        return sum(len(player.pool.threads) for player in self.players)

    def close(self) -> None:
        """Ends all threads; a rollout under way is finished first, or fails."""
        for future in self._playing:
            future.exception()
        self._threads.shutdown()
        self.prefetcher.close()
        for player in self.players:
            player.pool.close()
