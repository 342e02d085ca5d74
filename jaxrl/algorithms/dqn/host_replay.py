"""The replay memory of games on the host: preallocated NumPy arrays in a ring, with a sum-tree of priorities.

Records are kept as `nstep` describes. The memory does not lock: one thread uses it, see `prefetch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from flax import struct

from envs.host.core import OUTSIDE, HostGame, aligned
from jaxrl.algorithms.dqn.loss import Batch
from jaxrl.algorithms.dqn.nstep import END, LOST, NONE, OPEN, Played, Sequel, Waiting, link_on_host, n_step
from jaxrl.algorithms.dqn.state import STORAGE
from jaxrl.algorithms.dqn.sumtree import SumTree
from jaxrl.config.schema import DQNConfig
from jaxrl.training.sebulba.storage import Storage

MANY = 2**30  # records are counted up to here


@struct.dataclass
class HostMemory:
    """A memory as a part of the training state: arrays of the host. N records, F features, A actions, B lanes."""

    observation: Any  # f16 or f32[N, F]
    mask: Any  # bool[N, A]
    action: Any  # i32[N]
    reward: Any  # f32[N], earned up to the seat's next decision
    following: Any  # i32[N], see `nstep`
    priority: Any  # f32[N], 0 = cannot be drawn
    waiting: Waiting  # i32[B, P] and f32[B, P]
    counts: Any  # i32[2], the record that is written next, and transitions so far that could be drawn (up to MANY)
    highest: Any  # f32[], the largest priority so far: that of new transitions


class Drawn(NamedTuple):
    """Room for one batch."""

    records: np.ndarray  # i32[n]
    batch: Batch


def memory_shapes(game: HostGame, dqn: DQNConfig, lanes: int) -> HostMemory:
    """Shapes and dtypes of a memory."""
    n, form = dqn.capacity, jax.ShapeDtypeStruct
    waiting = (lanes, game.num_players)
    return HostMemory(
        observation=form((n, game.num_features), np.dtype(STORAGE)),
        mask=form((n, game.num_actions), np.bool_),
        action=form((n,), np.int32),
        reward=form((n,), np.float32),
        following=form((n,), np.int32),
        priority=form((n,), np.float32),
        waiting=Waiting(form(waiting, np.int32), form(waiting, np.float32)),
        counts=form((2,), np.int32),
        highest=form((), np.float32),
    )


class HostReplay:
    """Transitions to draw from."""

    def __init__(self, game: HostGame, dqn: DQNConfig, lanes: int):
        """An empty memory; its big arrays are made now and never again."""
        self._dqn, self._forms = dqn, memory_shapes(game, dqn, lanes)
        arrays = jax.tree.map(lambda form: aligned(form.shape, form.dtype), self._forms)
        self._observation, self._mask, self._action = arrays.observation, arrays.mask, arrays.action
        self._reward, self._following = arrays.reward, arrays.following
        self._tree = SumTree(dqn.capacity)
        self._gamma = np.float32(dqn.gamma)
        self._key = 0
        self._waiting: Waiting = arrays.waiting
        self.clear()

    # ---- the training state -------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forgets everything."""
        self._following[:] = LOST
        self._tree.load(np.zeros(self._dqn.capacity, np.float32))
        self._waiting.record[:], self._waiting.reward[:] = NONE, 0.0
        self._head, self._written, self._highest = 0, 0, np.float32(1.0)

    def save(self) -> HostMemory:
        """The memory as a part of the state; its big arrays stay live and change with the next `push`."""
        return HostMemory(
            observation=self._observation,
            mask=self._mask,
            action=self._action,
            reward=self._reward,
            following=self._following,
            priority=self._tree.priorities(),
            waiting=Waiting(*[np.array(leaf) for leaf in self._waiting]),
            counts=np.array([self._head, self._written], np.int32),
            highest=np.array(self._highest, np.float32),
        )

    def load(self, memory: HostMemory) -> None:
        """Takes over what `save` gave, in this process or another."""
        kept = (self._observation, self._mask, self._action, self._reward, self._following)
        new = (memory.observation, memory.mask, memory.action, memory.reward, memory.following)
        for array, values in zip(kept, new, strict=True):
            if array is not values:
                array[:] = values
        self._tree.load(np.ascontiguousarray(memory.priority, np.float32))
        self._waiting = Waiting(*[np.array(leaf) for leaf in memory.waiting])
        self._head, self._written = (int(count) for count in memory.counts)
        self._highest = np.float32(memory.highest)

    def use_key(self, key: int) -> None:
        """The stream of random numbers that draws come from, below 2^64."""
        self._key = key

    @property
    def ready(self) -> bool:
        """Whether enough has been seen to learn from, and there is something to draw."""
        return self._written >= self._dqn.learning_starts and self._tree.total > 0.0

    @property
    def drawable(self) -> int:
        """How many transitions can be drawn."""
        return int(np.count_nonzero(self._tree.priorities()))

    # ---- writing ------------------------------------------------------------------------------------------------

    def push(self, storage: Storage) -> None:
        """Adds the decisions of a rollout and closes those that waited for it."""
        rows, steps = storage.buffers, storage.steps
        seat, lanes = rows.current_player[:steps], rows.current_player.shape[1]
        terminated, truncated = rows.terminated[1:], rows.truncated[1:]
        cut, asked = self._cuts(storage)
        fresh, count = steps * lanes, steps * lanes + int(np.count_nonzero(cut))
        seats = np.arange(self._waiting.record.shape[1], dtype=np.int32)
        record = ((self._head + np.arange(fresh)) % self._dqn.capacity).astype(np.int32).reshape(steps, lanes, 1)
        final = np.full((steps, lanes, 1), NONE, np.int32)
        final[cut, 0] = (self._head + np.arange(fresh, count)) % self._dqn.capacity
        played = Played(
            record=np.where(seat[..., None] == seats, record, NONE).astype(np.int32),
            rewards=rows.rewards[1:],
            terminated=terminated,
            truncated=truncated,
            final_record=np.where(asked[..., None] == seats, final, NONE).astype(np.int32),
        )
        waiting = self._without_overwritten(count)
        links = link_on_host(played, waiting)
        mine = Sequel(*[np.take_along_axis(leaf, seat[..., None], axis=-1).ravel() for leaf in links.rollout])
        ends = Sequel(np.full(count - fresh, LOST, np.int32), np.zeros(count - fresh, np.float32))
        sequel = Sequel(*[np.concatenate(both) for both in zip(mine, ends, strict=True)])
        self._write(rows.observation[:steps], rows.legal_action_mask[:steps], rows.action[1:], fresh)
        self._write_finals(rows.final_observation[1:][cut], fresh)
        everything = ((self._head + np.arange(count)) % self._dqn.capacity).astype(np.int32)
        self._link(everything, sequel)
        known = (waiting.record >= 0) & (links.waited.following != OPEN)
        self._link(waiting.record[known], Sequel(*[leaf[known] for leaf in links.waited]))
        self._waiting, self._head = links.waiting, (self._head + count) % self._dqn.capacity

    def _cuts(self, storage: Storage) -> tuple[np.ndarray, np.ndarray]:
        """bool[T, B]: games that were cut off while a seat of ours was asked, and i32[T, B], which one."""
        rows = storage.buffers
        asked = rows.final_player[1:]
        cut = rows.truncated[1:] & ~rows.terminated[1:] & (asked >= 0)
        if cut.any():
            holder = np.take_along_axis(rows.controllers[1:], np.maximum(asked, 0)[..., None], axis=-1)[..., 0]
            cut &= holder == OUTSIDE
        return cut, asked

    def _without_overwritten(self, count: int) -> Waiting:
        """The decisions that wait, without those that `count` new records are about to overwrite."""
        record, reward = self._waiting
        gone = (record >= 0) & ((record - self._head) % self._dqn.capacity < count)
        return Waiting(np.where(gone, NONE, record).astype(np.int32), np.where(gone, np.float32(0.0), reward))

    def _write(self, observation: np.ndarray, mask: np.ndarray, action: np.ndarray, count: int) -> None:
        """Writes `count` decisions [T, B, ...] from the head on."""
        self._ring(self._observation, observation.reshape(count, -1), 0)
        self._ring(self._mask, mask.reshape(count, -1), 0)
        self._ring(self._action, action.reshape(count), 0)

    def _write_finals(self, observation: np.ndarray, offset: int) -> None:
        """Writes final observations f32[M, F] behind the decisions; a finished game has no illegal actions any more."""
        self._ring(self._observation, observation, offset)
        self._ring(self._mask, np.ones((len(observation), self._mask.shape[1]), bool), offset)
        self._ring(self._action, np.zeros(len(observation), np.int32), offset)

    def _ring(self, array: np.ndarray, rows: np.ndarray, offset: int) -> None:
        """Copies rows to the places from the head + `offset` on, around the end."""
        first = (self._head + offset) % len(array)
        before = min(len(rows), len(array) - first)
        array[first : first + before] = rows[:before]
        array[: len(rows) - before] = rows[before:]

    def _link(self, records: np.ndarray, sequel: Sequel) -> None:
        """Writes what follows some records; those whose end is known can be drawn from now on."""
        self._following[records], self._reward[records] = sequel
        known = sequel.following >= END
        self._tree.set(records, np.where(known, self._highest, np.float32(0.0)))
        self._written = min(self._written + int(np.count_nonzero(known)), MANY)

    # ---- drawing ------------------------------------------------------------------------------------------------

    def room(self) -> Drawn:
        """Memory for one batch, to be used again and again."""
        n, features, actions = self._dqn.batch, self._observation.shape[1], self._mask.shape[1]
        observation, mask = ((n, features), self._observation.dtype), ((n, actions), np.bool_)
        batch = Batch(
            observation=aligned(*observation),
            mask=aligned(*mask),
            action=aligned((n,), np.int32),
            reward=aligned((n,), np.float32),
            discount=aligned((n,), np.float32),
            next_observation=aligned(*observation),
            next_mask=aligned(*mask),
            priority=aligned((n,), np.float32),
        )
        return Drawn(aligned((n,), np.int32), batch)

    def sample(self, number: int, into: Drawn) -> None:
        """Draws batch `number` of the training into `into`: the same on the same memory."""
        batch, records = into.batch, into.records
        self._tree.sample(self._key, number, records, batch.priority)
        found = n_step(np, self._sequel, records, self._gamma, self._dqn.n_step)
        # The records are within range, and numpy copies once more unless it may clip them.
        np.take(self._observation, records, axis=0, out=batch.observation, mode="clip")
        np.take(self._mask, records, axis=0, out=batch.mask, mode="clip")
        np.take(self._action, records, out=batch.action, mode="clip")
        np.take(self._observation, found.last, axis=0, out=batch.next_observation, mode="clip")
        np.take(self._mask, found.last, axis=0, out=batch.next_mask, mode="clip")
        batch.reward[:], batch.discount[:] = found.reward, found.discount

    def _sequel(self, records: np.ndarray) -> Sequel:
        return Sequel(self._following[records], self._reward[records])

    def reprioritise(self, records: np.ndarray, priority: np.ndarray) -> None:
        """New priorities f32[n] of records i32[n]; of a record that comes twice the later one counts."""
        self._tree.set(records, priority)
        self._highest = max(self._highest, priority.max())
