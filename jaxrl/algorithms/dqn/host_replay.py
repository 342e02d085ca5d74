"""The prioritised replay buffer of host games: a ring of preallocated NumPy arrays with a sum-tree.

Records are laid out as described in `nstep`. Not thread-safe: a single thread uses it, see `prefetch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from flax import struct

from jaxrl.algorithms.base import Transition
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.loss import Transitions
from jaxrl.algorithms.dqn.nstep import END, LOST, NONE, OPEN, STORAGE, Sequel, Waiting, n_step, writing
from jaxrl.algorithms.dqn.sumtree import SumTree
from jaxrl_envs.host.game import HostGame, aligned

MANY = 2**30  # records are counted up to here


@struct.dataclass
class HostReplayBuffer:
    """The buffer as part of the training state, host arrays. N records, F features, A actions, B lanes, P seats."""

    observation: Any  # f16 or f32[N, F]
    mask: Any  # bool[N, A]
    action: Any  # i32[N]
    reward: Any  # f32[N], earned until the seat's next decision
    following: Any  # i32[N], see `nstep`
    priority: Any  # f32[N], 0 = cannot be sampled
    waiting: Waiting  # i32[B, P] and f32[B, P]
    counts: Any  # i32[2], the record to write next, and transitions completed so far (up to MANY)
    highest: Any  # f32[], the largest priority so far, given to new transitions


class Drawn(NamedTuple):
    """Preallocated arrays for one batch."""

    records: np.ndarray  # i32[n]
    batch: Transitions


def buffer_shapes(game: HostGame, dqn: DQNConfig, lanes: int) -> HostReplayBuffer:
    """Returns shapes and dtypes of a buffer."""
    n, form = dqn.capacity, jax.ShapeDtypeStruct
    waiting = (lanes, game.num_players)
    return HostReplayBuffer(
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
    """The replay buffer and its sum-tree."""

    def __init__(self, game: HostGame, dqn: DQNConfig, lanes: int):
        """Makes an empty buffer; allocates all large arrays."""
        self._dqn, self._forms = dqn, buffer_shapes(game, dqn, lanes)
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
        """Removes all records."""
        self._following[:] = LOST
        self._tree.load(np.zeros(self._dqn.capacity, np.float32))
        self._waiting.record[:], self._waiting.reward[:] = NONE, 0.0
        self._head, self._written, self._highest = 0, 0, np.float32(1.0)

    def save(self) -> HostReplayBuffer:
        """The buffer as part of the training state; its large arrays are shared and change in the next `push`."""
        return HostReplayBuffer(
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

    def load(self, memory: HostReplayBuffer) -> None:
        """Restores the result of `save`, from this process or another."""
        kept = (self._observation, self._mask, self._action, self._reward, self._following)
        new = (memory.observation, memory.mask, memory.action, memory.reward, memory.following)
        for array, values in zip(kept, new, strict=True):
            if array is not values:
                array[:] = values
        self._tree.load(np.ascontiguousarray(memory.priority, np.float32))
        self._waiting = Waiting(*[np.array(leaf) for leaf in memory.waiting])
        self._head, self._written = (int(count) for count in memory.counts)
        self._highest = np.float32(memory.highest)

    def use_key(self, key: jax.Array) -> None:
        """Sets the key for sampling: a typed key of two words."""
        hi, lo = np.asarray(jax.random.key_data(key)).astype(np.uint64)
        self._key = int(hi) << 32 | int(lo)

    @property
    def ready(self) -> bool:
        """Whether `dqn.learning_starts` is reached and some transition can be sampled."""
        return self._written >= self._dqn.learning_starts and self._tree.total > 0.0

    @property
    def drawable(self) -> int:
        """Number of transitions that can be sampled."""
        return int(np.count_nonzero(self._tree.priorities()))

    # ---- writing ------------------------------------------------------------------------------------------------

    def push(self, steps: Transition) -> None:
        """Adds the learner's decisions of a rollout [T, B, ...] (host arrays) and completes pending records."""
        plan = writing(np, steps, np.int32(self._head), self._dqn.capacity, self._waiting)
        asked = steps.seat.shape[-1]
        self._write(plan.record[..., :asked], steps.observation, steps.mask, steps.action)
        last = plan.record[..., asked:]
        if (last >= 0).any():
            # A finished game has no legal actions: treat all of them as legal.
            self._write(last, steps.final_observation, np.ones_like(steps.mask), np.zeros_like(steps.action))
        kept = plan.record >= 0
        self._link(plan.record[kept], Sequel(*[leaf[kept] for leaf in plan.sequel]))
        known = (plan.waited >= 0) & (plan.closed.following != OPEN)
        self._link(plan.waited[known], Sequel(*[leaf[known] for leaf in plan.closed]))
        self._waiting, self._head = plan.waiting, (self._head + int(plan.count)) % self._dqn.capacity

    def _write(self, record: np.ndarray, observation: np.ndarray, mask: np.ndarray, action: np.ndarray) -> None:
        """Writes decisions [T, B, S, ...] to records i32[T, B, S]; number NONE is skipped."""
        keep = record >= 0
        if keep.all() and record.size and (record.flat[-1] - record.flat[0]) == record.size - 1:
            self._range(int(record.flat[0]), record.size, observation, mask, action)  # contiguous: no copy
            return
        index = record[keep]
        self._observation[index], self._mask[index], self._action[index] = observation[keep], mask[keep], action[keep]

    def _range(self, first: int, count: int, observation: np.ndarray, mask: np.ndarray, action: np.ndarray) -> None:
        """Writes all decisions to consecutive records."""
        here = slice(first, first + count)
        self._observation[here] = observation.reshape(count, -1)
        self._mask[here], self._action[here] = mask.reshape(count, -1), action.reshape(count)

    def _link(self, records: np.ndarray, sequel: Sequel) -> None:
        """Writes the successors of records; completed transitions can be sampled from now on."""
        self._following[records], self._reward[records] = sequel
        known = sequel.following >= END
        self._tree.set(records, np.where(known, self._highest, np.float32(0.0)))
        self._written = min(self._written + int(np.count_nonzero(known)), MANY)

    # ---- sampling -----------------------------------------------------------------------------------------------

    def room(self) -> Drawn:
        """Allocates reusable arrays for one batch."""
        n, features, actions = self._dqn.batch, self._observation.shape[1], self._mask.shape[1]
        observation, mask = ((n, features), self._observation.dtype), ((n, actions), np.bool_)
        batch = Transitions(
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
        """Samples batch `number` of the training into `into`; deterministic given the buffer and the key."""
        batch, records = into.batch, into.records
        self._tree.sample(self._key, number, records, batch.priority)
        found = n_step(np, self._sequel, records, self._gamma, self._dqn.n_step)
        # Records are within range; mode "clip" avoids a copy in numpy.
        np.take(self._observation, records, axis=0, out=batch.observation, mode="clip")
        np.take(self._mask, records, axis=0, out=batch.mask, mode="clip")
        np.take(self._action, records, out=batch.action, mode="clip")
        np.take(self._observation, found.last, axis=0, out=batch.next_observation, mode="clip")
        np.take(self._mask, found.last, axis=0, out=batch.next_mask, mode="clip")
        batch.reward[:], batch.discount[:] = found.reward, found.discount

    def _sequel(self, records: np.ndarray) -> Sequel:
        return Sequel(self._following[records], self._reward[records])

    def reprioritise(self, records: np.ndarray, priority: np.ndarray) -> None:
        """Sets priorities f32[n] of records i32[n]; the last of duplicates counts."""
        self._tree.set(records, priority)
        self._highest = max(self._highest, priority.max())
