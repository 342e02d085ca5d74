"""The project's host games as `envs.core.Env`, for the registry: games themselves import no jax."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from envs.battle.game import BattleGame
from envs.host.env import HostEnv

UNITS, UNIT_FEATURES, OBJECTIVES = 16, 60, 8  # rows of the battle's observation, and objectives among its globals
ALIVE, ROW, COLUMN, DECIDES, SUBJECT = 0, 5, 6, 55, 56  # features of a unit
FIRST_OBJECTIVE, OBJECTIVE_FEATURES = 41, 6  # among the globals: present, row, column, ...


class Battle(HostEnv):
    """A tabletop battle of two sides; the rules are in `envs/battle`."""

    id, version = BattleGame.id, BattleGame.version
    package = "envs.battle"

    @functools.wraps(BattleGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(BattleGame(**options))

    def features(self, observation: Any) -> jax.Array:
        """f32[1219]: the observation, and what a dense network would have to learn to look up in it.

        Behind it stand the rows of the deciding unit and of the subject (zeros without one), and where all units and
        objectives are as seen from the unit in question: the deciding one, or the subject if there is none.
        """
        observation = observation.astype(jnp.float32)
        units = observation[: UNITS * UNIT_FEATURES].reshape(UNITS, UNIT_FEATURES)
        marks = observation[UNITS * UNIT_FEATURES + FIRST_OBJECTIVE :][: OBJECTIVES * OBJECTIVE_FEATURES]
        marks = marks.reshape(OBJECTIVES, OBJECTIVE_FEATURES)
        deciding = jnp.sum(units[:, DECIDES, None] * units, axis=0)
        subject = jnp.sum(units[:, SUBJECT, None] * units, axis=0)
        place = jnp.where(deciding[ALIVE] > 0.0, deciding, subject)[jnp.array([ROW, COLUMN])]
        to_units = units[:, ALIVE, None] * (units[:, ROW : COLUMN + 1] - place)
        to_marks = marks[:, 0, None] * (marks[:, 1:3] - place)
        return jnp.concatenate([observation, deciding, subject, to_units.ravel(), to_marks.ravel()])
