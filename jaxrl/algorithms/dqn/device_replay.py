"""The replay buffer of compiled games: arrays on the device, written and drawn from inside of the training program.

Records are kept as `nstep` describes, in a ring: the oldest is overwritten. A device reads all priorities at
memory speed, so there is no tree here: priorities lie in rows of about sqrt(N), and a draw finds its row by the sums of
the rows and its place by the sums within the row. That is one pass over N numbers per batch and O(sqrt(N)) for each
draw.

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
    """Records of decisions. `priority` is padded to whole rows; a record of priority 0 is never drawn.

    A record is one row of bytes, and its link one row of words: XLA's CPU backend aborts the process while it compiles
    scatters into several arrays of one type with `Env.multi_output_fusion`.
    """

    content: jax.Array  # u8[N, bytes], see `RecordFormat`
    links: jax.Array  # i32[N, 2], what follows (see `nstep`) and the bits of the f32 that was earned until then
    priority: jax.Array  # f32[rows, width]
    head: jax.Array  # i32[], the record that is written next
    written: jax.Array  # i32[], transitions that could be drawn so far, counted up to MANY
    highest: jax.Array  # f32[], the largest priority so far: that of new transitions
    waiting: Waiting  # [B, P]


class Content(NamedTuple):
    """What a record keeps of a decision."""

    observation: Any  # packed
    mask: Any  # u32[W]
    action: Any  # i32[]


class RecordFormat:
    """How a decision becomes a row of bytes, and back.

    Attributes:
      num_actions: A.
      bytes: of a row.
    """

    def __init__(self, spec: Any, num_actions: int, storage: str):
        """A format.

        Args:
          spec: of one observation.
          num_actions: A.
          storage: float16 or float32, for the float leaves of observations.
        """
        self.num_actions = num_actions
        words = -(-num_actions // 32)
        like = Content(spec, jax.ShapeDtypeStruct((words,), jnp.uint32), jax.ShapeDtypeStruct((), jnp.int32))
        leaves, self._structure = jax.tree.flatten(like)
        self._leaves = [(leaf.shape, leaf.dtype, _kept_as(leaf.dtype, storage)) for leaf in leaves]
        self._widths = [math.prod(shape) * kept.itemsize for shape, _, kept in self._leaves]
        self.bytes = sum(self._widths)

    def pack(self, content: Content) -> jax.Array:
        """Leaves [..., shape] -> u8[..., bytes]."""
        lead = content.action.shape
        parts = []
        for leaf, (_, _, kept), width in zip(jax.tree.leaves(content), self._leaves, self._widths, strict=True):
            parts.append(jax.lax.bitcast_convert_type(leaf.astype(kept), jnp.uint8).reshape(*lead, width))
        return jnp.concatenate(parts, axis=-1)

    def unpack(self, rows: jax.Array) -> Content:
        """u8[..., bytes] -> leaves [..., shape] of their own types."""
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
    """The type in which a leaf of an observation is kept: floats as `storage`, truth values as bytes."""
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(storage)
    return np.dtype(np.uint8) if jnp.issubdtype(dtype, jnp.bool_) else np.dtype(dtype)


def empty(form: RecordFormat, capacity: int, lanes: int, seats: int) -> ReplayBuffer:
    """An empty replay buffer of `capacity` records for `lanes` lanes (B) and `seats` seats (P)."""
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
    """What follows some records i32[...]."""
    link = memory.links[records]
    return Sequel(link[..., 0], jax.lax.bitcast_convert_type(link[..., 1], jnp.float32))


def _as_links(sequel: Sequel) -> jax.Array:
    """i32[..., 2]."""
    return jnp.stack([sequel.following, jax.lax.bitcast_convert_type(sequel.reward, jnp.int32)], axis=-1)


# ---- writing ------------------------------------------------------------------------------------------------------


def append(memory: ReplayBuffer, decisions: Transition, form: RecordFormat) -> ReplayBuffer:
    """Adds the learner's decisions of a rollout and closes those that waited for it.

    Args:
      memory: with room for all decisions of the rollout.
      decisions: [T, B, ...].
      form: of the records.
    """
    capacity = memory.links.shape[0]
    plan = writing(jnp, decisions, memory.head, capacity, memory.waiting)
    content = Content(decisions.observation, decisions.mask, decisions.action)
    if decisions.final_observation is not None:
        # A finished game has no legal actions any more, so all of them count as legal.
        anything = jnp.broadcast_to(distributions.pack_mask(jnp.ones(form.num_actions, bool)), decisions.mask.shape)
        last = Content(decisions.final_observation, anything, jnp.zeros_like(decisions.action))
        content = jax.tree.map(lambda *both: jnp.concatenate(both, axis=2), content, last)
    memory = _write(memory, plan.record, form.pack(content), plan.sequel)
    memory = _close(memory, plan.waited, plan.closed)
    return memory.replace(head=(memory.head + plan.count) % capacity, waiting=plan.waiting)


def _write(memory: ReplayBuffer, record: jax.Array, content: jax.Array, sequel: Sequel) -> ReplayBuffer:
    """Writes whole records i32[T, B, S]; those with the number NONE are left out."""
    # Out of range is dropped by a scatter.
    index = jnp.where(record >= 0, record, memory.links.shape[0]).reshape(-1)
    memory = memory.replace(
        content=memory.content.at[index].set(content.reshape(index.size, -1), mode="drop"),
        links=memory.links.at[index].set(_as_links(sequel).reshape(index.size, 2), mode="drop"),
    )
    return _drawable(memory, record, (record >= 0) & (sequel.following >= END), also_others=True)


def _close(memory: ReplayBuffer, record: jax.Array, sequel: Sequel) -> ReplayBuffer:
    """Writes what follows earlier records i32[B, P], where that is known now."""
    known = (record >= 0) & (sequel.following != OPEN)
    index = jnp.where(known, record, memory.links.shape[0])
    memory = memory.replace(links=memory.links.at[index].set(_as_links(sequel), mode="drop"))
    return _drawable(memory, record, known & (sequel.following >= END), also_others=False)


def _drawable(memory: ReplayBuffer, record: jax.Array, known: jax.Array, *, also_others: bool) -> ReplayBuffer:
    """Gives transitions whose end is known the highest priority; `also_others` takes it from the rest."""
    index = jnp.where((record >= 0) if also_others else known, record, memory.priority.size)
    fresh = jnp.where(known, memory.highest, 0.0)
    priority = memory.priority.reshape(-1).at[index.reshape(-1)].set(fresh.reshape(-1), mode="drop")
    written = jnp.minimum(memory.written + jnp.sum(known, dtype=jnp.int32), MANY)
    return memory.replace(priority=priority.reshape(memory.priority.shape), written=written)


# ---- drawing ------------------------------------------------------------------------------------------------------


def draw(priority: jax.Array, uniform: jax.Array) -> jax.Array:
    """Numbers in proportion to their priorities, one from each of n equal parts of the total.

    Args:
      priority: f32[rows, width], not all 0.
      uniform: f32[n] in [0, 1).

    Returns:
      i32[n], row * width + column; never one with priority 0, however the sums are rounded.
    """
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
    """i32[n]: the first non-empty part (f32[M] or f32[n, M]) that ends beyond `at` f32[n], else the last."""
    index = jnp.arange(part.shape[-1], dtype=jnp.int32)
    first = jnp.min(jnp.where((part > 0.0) & (ends > at[:, None]), index, part.shape[-1]), axis=-1)
    last = jnp.max(jnp.where(part > 0.0, index, 0), axis=-1)
    return jnp.minimum(first, last)


class DeviceReplay:
    """The memory of one training; every method is pure, also under `vmap` for several seeds."""

    def __init__(self, env: Env, dqn: DQNConfig, lanes: int):
        """A memory for `lanes` games of `env` side by side."""
        self._env, self._dqn, self._lanes = env, dqn, lanes

    @functools.cached_property
    def form(self) -> RecordFormat:
        """Of its records."""
        return RecordFormat(self._env.observation_spec, self._env.num_actions, STORAGE)

    def empty(self) -> ReplayBuffer:
        """A memory without any record."""
        return empty(self.form, self._dqn.capacity, self._lanes, self._env.num_players)

    def push(self, memory: ReplayBuffer, steps: Transition) -> ReplayBuffer:
        """`append` of a rollout [T, B, ...]."""
        return append(memory, steps, self.form)

    def ready(self, memory: ReplayBuffer) -> jax.Array:
        """bool[]: enough has been seen to learn from, and there is something to draw."""
        return (memory.written >= self._dqn.learning_starts) & jnp.any(memory.priority > 0.0)

    def sample(self, memory: ReplayBuffer, key: jax.Array, gamma: Any) -> tuple[jax.Array, Transitions]:
        """Draws a batch.

        Args:
          memory: with at least one transition that can be drawn.
          key: a fast key.
          gamma: f32[].

        Returns:
          i32[n], their records, and the transitions.
        """
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
        """New priorities f32[n] of records i32[n]; of one that comes twice the larger one counts, on any device."""
        flat = memory.priority.reshape(-1).at[record].set(0.0).at[record].max(priority)
        return memory.replace(
            priority=flat.reshape(memory.priority.shape), highest=jnp.maximum(memory.highest, jnp.max(priority))
        )
