"""The project's host games as `jaxrl.envs.core.Env`, for the registry: games themselves import no jax."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.envs.battle.game import BattleGame
from jaxrl.envs.core import Candidates
from jaxrl.envs.forge import layout as forge_layout
from jaxrl.envs.forge.game import ForgeGame
from jaxrl.envs.host import battlefield, forge_cards
from jaxrl.envs.host.env import HostEnv
from jaxrl.envs.views import Tokens


class BattleEnv(HostEnv):
    """A tabletop battle of two sides; the rules are in `envs/battle`."""

    id, version = BattleGame.id, BattleGame.version

    @functools.wraps(BattleGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(BattleGame(**options))

    def features(self, observation: Any) -> jax.Array:
        """f32[1219]: the observation, and what a dense network would have to learn to look up in it.

        Behind it stand the rows of the deciding unit and of the subject (zeros without one), and where all units and
        objectives are as seen from the unit in question: the deciding one, or the subject if there is none.
        """
        at, table = battlefield, battlefield.read_table(observation)
        rows = [jnp.sum(table.units[:, which, None] * table.units, axis=0) for which in (at.DECIDES, at.SUBJECT)]
        place = table.asked[at.ROW : at.COLUMN + 1]
        to_units = table.units[:, at.ALIVE, None] * (table.units[:, at.ROW : at.COLUMN + 1] - place)
        to_marks = table.marks[:, 0, None] * (table.marks[:, 1:3] - place)
        return jnp.concatenate([observation.astype(jnp.float32), *rows, to_units.ravel(), to_marks.ravel()])

    def tokens(self, observation: Any) -> Tokens:
        """Every unit and every objective a token; the context is the table and the unit in question."""
        return battlefield.as_tokens(observation)

    def candidates(self, observation: Any) -> Candidates:
        """Units and objectives as entities; moves by where they would end, attacks by the unit that they name."""
        return battlefield.as_candidates(observation)


class ForgeEnv(HostEnv):
    """Magic: The Gathering with two constructed decks; Forge keeps the rules, `envs/forge` talks to it."""

    id, version = ForgeGame.id, ForgeGame.version
    vocabulary = forge_layout.VOCABULARY
    game: ForgeGame

    @functools.wraps(ForgeGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(ForgeGame(**options))

    def features(self, observation: Any) -> jax.Array:
        """f32[16577]: all that networks read of cards and options, without the numbers of names and rows."""
        view = forge_cards.as_candidates(observation)
        told = (view.context, view.entities, view.options, view.kinds, view.parts)
        return jnp.concatenate([part.ravel() for part in told if part is not None])

    def candidates(self, observation: Any) -> Candidates:
        """Cards and spells as entities, actions as options, card names as kinds, abilities as their parts."""
        return forge_cards.as_candidates(observation)
