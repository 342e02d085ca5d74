"""Observations of Magic (`jaxrl_envs.forge.layout`) as networks read them: packed numbers become flags here."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp

from jaxrl_envs.contract.env import Candidates
from jaxrl_envs.forge import layout as at


def as_candidates(observation: Any) -> Candidates:
    """f32[FEATURES] -> the tables; the context is the situation and the question's subject."""
    chex.assert_shape(observation, (at.FEATURES,))
    observation = observation.astype(jnp.float32)
    entities = observation[at.ENTITIES_AT : at.OPTIONS_AT].reshape(at.ENTITIES, at.ENTITY)
    options = observation[at.OPTIONS_AT : at.KINDS_AT].reshape(at.OPTIONS, at.OPTION)
    kinds = observation[at.KINDS_AT : at.PARTS_AT].reshape(at.KINDS, at.KIND)
    parts = observation[at.PARTS_AT :].reshape(at.PARTS, at.PART)
    things = _entities(entities)
    return Candidates(
        context=jnp.concatenate([observation[: at.GLOBALS], things[at.SUBJECT_ROW]]),
        entities=things,
        entity_ids=entities[:, at.ENTITY_KIND].astype(jnp.int32),
        entity_mask=entities[:, at.PRESENT] > 0.0,
        options=_options(options),
        option_ids=options[:, at.OPTION_KIND].astype(jnp.int32),
        zones=_zones(entities),
        option_entity=_row(options[:, at.OPTION_ENTITY]),
        option_mask=options[:, at.SORT] > 0.0,
        partners=_row(entities[:, at.FIRST_PARTNER : at.FIRST_PARTNER + at.PARTNERS]),
        kinds=jnp.concatenate([_bits(kinds, at.PRODUCED_BITS, len(at.POOL)), kinds[:, at.FIRST_KIND_PLAIN :]], axis=1),
        kind_ids=kinds[:, at.KIND_ID].astype(jnp.int32),
        parts=_parts(parts),
        part_rows=_row(parts[:, [at.PART_KIND, at.PART_OF]]),
        entity_part=_row(entities[:, at.ENTITY_PART]),
        option_part=_row(options[:, at.OPTION_PART]),
    )


def _row(column: jax.Array) -> jax.Array:
    """1 + a row or 0 -> the row or -1, i32."""
    return column.astype(jnp.int32) - 1


def _one_of(table: jax.Array, column: int, count: int) -> jax.Array:
    """1 + a place or 0 in a column -> f32[N, count]."""
    return jax.nn.one_hot(_row(table[:, column]), count)


def _bits(table: jax.Array, column: int, count: int) -> jax.Array:
    """Returns a sum of 2 ** place in a column -> f32[N, count]."""
    shifted = table[:, column, None].astype(jnp.int32) >> jnp.arange(count)
    return (shifted & 1).astype(jnp.float32)


def _entities(table: jax.Array) -> jax.Array:
    flags = (
        *(_one_of(table, at.ZONE, len(at.ZONES)), _one_of(table, at.FROM, len(at.ZONES))),
        *(_bits(table, at.CARD_TYPE_BITS, len(at.CARD_TYPES)), _bits(table, at.COLOR_BITS, len(at.COLORS))),
        _bits(table, at.KEYWORD_BITS, len(at.KEYWORDS)),
    )
    return jnp.concatenate([*flags, table[:, at.FIRST_PLAIN :]], axis=1)


def _options(table: jax.Array) -> jax.Array:
    flags = (_one_of(table, at.SORT, len(at.SORTS)), _one_of(table, at.OPTION_COLOR, len(at.COLORS)))
    return jnp.concatenate([*flags, table[:, at.FIRST_OPTION_PLAIN :]], axis=1)


def _parts(table: jax.Array) -> jax.Array:
    flags = (
        *(_one_of(table, at.PART_SORT, len(at.PART_SORTS)), _one_of(table, at.API, len(at.APIS))),
        *(_one_of(table, at.MODE, len(at.MODES)), _one_of(table, at.ORIGIN, len(at.ZONES))),
        *(_one_of(table, at.DESTINATION, len(at.ZONES)), _bits(table, at.TARGET_BITS, len(at.TARGETS))),
        *(_bits(table, at.GRANTED_BITS, len(at.KEYWORDS)), _bits(table, at.PART_FLAG_BITS, len(at.PART_FLAGS))),
    )
    return jnp.concatenate([*flags, table[:, at.FIRST_PART_PLAIN :]], axis=1)


def _zones(table: jax.Array) -> jax.Array:
    """f32[E, 8]: the subject; my and their hand, my and their battlefield, the stack, my and their other cards."""
    zone, mine = table[:, at.ZONE, None], table[:, at.MINE, None]
    hand, field, stack = (zone == 1 + at.ZONES.index(name) for name in ("hand", "battlefield", "stack"))
    other = (zone > 0) & ~(hand | field | stack)
    split = [place & (mine == owner) for place in (hand, field, other) for owner in (1.0, 0.0)]
    subject = (jnp.arange(at.ENTITIES) == at.SUBJECT_ROW)[:, None]
    rest = [each & ~subject for each in (stack, *split)]
    return jnp.concatenate([subject & (table[:, at.PRESENT, None] > 0), *rest], axis=1).astype(jnp.float32)
