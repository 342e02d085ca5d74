"""Values that change over a run, as traced numbers: changing one never compiles anything anew."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

KINDS = ("constant", "linear", "cosine")


@struct.dataclass
class Schedule:
    """A schedule from `start` at progress 0 to `end` at progress `until`."""

    kind: jax.Array  # i32[], index into KINDS
    start: jax.Array  # f32[]
    end: jax.Array  # f32[]
    until: jax.Array  # f32[], above 0


def make_schedule(kind: str, start: float, end: float, until: float = 1.0) -> Schedule:
    """A schedule from its configuration; `kind` is one of `KINDS`."""
    kind_index = jnp.int32(KINDS.index(kind))
    return Schedule(kind=kind_index, start=jnp.float32(start), end=jnp.float32(end), until=jnp.float32(until))


def value_at(schedule: Schedule, progress: jax.Array) -> jax.Array:
    """f32[]: the value at `progress` (f32[], clipped to 0 .. `until`)."""
    progress = jnp.clip(progress / schedule.until, 0.0, 1.0)
    cosine = 0.5 * (1.0 - jnp.cos(jnp.pi * progress))
    done = jnp.where(schedule.kind == 0, 0.0, jnp.where(schedule.kind == 1, progress, cosine))
    return schedule.start + done * (schedule.end - schedule.start)
