"""Traced hyper-parameters: the numbers and schedules of a section of the configuration as arrays.

Changing a value needs no recompilation, and whole trainings with different values can be vmapped. An algorithm declares
them as a `NamedTuple` of f32[], created for each update by `Coefs(**learner.hyper.at(number))`; static settings stay in
the section.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.shared.section import Schedule

KINDS = ("constant", "linear", "cosine")


@struct.dataclass
class TracedSchedule:
    """A schedule from `start` at progress 0 to `end` at progress `until`, constant afterwards."""

    kind: jax.Array  # i32[], index into KINDS
    start: jax.Array  # f32[]
    end: jax.Array  # f32[]
    until: jax.Array  # f32[], above 0


def make_schedule(kind: str, start: float, end: float, until: float = 1.0) -> TracedSchedule:
    """Creates a schedule; `kind` is one of `KINDS`."""
    kind_index = jnp.int32(KINDS.index(kind))
    return TracedSchedule(kind=kind_index, start=jnp.float32(start), end=jnp.float32(end), until=jnp.float32(until))


def value_at(schedule: TracedSchedule, progress: jax.Array) -> jax.Array:
    """Returns f32[]: the value of a schedule at `progress` (f32[], clipped to 0 .. `until`)."""
    progress = jnp.clip(progress / schedule.until, 0.0, 1.0)
    cosine = 0.5 * (1.0 - jnp.cos(jnp.pi * progress))
    done = jnp.where(schedule.kind == 0, 0.0, jnp.where(schedule.kind == 1, progress, cosine))
    return schedule.start + done * (schedule.end - schedule.start)


@struct.dataclass
class Hyper:
    """Traced numbers and schedules of a section of the configuration, by key."""

    numbers: dict[str, jax.Array]  # f32[]
    schedules: dict[str, TracedSchedule]
    first_update: jax.Array  # f32[], number of the first update, where schedules start
    total_updates: jax.Array  # f32[], number of the last update + 1, where they end

    def progress(self, update: jax.Array) -> jax.Array:
        """Returns f32[]: 0 at the first update, 1 at the last."""
        return (update - self.first_update) / jnp.maximum(self.total_updates - 1.0 - self.first_update, 1.0)

    def at(self, update: jax.Array) -> dict[str, jax.Array]:
        """Returns the values by key, f32[] each, in update number `update` (i32[])."""
        scheduled = {key: value_at(schedule, self.progress(update)) for key, schedule in self.schedules.items()}
        return self.numbers | scheduled


def make_hyper(
    section: Any, total_updates: int, first_update: int = 0, more: Mapping[str, Any] = MappingProxyType({})
) -> Hyper:
    """Returns the numbers (floats) and schedules of a section for the updates `first_update` .. `total_updates` - 1;
    `more` adds values by key or replaces those of the section."""
    fields = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)} | {**more}
    return Hyper(
        numbers={key: jnp.float32(value) for key, value in fields.items() if isinstance(value, float)},
        schedules={
            key: make_schedule(value.kind, value.start, value.end, value.until)
            for key, value in fields.items()
            if isinstance(value, Schedule)
        },
        first_update=jnp.float32(first_update),
        total_updates=jnp.float32(total_updates),
    )
