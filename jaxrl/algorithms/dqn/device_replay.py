"""The prioritised replay buffer of compiled games: arrays on the device, used inside the training program.

Records are laid out as described in `nstep`, in a ring buffer. There is no sum-tree, because a device reads all
priorities at memory bandwidth: priorities are stored in rows of about sqrt(N), and sampling locates the row by the
cumulative row sums and the column by the cumulative sum within the row. This takes one pass over N numbers per batch
and O(sqrt(N)) per sample.

Shape letters: T steps, B lanes, P seats, S decisions per step, N capacity, W mask words.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl.algorithms.base import Transition
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.loss import Transitions
from jaxrl.algorithms.dqn.nstep import END, LOST, NONE, OPEN, STORAGE, Sequel, Waiting, n_step, writing
from jaxrl.networks import distributions
from jaxrl_envs.contract.env import Env

MANY = 2**30  # records are counted up to here


@struct.dataclass
class ReplayBuffer:
    """State of the buffer. `priority` is padded to whole rows; records of priority 0 are never sampled.

    A record is one row of bytes and its link one row of words, because XLA's CPU backend aborts the process when it
    compiles scatters into several arrays of the same dtype with `Env.multi_output_fusion`.
    """

    content: jax.Array  # u8[N, bytes], see `RecordFormat`
    links: jax.Array  # i32[N, 2], the successor (see `nstep`) and the bits of the f32 reward until then
    priority: jax.Array  # f32[rows, width]
    head: jax.Array  # i32[], the record to write next
    written: jax.Array  # i32[], transitions completed so far, counted up to MANY
    highest: jax.Array  # f32[], the largest priority so far, given to new transitions
    waiting: Waiting  # [B, P]


class Content(NamedTuple):
    """The stored part of a decision."""

    observation: Any  # packed
    mask: Any  # u32[W]
    action: Any  # i32[]


class RecordFormat:
    """Packs decisions into rows of bytes and unpacks them.

    Attributes:
      bytes: length of a row.
    """

    def __init__(self, spec: Any, num_actions: int, storage: str):
        """Derives the layout. `spec`: shapes of one observation; `storage`: dtype of float leaves of observations,
        float16 or float32."""
        self.num_actions = num_actions
        words = -(-num_actions // 32)
        like = Content(spec, jax.ShapeDtypeStruct((words,), jnp.uint32), jax.ShapeDtypeStruct((), jnp.int32))
        leaves, self._structure = jax.tree.flatten(like)
        self._leaves = [(leaf.shape, leaf.dtype, _kept_as(leaf.dtype, storage)) for leaf in leaves]
        self._widths = [math.prod(shape) * kept.itemsize for shape, _, kept in self._leaves]
        self.bytes = sum(self._widths)

    def pack(self, content: Content) -> jax.Array:
        """Packs leaves [..., shape] into u8[..., bytes]."""
        lead = content.action.shape
        parts = []
        for leaf, (_, _, kept), width in zip(jax.tree.leaves(content), self._leaves, self._widths, strict=True):
            parts.append(jax.lax.bitcast_convert_type(leaf.astype(kept), jnp.uint8).reshape(*lead, width))
        return jnp.concatenate(parts, axis=-1)

    def unpack(self, rows: jax.Array) -> Content:
        """Unpacks u8[..., bytes] into leaves [..., shape] of their original dtypes."""
        lead, begin, leaves = rows.shape[:-1], 0, []
        for (shape, dtype, kept), width in zip(self._leaves, self._widths, strict=True):
            part = rows[..., begin : begin + width]
            if kept.itemsize > 1:
                part = part.reshape(*lead, *shape, kept.itemsize)
            else:
                part = part.reshape(*lead, *shape)
            leaves.append(jax.lax.bitcast_convert_type(part, kept).astype(dtype))
            begin += width
        return jax.tree.unflatten(self._structure, leaves)


def _kept_as(dtype: Any, storage: str) -> np.dtype:
    """Returns the storage dtype of an observation leaf: floats as `storage`, bools as bytes."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(storage)
    return np.dtype(np.uint8) if jnp.issubdtype(dtype, jnp.bool_) else np.dtype(dtype)


def empty(form: RecordFormat, capacity: int, lanes: int, seats: int) -> ReplayBuffer:
    """Returns an empty replay buffer of `capacity` records for `lanes` lanes (B) and `seats` seats (P)."""
    width = 1 << max(0, (capacity - 1).bit_length() // 2)
    return ReplayBuffer(
        content=jnp.zeros((capacity, form.bytes), jnp.uint8),
        links=jnp.full((capacity, 2), LOST, jnp.int32),
        priority=jnp.zeros((-(-capacity // width), width), jnp.float32),
        head=jnp.int32(0),
        written=jnp.int32(0),
        highest=jnp.float32(1.0),
        waiting=Waiting(jnp.full((lanes, seats), NONE, jnp.int32), jnp.zeros((lanes, seats), jnp.float32)),
    )


def sequel_of(memory: ReplayBuffer, records: jax.Array) -> Sequel:
    """Returns the successors of records i32[...]."""
    link = memory.links[records]
    return Sequel(link[..., 0], jax.lax.bitcast_convert_type(link[..., 1], jnp.float32))


def _as_links(sequel: Sequel) -> jax.Array:
    """Encodes successors as i32[..., 2]."""
    return jnp.stack([sequel.following, jax.lax.bitcast_convert_type(sequel.reward, jnp.int32)], axis=-1)


# ---- writing ------------------------------------------------------------------------------------------------------


def append(memory: ReplayBuffer, decisions: Transition, form: RecordFormat) -> ReplayBuffer:
    """Adds the learner's decisions of a rollout and completes pending records. `memory`: a buffer with a capacity of at
    least all decisions of the rollout; `decisions`: [T, B, ...]."""
    capacity = memory.links.shape[0]
    plan = writing(jnp, decisions, memory.head, capacity, memory.waiting)
    content = Content(decisions.observation, decisions.mask, decisions.action)
    if decisions.final_observation is not None:
        # A finished game has no legal actions: treat all of them as legal.
        anything = jnp.broadcast_to(distributions.pack_mask(jnp.ones(form.num_actions, bool)), decisions.mask.shape)
        last = Content(decisions.final_observation, anything, jnp.zeros_like(decisions.action))
        content = jax.tree.map(lambda *both: jnp.concatenate(both, axis=2), content, last)
    memory = _write(memory, plan.record, form.pack(content), plan.sequel)
    memory = _close(memory, plan.waited, plan.closed)
    return memory.replace(head=(memory.head + plan.count) % capacity, waiting=plan.waiting)


def _write(memory: ReplayBuffer, record: jax.Array, content: jax.Array, sequel: Sequel) -> ReplayBuffer:
    """Writes the records i32[T, B, S]; number NONE is skipped."""
    # A scatter drops out-of-range indices.
    index = jnp.where(record >= 0, record, memory.links.shape[0]).reshape(-1)
    memory = memory.replace(
        content=memory.content.at[index].set(content.reshape(index.size, -1), mode="drop"),
        links=memory.links.at[index].set(_as_links(sequel).reshape(index.size, 2), mode="drop"),
    )
    return _drawable(memory, record, (record >= 0) & (sequel.following >= END), also_others=True)


def _close(memory: ReplayBuffer, record: jax.Array, sequel: Sequel) -> ReplayBuffer:
    """Writes the successors of pending records i32[B, P] where they are now known."""
    known = (record >= 0) & (sequel.following != OPEN)
    index = jnp.where(known, record, memory.links.shape[0])
    memory = memory.replace(links=memory.links.at[index].set(_as_links(sequel), mode="drop"))
    return _drawable(memory, record, known & (sequel.following >= END), also_others=False)


def _drawable(memory: ReplayBuffer, record: jax.Array, known: jax.Array, *, also_others: bool) -> ReplayBuffer:
    """Gives completed transitions the highest priority; `also_others` sets that of the rest to 0."""
    index = jnp.where((record >= 0) if also_others else known, record, memory.priority.size)
    fresh = jnp.where(known, memory.highest, 0.0)
    priority = memory.priority.reshape(-1).at[index.reshape(-1)].set(fresh.reshape(-1), mode="drop")
    written = jnp.minimum(memory.written + jnp.sum(known, dtype=jnp.int32), MANY)
    return memory.replace(priority=priority.reshape(memory.priority.shape), written=written)


# ---- sampling -----------------------------------------------------------------------------------------------------


def draw(priority: jax.Array, uniform: jax.Array) -> jax.Array:
    """Samples in proportion to priorities, stratified: one sample from each of n equal parts of the total. `priority`:
    f32[rows, width], not all 0; `uniform`: f32[n] in [0, 1). Returns i32[n], row * width + column; never an entry of
    priority 0, regardless of rounding."""
    chex.assert_rank([priority, uniform], [2, 1])
    count, width = uniform.shape[0], priority.shape[1]
    rows = jnp.sum(priority, axis=1)
    ends = jnp.cumsum(rows)
    at = (jnp.arange(count) + uniform) * (ends[-1] / count)
    row = _first_beyond(ends, rows, at)
    inside = priority[row]  # f32[n, width]
    column = _first_beyond(jnp.cumsum(inside, axis=1), inside, at - (ends[row] - rows[row]))
    return row * width + column


def _first_beyond(ends: jax.Array, part: jax.Array, at: jax.Array) -> jax.Array:
    """i32[n]: the first non-empty part (f32[M] or f32[n, M]) whose end exceeds `at` f32[n], else the last one."""
    index = jnp.arange(part.shape[-1], dtype=jnp.int32)
    first = jnp.min(jnp.where((part > 0.0) & (ends > at[:, None]), index, part.shape[-1]), axis=-1)
    last = jnp.max(jnp.where(part > 0.0, index, 0), axis=-1)
    return jnp.minimum(first, last)


class DeviceReplay:
    """The operations on a replay buffer; all methods are pure and can be vmapped over seeds."""

    def __init__(self, env: Env, dqn: DQNConfig, lanes: int):
        """Operations for `lanes` parallel games of `env`."""
        self._env, self._dqn, self._lanes = env, dqn, lanes

    @functools.cached_property
    def form(self) -> RecordFormat:
        """The layout of the records."""
        return RecordFormat(self._env.observation_spec, self._env.num_actions, STORAGE)

    def empty(self) -> ReplayBuffer:
        """Returns an empty buffer."""
        return empty(self.form, self._dqn.capacity, self._lanes, self._env.num_players)

    def push(self, memory: ReplayBuffer, steps: Transition) -> ReplayBuffer:
        """Appends a rollout [T, B, ...]."""
        return append(memory, steps, self.form)

    def ready(self, memory: ReplayBuffer) -> jax.Array:
        """Returns bool[]: whether `dqn.learning_starts` is reached and some transition can be sampled."""
        return (memory.written >= self._dqn.learning_starts) & jnp.any(memory.priority > 0.0)

    def sample(self, memory: ReplayBuffer, key: jax.Array, gamma: Any) -> tuple[jax.Array, Transitions]:
        """Samples a batch. `memory`: a buffer with at least one transition that can be sampled; `gamma`: f32[]. Returns
        the record numbers i32[n] and the transitions."""
        form = self.form
        record = draw(memory.priority, jax.random.uniform(key, (self._dqn.batch,)))
        found = n_step(jnp, functools.partial(sequel_of, memory), record, gamma, self._dqn.n_step)
        now, then = form.unpack(memory.content[record]), form.unpack(memory.content[found.last])
        batch = Transitions(
            observation=now.observation,
            mask=distributions.unpack_mask(now.mask, form.num_actions),
            action=now.action,
            reward=found.reward,
            discount=found.discount,
            next_observation=then.observation,
            next_mask=distributions.unpack_mask(then.mask, form.num_actions),
            priority=memory.priority.reshape(-1)[record],
        )
        return record, batch

    @staticmethod
    def reprioritise(memory: ReplayBuffer, record: jax.Array, priority: jax.Array) -> ReplayBuffer:
        """Sets priorities f32[n] of records i32[n]; duplicates get the larger one, on any device."""
        flat = memory.priority.reshape(-1).at[record].set(0.0).at[record].max(priority)
        return memory.replace(
            priority=flat.reshape(memory.priority.shape), highest=jnp.maximum(memory.highest, jnp.max(priority))
        )
