"""The environment of the battle for learners, around the host game of `game`, which imports no jax."""

from __future__ import annotations

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_envs.battle import observe
from jaxrl_envs.battle.display import upright
from jaxrl_envs.battle.game import BattleGame
from jaxrl_envs.contract.env import Candidates, Tokens
from jaxrl_envs.host.env import HostEnv


class BattleEnv(HostEnv):
    """A tabletop battle of two sides; the rules are in `envs/jaxrl_envs/battle`."""

    id, version = BattleGame.id, BattleGame.version

    @functools.wraps(BattleGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(BattleGame(**options))

    @property
    def upright(self) -> BattleEnv:
        other, game = copy.copy(self), copy.copy(self.game)
        assert isinstance(game, BattleGame)
        other.game, game.form = game, upright
        return other

    def features(self, observation: Any) -> jax.Array:
        """f32[1219]: the observation, and what a dense network would have to learn to look up in it.

        Behind it stand the rows of the deciding unit and of the subject (zeros without one), and where all units and
        objectives are as seen from the unit in question: the deciding one, else the subject.
        """
        at, parts = observe, observe.read_parts(observation)
        rows = [jnp.sum(parts.units[:, which, None] * parts.units, axis=0) for which in (at.DECIDES, at.SUBJECT)]
        place = parts.asked[at.ROW : at.COLUMN + 1]
        to_units = parts.units[:, at.ALIVE, None] * (parts.units[:, at.ROW : at.COLUMN + 1] - place)
        to_marks = parts.marks[:, 0, None] * (parts.marks[:, 1:3] - place)
        return jnp.concatenate([observation.astype(jnp.float32), *rows, to_units.ravel(), to_marks.ravel()])

    def tokens(self, observation: Any) -> Tokens:
        """Returns one token per unit and per objective; the context is the table and the unit in question."""
        return observe.as_tokens(observation)

    def candidates(self, observation: Any) -> Candidates:
        """Units and objectives as entities; moves by where they would end, attacks by the unit that they name."""
        return observe.as_candidates(observation)
