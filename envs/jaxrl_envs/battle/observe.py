"""Views of the battle's observation for networks: units and objectives as entities, actions by their effects."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.battle import actions as a
from jaxrl_envs.contract.env import Candidates, Tokens

UNITS, UNIT_FEATURES, OBJECTIVES = 16, 60, 8  # rows of the observation, own units first; objectives in its globals
OWN = UNITS // 2
ALIVE, ROW, COLUMN, MOVE, REACH, DECIDES, SUBJECT = 0, 5, 6, 7, 27, 55, 56  # features of a unit
ROWS, COLUMNS, FIRST_OBJECTIVE, OBJECTIVE_FEATURES = 39, 40, 41, 6  # among the globals; present, row, column, ...
ENTITIES = UNITS + OBJECTIVES
LONGEST, SIDE = 48.0, 64.0  # cells, by which the observation divides ranges and the sides of the board
KNOTS = (2.0, 7.0, 14.0, 28.0)  # cells
MOVES = a.FIRST_SHOOT  # the first actions: stay (whatever else declining means), then 3 gaits x 8 directions
DOWN, FORWARD = np.array(a.DOWN), np.array(a.FORWARD)


class ObservationParts(NamedTuple):
    """An observation in parts; lengths in cells."""

    units: jax.Array  # f32[16, 60], own ones first
    marks: jax.Array  # f32[8, 6], objectives
    board: jax.Array  # f32[91], everything else
    asked: jax.Array  # f32[60], the unit that decides, else the subject, else zeros
    there: jax.Array  # bool[24], which units live and which objectives exist
    places: jax.Array  # f32[24, 2], of units and objectives
    place: jax.Array  # f32[2], of `asked`
    size: jax.Array  # f32[2], rows and columns


def read_parts(observation: jax.Array) -> ObservationParts:
    """Returns the parts of an observation f32[1051]."""
    chex.assert_shape(observation, (1051,))
    observation = observation.astype(jnp.float32)
    units = observation[: UNITS * UNIT_FEATURES].reshape(UNITS, UNIT_FEATURES)
    board = observation[UNITS * UNIT_FEATURES :]
    marks = board[FIRST_OBJECTIVE:][: OBJECTIVES * OBJECTIVE_FEATURES].reshape(OBJECTIVES, OBJECTIVE_FEATURES)
    asked = jnp.sum(units[:, DECIDES, None] * units, axis=0)
    asked = jnp.where(asked[ALIVE] > 0.0, asked, jnp.sum(units[:, SUBJECT, None] * units, axis=0))
    size = SIDE * board[ROWS : COLUMNS + 1]
    places = (size - 1.0) * jnp.concatenate([units[:, ROW : COLUMN + 1], marks[:, 1:3]])
    there = jnp.concatenate([units[:, ALIVE], marks[:, 0]]) > 0.0
    return ObservationParts(units, marks, board, asked, there, places, (size - 1.0) * asked[ROW : COLUMN + 1], size)


def as_tokens(observation: jax.Array) -> Tokens:
    """Own units, enemy units and objectives (suits 0, 1, 2) by number (rank); context: the board, the unit asked."""
    parts = read_parts(observation)
    kind = np.repeat([0, 1, 2], OWN).astype(np.int32)
    number = np.tile(np.arange(OWN, dtype=np.int32), 3)
    return Tokens(jnp.asarray(kind), jnp.asarray(number), _entities(parts), _context(parts))


def as_candidates(observation: jax.Array) -> Candidates:
    """Units and objectives as entities, the 69 actions as options.

    Moves are described by where they would end on open ground: how far from there everything is, and what would be in
    range; attacks and reactions by the unit that they name.
    """
    parts = read_parts(observation)
    ends = _ends(parts)
    zones = jnp.repeat(jnp.eye(3), OWN, axis=0) * parts.there[:, None]
    away = (ends - parts.place) / LONGEST
    seen = jnp.concatenate([away, ends / parts.size], axis=1)  # f32[25, 4]
    options = jnp.concatenate([jnp.asarray(KINDS), jnp.pad(seen, ((0, a.NUM_ACTIONS - MOVES), (0, 0)))], axis=1)
    return Candidates(
        context=_context(parts),
        entities=_entities(parts),
        entity_ids=jnp.zeros(ENTITIES, jnp.int32),
        entity_mask=parts.there,
        options=options,
        option_ids=jnp.zeros(a.NUM_ACTIONS, jnp.int32),
        zones=zones,
        option_entity=jnp.asarray(NAMED),
        nearness=_nearness(parts, ends),
    )


def _context(parts: ObservationParts) -> jax.Array:
    """f32[151]: the board, and the unit in question."""
    return jnp.concatenate([parts.board, parts.asked])


def _entities(parts: ObservationParts) -> jax.Array:
    """f32[24, 69]: features of a unit, of an objective, and where it is as seen from the unit in question."""
    features = jnp.zeros((ENTITIES, UNIT_FEATURES + OBJECTIVE_FEATURES))
    features = features.at[:UNITS, :UNIT_FEATURES].set(parts.units).at[UNITS:, UNIT_FEATURES:].set(parts.marks)
    away = parts.there[:, None] * (parts.places - parts.place)
    distance = jnp.sqrt(jnp.sum(jnp.square(away), axis=1, keepdims=True))
    return jnp.concatenate([features, jnp.concatenate([away, distance], axis=1) / LONGEST], axis=1)


def _ends(parts: ObservationParts) -> jax.Array:
    """f32[25, 2]: where the unit in question would stand after staying and after every move, nothing in its way."""
    move = jnp.round(12.0 * parts.asked[MOVE])
    distances = jnp.stack([jnp.floor((move + 1.0) / 2.0), move, move + 3.0])[:, None]  # half, full, advance
    steps = jnp.where(jnp.arange(8) % 2, jnp.floor(jnp.sqrt(jnp.floor(jnp.square(distances) / 2.0))), distances)
    away = jnp.stack([steps * DOWN, steps * FORWARD], axis=-1).reshape(-1, 2)
    away = jnp.concatenate([jnp.zeros((1, 2)), away])
    return jnp.clip(parts.place + away, 0.0, parts.size - 1.0)


def _nearness(parts: ObservationParts, ends: jax.Array) -> jax.Array:
    """f32[25, 24, 6]: of every end and entity the distance, as weights of the two nearest KNOTS, and whether the unit
    would be in range of it and it of the unit; 0 where nothing is."""
    away = jnp.sqrt(jnp.sum(jnp.square(ends[:, None] - parts.places), axis=-1))[..., None]  # f32[25, 24, 1]
    knots = np.array([-1e9, *KNOTS, 1e9])
    low, at, high = knots[:-2], knots[1:-1], knots[2:]
    weights = jnp.clip(jnp.minimum((away - low) / (at - low), (high - away) / (high - at)), 0.0, 1.0)
    reach = jnp.concatenate([parts.units[:, REACH], jnp.zeros(OBJECTIVES)])[:, None]
    ranges = [away <= LONGEST * parts.asked[REACH], away <= LONGEST * reach]
    return jnp.concatenate([weights, *ranges], axis=-1) * parts.there[:, None]


def _kinds() -> np.ndarray:
    """f32[69, 13]: what kind of action each is; the gaits of a move are three kinds."""
    starts = [a.DECLINE, a.FIRST_MOVE, a.FIRST_MOVE + 8, a.FIRST_MOVE + 16, a.FIRST_SHOOT, a.FIRST_CHARGE]
    starts += [a.FIRST_FIGHT, a.FIRST_SNAP, a.FIRST_COUNTER, a.REROLL, a.STEEL, a.SMOKE, a.COVER]
    return np.eye(len(starts), dtype=np.float32)[np.searchsorted(starts, np.arange(a.NUM_ACTIONS), side="right") - 1]


def _named() -> np.ndarray:
    """i32[69]: the row of the unit that an action names, -1 if none."""
    named = np.full(a.NUM_ACTIONS, -1, np.int32)
    for first in (a.FIRST_SHOOT, a.FIRST_CHARGE, a.FIRST_FIGHT):
        named[first : first + OWN] = OWN + np.arange(OWN)
    for first in (a.FIRST_SNAP, a.FIRST_COUNTER):
        named[first : first + OWN] = np.arange(OWN)
    return named


KINDS, NAMED = _kinds(), _named()
