"""The first games of a training on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from jaxrl.runs import distributed
from jaxrl.training.sebulba.inference import Seating
from jaxrl.training.state import HostLanes, TrainState
from jaxrl_envs.host.faults import explained
from jaxrl_envs.host.game import RANDOM, Buffers, EngineError, make_buffers

if TYPE_CHECKING:
    from jaxrl.training.sebulba.loop import Sebulba
    from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
    from jaxrl_envs.host.bridge import HostPool


def first_lanes(program: Sebulba, state: TrainState, seed: int) -> HostLanes:
    """All games of this process before the first rollout, dealt and staggered.

    Args:
      program: the training.
      state: its first state, without lanes.
      seed: of the engines.

    Raises:
      UserError: an engine failed or hangs.
    """
    pool_state = state.pool.replace(snapshots=None) if state.pool is not None else None
    ids = np.arange(program.lanes_before, program.lanes_before + program.own_lanes, dtype=np.uint32)
    key, pool_state = distributed.local((state.key, pool_state), program.mesh.local_devices[0])
    seating = program.programs.seating(key, np.int32(0), pool_state, ids)
    parts, wrong = [], None
    for actor in range(program.own_actors):
        share = slice(actor * program.share, (actor + 1) * program.share)
        # Without a pool there are no odds.
        odds, numbers = jax.tree.map(lambda leaf, s=share: leaf[s], (seating.odds, seating.lane_ids))
        with program.make_pool(actor, seed, groups=1) as pool:
            try:
                parts.append(_Beginning(program, pool, seating._replace(odds=odds, lane_ids=numbers)).play())
            except EngineError as error:
                wrong = explained(error, program.game.id, program.lanes_before + share.start)
                wrong.__cause__ = error
                break
    distributed.raise_together(wrong)
    blobs, controllers, episode, length, returns = (np.concatenate(leaves) for leaves in zip(*parts, strict=True))
    seats = program.game.num_players
    memory = jax.tree.map(np.asarray, program.algorithm.network.memory((program.own_lanes, seats)))
    return HostLanes(blobs, controllers, memory, episode, length, distributed.shard(returns, program.by_lane))


class _Beginning:
    """The games of one actor until the first rollout."""

    def __init__(self, program: Sebulba, pool: HostPool | WorkerPool, seating: Seating):
        self._program, self._pool, self._seating = program, pool, seating
        self._varied, self._numbers = program.programs.varied, program.numbers
        count = program.share
        self._episode = np.zeros(count, np.uint32)
        self._controllers = self._dealt(0)
        self._following = self._dealt(1)
        self._returns = np.zeros((count, program.game.num_players), np.float32)
        self._rows: Buffers = make_buffers(program.game, count)

    def play(self) -> tuple[np.ndarray, ...]:
        """The fields of `HostLanes`: lane i of B has played ``i * train.stagger / B`` random decisions."""
        pool, train = self._pool, self._program.config.train
        lanes = np.asarray(self._seating.lane_ids).astype(np.int64)
        pause = lanes * train.stagger // train.num_envs
        pool.controllers[:] = self._numbers[self._controllers]
        pool.next_controllers[:] = pool.controllers  # for a game that ends before anybody is asked
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
        """These games begin now: those that begin later have played on for longer than they shall."""
        if games.any():
            self._pool.next_controllers[:] = self._numbers[self._following]
            self._pool.restart(np.flatnonzero(games).astype(np.int32), self._rows)
            self._next(games)

    def _next(self, over: np.ndarray) -> None:
        """New games stand where the old ones are over."""
        if over.any():
            self._returns[over] = self._rows.opening[over]
            self._controllers[over] = self._following[over]
            self._episode += over
            self._following = self._dealt(1)

    def _dealt(self, later: int) -> np.ndarray:
        """i8[B, P]: the controllers of the games, or of those `later`."""
        if not self._varied:
            return np.zeros((len(self._episode), self._program.game.num_players), np.int8)
        return np.array(self._program.programs.deal(self._seating, self._episode + np.uint32(later)))
