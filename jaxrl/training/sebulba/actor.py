"""An actor: a thread that plays its share of the games and writes rollouts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.algorithms.base import Asked
from jaxrl.networks.distributions import MASK_FILL
from jaxrl.training.program import Diverged
from jaxrl.training.sebulba.inference import BlockAnswer, Seating
from jaxrl.training.sebulba.pipeline import Closed, Pipeline
from jaxrl.training.sebulba.setup import HostSetup
from jaxrl.training.sebulba.storage import Storage
from jaxrl.training.state import Acting, HostLanes, is_sound
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import EngineError, IllegalAction, engine_failure

ENGINE_SEED = 0  # games are loaded, with streams of their own
SUSPECT = 1e3  # weights of a sound network are smaller


class ActorThread(threading.Thread):
    """Plays lanes ``number * share .. (number + 1) * share - 1`` in blocks with double buffering: the engine steps one
    block while the device evaluates the next. Every process numbers its own actors and lanes from 0."""

    def __init__(self, setup: HostSetup, number: int, pipeline: Pipeline, lanes: HostLanes, first: int):
        """Makes its games, which are closed when the thread ends; starts nothing. Raises UserError: the engines cannot
        be had. `lanes`: lanes of all actors of this process, before rollout `first`; copied. `first`: number of the
        first rollout."""
        super().__init__(name=f"actor {number}", daemon=True)
        self.number, self._pipeline, self._first = number, pipeline, first
        self.pool = pool = setup.make_pool(number, ENGINE_SEED, setup.config.sebulba.groups)
        self._programs, self._timers, self._numbers = setup.programs, setup.timers, setup.numbers
        share, before = setup.share, setup.lanes_before
        groups, self._lanes = pool.groups, slice(number * share, (number + 1) * share)
        size = share // groups
        self._local = [slice(g * size, (g + 1) * size) for g in range(groups)]  # lanes of each block, in this actor
        self._global = [slice(s.start + number * share, s.stop + number * share) for s in self._local]
        self._blocks = list(range(number * groups, (number + 1) * groups))
        self._ids = [np.arange(s.start, s.stop, dtype=np.uint32) + np.uint32(before) for s in self._global]
        self._first_lane = before + number * share
        self._blobs = lanes.blobs[self._lanes]
        self._length = lanes.length[self._lanes]
        self._controllers = np.array(lanes.controllers[self._lanes])  # i8[share, P], of the running games
        self._following = self._controllers.copy()  # of the games after them, drawn again in every step
        self._episode = np.array(lanes.episode[self._lanes])
        if isinstance(pool, HostPool):  # workers have their engines elsewhere
            following, names = self._following, setup.names  # not the actor, or the engine would outlive it
            setup.game.seat(pool.engine, lambda game: [names[controller] for controller in following[game]])
        self._fresh = np.zeros(share, bool)  # games that have begun since their lane's last answer
        self._memory = [jax.tree.map(lambda leaf, s=s: leaf[s], lanes.memory) for s in self._global]  # of each block

    def run(self) -> None:
        """Plays until the pipeline is closed; reports every other end to it."""
        try:
            self._play()
        except Closed:
            pass
        except EngineError as error:
            self._pipeline.fail(engine_failure(error, self._programs.setup.env.id, self._first_lane))
        except BaseException as error:  # also SystemExit and the like: an uncaught one would go unnoticed
            self._pipeline.fail(error)
        finally:
            self.pool.close()

    # ---- one rollout after the other ----------------------------------------------------------------------------

    def _play(self) -> None:
        rollout, last = self._first, None
        while True:
            storage, published = self._pipeline.begin(self.number, rollout)
            if last is None:
                held = self._numbers[self._controllers]
                self.pool.load(self._blobs, held, storage.whole[self.number], self._length)
            else:
                storage.copy_questions(last, self._blocks)
            acting, key = published[self.number % len(published)]
            pool = acting.pool.replace(snapshots=None) if acting.pool is not None else None
            seatings = [self._programs.seating(key, np.int32(rollout), pool, ids) for ids in self._ids]
            self._deal_anew(storage, acting, seatings)
            self._fill(storage, acting, seatings)
            self._save(storage)
            self._pipeline.deliver(self.number, rollout)
            rollout, last = rollout + 1, storage

    def _deal_anew(self, storage: Storage, acting: Acting, seatings: Sequence[Seating]) -> None:
        """Restarts games against snapshots that have left the pool."""
        if acting.pool is None or not acting.pool.born.shape[0]:
            return
        stop = np.asarray(acting.pool.stale)[self._controllers.max(axis=1)]
        if not stop.any():
            return
        for block, seating in zip(self._local, seatings, strict=True):
            self._following[block] = np.asarray(self._programs.deal(seating, self._episode[block] + 1))
        self.pool.next_controllers[:] = self._numbers[self._following]
        self._pipeline.waits_for_engine(self.number)
        self.pool.restart(np.flatnonzero(stop).astype(np.int32), storage.whole[self.number])
        self._pipeline.beat(self.number, stepped=False)
        self._next_games(stop, slice(None))
        storage.restarted[self._lanes] = stop

    def _fill(self, storage: Storage, acting: Acting, seatings: Sequence[Seating]) -> None:
        """Plays T steps of every block."""
        groups = range(len(self._local))
        snapshots = None
        if acting.pool is not None and acting.pool.born.shape[0]:
            snapshots = acting.pool.snapshots
        for t in range(storage.steps):
            step = np.uint32(t)
            for group in groups:
                if t:
                    self._receive(storage, t, group)
                self._answer(storage, step, group, acting, snapshots, seatings[group])
        for group in groups:
            self._receive(storage, storage.steps, group)

    def _receive(self, storage: Storage, t: int, group: int) -> None:
        """Waits for the rows of step `t`."""
        if self._pipeline.closed:
            raise Closed
        self._pipeline.waits_for_engine(self.number)
        self.pool.recv(group)
        self._pipeline.beat(self.number)
        if self._programs.varied or self._programs.remembers:
            row = storage.rows[t][self._blocks[group]]
            self._next_games(row.terminated | row.truncated, self._local[group])

    def _next_games(self, over: np.ndarray, lanes: slice) -> None:
        """The engine has begun new games where the old ones are over, with the controllers that waited for them."""
        np.copyto(self._controllers[lanes], self._following[lanes], where=over[:, None])
        self._episode[lanes] += over
        self._fresh[lanes] |= over

    def _answer(
        self, storage: Storage, step: np.uint32, group: int, acting: Acting, snapshots: Any, seating: Seating
    ) -> None:
        """Chooses actions for a block on the device and sends them to the engine, which writes the next row."""
        local, lanes, block = self._local[group], self._global[group], self._blocks[group]
        row, programs = storage.rows[int(step)][block], self._programs
        controllers = self._controllers[local]
        self._keep_memory(storage, int(step), group)
        asked = Asked(row.observation, row.legal_action_mask, row.current_player)
        with self._timers.action:
            packed, self._memory[group] = programs.answers(
                acting.policy, snapshots, seating, step, asked, controllers, self._episode[local], self._memory[group]
            )
            answer = programs.read(packed)
        if programs.varied:
            storage.controllers[step, lanes] = controllers
            self._following[local] = answer.following.T
            self.pool.next_controllers[local] = self._numbers[self._following[local]]
        action = np.ascontiguousarray(answer.action.T) if storage.simultaneous else answer.action[0]
        try:
            self.pool.send(action, storage.rows[int(step) + 1][block], group)
        except IllegalAction as error:
            self._require_sound(error, answer, local, acting)
            raise
        storage.log_prob[step, lanes] = answer.log_prob.T
        storage.value[step, lanes] = answer.value.T

    def _require_sound(self, error: IllegalAction, answer: BlockAnswer, lanes: slice, acting: Acting) -> None:
        """Raises Diverged if an illegal action is due to logits too large for the mask; otherwise it is a bug."""
        numbers = np.stack([answer.value, answer.log_prob])[..., error.game - lanes.start]
        if (np.abs(numbers) < -MASK_FILL).all() and is_sound(acting.policy.params, SUSPECT):
            return
        game = error.game + self._first_lane
        found = f"its policy answers game {game} with action {error.action}, which is not legal,"
        raise Diverged(found, int(acting.version)) from error

    def _keep_memory(self, storage: Storage, step: int, group: int) -> None:
        """Clears recurrent states of new games, and stores them at the start of a chunk and at the end of the
        rollout."""
        if not self._programs.remembers:
            return
        fresh = self._fresh[self._local[group]].copy()  # jax may read it later
        if fresh.any():
            self._memory[group] = self._programs.cleared(self._memory[group], fresh)
            self._fresh[self._local[group]] = False
        chunk, rest = divmod(step, self._programs.setup.algorithm.sequence)
        if not rest:
            for kept, memory in zip(jax.tree.leaves(storage.memory), jax.tree.leaves(self._memory[group]), strict=True):
                kept[chunk, self._global[group]] = np.asarray(memory)

    def _save(self, storage: Storage) -> None:
        """Saves the games after the last step."""
        after = storage.after
        for group in range(len(self._local)):
            self._keep_memory(storage, storage.steps, group)
        for kept, memory in zip(jax.tree.leaves(after.memory), jax.tree.leaves(storage.memory), strict=True):
            kept[self._lanes] = memory[-1, self._lanes]
        self.pool.save(after.blobs[self._lanes])
        after.controllers[self._lanes] = self._controllers
        after.episode[self._lanes] = self._episode
        after.length[self._lanes] = self.pool.length
