"""Setup of a Sebulba training: the struct shared by loop, session, actors and learner.

Also creates the engines of each actor and the first games, staggered so that rollouts cover all phases of a game.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl.algorithms.base import AXIS, Algorithm
from jaxrl.config import Config
from jaxrl.runs import distributed
from jaxrl.training.anakin.lanes import RolloutSetup
from jaxrl.training.sebulba.inference import ActorPrograms, Seating
from jaxrl.training.sebulba.remote.cluster import worker_pool
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl.training.state import HostLanes, TrainState
from jaxrl.training.timers import Timers, forward_share
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, Buffers, EngineError, HostGame, engine_failure, make_buffers
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.resources import cores


@dataclasses.dataclass(frozen=True)
class HostSetup:
    """The constant parts of a training on host games."""

    config: Config
    rollout: RolloutSetup
    mesh: Mesh  # mesh of the learner; actors use its devices in turn

    @functools.cached_property
    def timers(self) -> Timers:
        """Counters of the run."""
        rollout = self.rollout
        share = functools.partial(forward_share, rollout.algorithm, rollout.env, self.config.batch_size)
        return Timers(self.config.sebulba.profile, share)

    @property
    def own_actors(self) -> int:
        """The number of actor threads of this process."""
        return self.config.sebulba.actors // distributed.count()

    @property
    def own_lanes(self) -> int:
        """The number of games of this process."""
        return self.config.train.num_envs // distributed.count()

    @property
    def lanes_before(self) -> int:
        """The number of games of the processes before it: lanes have global numbers."""
        return self.own_lanes * distributed.rank()

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that learns."""
        return self.rollout.algorithm

    @functools.cached_property
    def game(self) -> HostGame:
        """The game that is played."""
        game: HostGame = self.rollout.env.game  # type: ignore[attr-defined]  # an jaxrl_envs.host.env.HostEnv
        return game

    @functools.cached_property
    def programs(self) -> ActorPrograms:
        """The compiled functions of all actors."""
        return ActorPrograms(self.rollout)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The engine's numbers of all controllers of `jaxrl.league.seats` (M bots, K snapshots), i8[1 + M + K]:
        -1 = asked, else a bot's."""
        bots = (self.game.bots.index(bot) for bot in self.rollout.seats.bots)
        return np.array([-1, *bots, *[-1] * self.config.league.snapshots], np.int8)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Of the same controllers, for an engine that records its games."""
        snapshots = (f"snapshot {slot}" for slot in range(self.config.league.snapshots))
        return ("learner", *self.rollout.seats.bots, *snapshots)

    @property
    def share(self) -> int:
        """Games of each actor."""
        return self.config.train.num_envs // self.config.sebulba.actors

    @property
    def replicated(self) -> NamedSharding:
        """Sharding of arrays that all devices hold."""
        return NamedSharding(self.mesh, Spec())

    @property
    def by_lane(self) -> NamedSharding:
        """Sharding of arrays whose lanes are spread over the devices."""
        return NamedSharding(self.mesh, Spec(AXIS))

    def make_pool(self, actor: int, seed: int, groups: int) -> HostPool | WorkerPool:
        """Returns the games of one actor of this process, and the threads that step them, or the workers of `fleet`.
        Raises UserError: workers are wanted, but cannot be had. `actor`: number of the actor in this process. `seed`:
        seed of the games; games that are loaded bring theirs."""
        number, config, game = self.lanes_before // self.share + actor, self.config, self.game
        if config.fleet.workers:
            return worker_pool(config, game, number, self.share, seed=seed, groups=groups)
        threads = config.sebulba.threads or cores() * distributed.count()
        return HostPool(
            game.meant_for("training").engine(self.share, seed, first_slot=number * self.share),
            threads=self.share if game.remote else max(1, threads // config.sebulba.actors),
            groups=groups,
            timeout=config.sebulba.timeout,
            timed=config.sebulba.profile,
        )


def check_room(config: Config, game: HostGame, games: int, key: str) -> None:
    """Checks that the engine processes have room for the games of a training. Raises UserError: games would have to
    take each other's process away at every decision, and be played again; or the run would stop before a game that has
    lost its process can go on in another one.

    Args:
      games: side by side.
      key: key of the configuration that says so, e.g. train.num_envs.
    """
    room = game.capacity() if game.remote and not config.fleet.workers else games
    if games > room:
        raise UserError(
            f"{key} is {games}, but {game.id} has room for {room} games at a time here: lower it (and sebulba.actors "
            "with it), or let more engine processes run."
        )
    timeout = config.sebulba.timeout
    if timeout < game.patience():
        raise UserError(
            f"sebulba.timeout is {timeout:g} s, but {game.id} may need {game.patience():g} s to find out that "
            "an engine process hangs and to go on in another one: raise it."
        )


# ---- the first games ----------------------------------------------------------------------------------------------


def first_lanes(setup: HostSetup, state: TrainState, seed: int) -> HostLanes:
    """Returns all games of this process before the first rollout, dealt and staggered. Raises UserError: an engine
    failed or hangs."""
    pool_state = state.pool.replace(snapshots=None) if state.pool is not None else None
    ids = np.arange(setup.lanes_before, setup.lanes_before + setup.own_lanes, dtype=np.uint32)
    key, pool_state = distributed.local((state.key, pool_state), setup.mesh.local_devices[0])
    seating = setup.programs.seating(key, np.int32(0), pool_state, ids)
    parts, wrong = [], None
    for actor in range(setup.own_actors):
        share = slice(actor * setup.share, (actor + 1) * setup.share)
        # Without a pool there are no odds.
        odds, numbers = jax.tree.map(lambda leaf, s=share: leaf[s], (seating.odds, seating.lane_ids))
        with setup.make_pool(actor, seed, groups=1) as pool:
            try:
                parts.append(_Beginning(setup, pool, seating._replace(odds=odds, lane_ids=numbers)).play())
            except EngineError as error:
                wrong = engine_failure(error, setup.game.id, setup.lanes_before + share.start)
                wrong.__cause__ = error
                break
    distributed.raise_together(wrong)
    blobs, controllers, episode, length, returns = (np.concatenate(leaves) for leaves in zip(*parts, strict=True))
    seats = setup.game.num_players
    memory = jax.tree.map(np.asarray, setup.algorithm.network.memory((setup.own_lanes, seats)))
    return HostLanes(blobs, controllers, memory, episode, length, distributed.shard(returns, setup.by_lane))


class _Beginning:
    """Staggers the games of one actor before the first rollout."""

    def __init__(self, setup: HostSetup, pool: HostPool | WorkerPool, seating: Seating):
        self._setup, self._pool, self._seating = setup, pool, seating
        self._varied, self._numbers = setup.programs.varied, setup.numbers
        count = setup.share
        self._episode = np.zeros(count, np.uint32)
        self._controllers = self._dealt(0)
        self._following = self._dealt(1)
        self._returns = np.zeros((count, setup.game.num_players), np.float32)
        self._rows: Buffers = make_buffers(setup.game, count)

    def play(self) -> tuple[np.ndarray, ...]:
        """Returns the fields of `HostLanes`: lane i of B has played ``i * train.stagger / B`` random decisions."""
        pool, train = self._pool, self._setup.config.train
        lanes = np.asarray(self._seating.lane_ids).astype(np.int64)
        pause = lanes * train.stagger // train.num_envs
        pool.controllers[:] = self._numbers[self._controllers]
        pool.next_controllers[:] = pool.controllers  # for a game that ends before a seat is asked
        pool.start(self._rows)
        self._returns[:] = self._rows.opening
        random = np.full(self._rows.action.shape, RANDOM, np.int32)
        for t in range(train.stagger):
            if t:
                self._restart(pause == train.stagger - t)
            pool.next_controllers[:] = self._numbers[self._following]
            pool.send(random, self._rows)
            pool.recv()
            self._returns += self._rows.rewards
            self._next(self._rows.terminated | self._rows.truncated)
        if train.stagger:
            self._restart(pause == 0)
        return pool.save(), self._controllers, self._episode, np.array(pool.length), self._returns

    def _restart(self, games: np.ndarray) -> None:
        """Restarts these games: the random decisions from now on are all that they have played."""
        if games.any():
            self._pool.next_controllers[:] = self._numbers[self._following]
            self._pool.restart(np.flatnonzero(games).astype(np.int32), self._rows)
            self._next(games)

    def _next(self, over: np.ndarray) -> None:
        """Updates controllers and returns where a new game has begun."""
        if over.any():
            self._returns[over] = self._rows.opening[over]
            self._controllers[over] = self._following[over]
            self._episode += over
            self._following = self._dealt(1)

    def _dealt(self, later: int) -> np.ndarray:
        """Returns i8[B, P]: the controllers of the games, or of those `later`."""
        if not self._varied:
            return np.zeros((len(self._episode), self._setup.game.num_players), np.int8)
        return np.array(self._setup.programs.deal(self._seating, self._episode + np.uint32(later)))
