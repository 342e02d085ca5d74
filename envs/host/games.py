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
from jaxrl.envs.host import battlefield
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
        """f32[11685]: the observation without the numbers of names and rows, which say nothing to a dense network."""
        view = self.candidates(observation)
        return jnp.concatenate([view.context, view.entities.ravel(), view.options.ravel()])

    def candidates(self, observation: Any) -> Candidates:
        """Cards and spells as entities, actions as options; the context is the situation and the question's subject."""
        at = forge_layout
        observation = observation.astype(jnp.float32)
        entities = observation[at.ENTITIES_AT : at.OPTIONS_AT].reshape(at.ENTITIES, at.ENTITY)
        options = observation[at.OPTIONS_AT :].reshape(at.OPTIONS, at.OPTION)
        return Candidates(
            context=jnp.concatenate([observation[: at.GLOBALS], entities[at.SUBJECT_ROW, : at.ENTITY_ID]]),
            entities=entities[:, : at.ENTITY_ID],
            entity_ids=entities[:, at.ENTITY_ID].astype(jnp.int32),
            entity_mask=entities[:, at.PRESENT] > 0.0,
            options=options[:, : at.OPTION_ENTITY],
            option_ids=options[:, at.OPTION_ID].astype(jnp.int32),
            zones=_entity_zones(entities),
            option_entity=options[:, at.OPTION_ENTITY].astype(jnp.int32) - 1,
        )


def _entity_zones(entities: jax.Array) -> jax.Array:
    """f32[E, 7]: the subject, my hand, my and their battlefield, the stack, my and their graveyard; by their rows."""
    at = forge_layout
    starts = (
        *(at.SUBJECT_ROW, at.HAND_ROW, at.MY_BATTLEFIELD_ROW, at.THEIR_BATTLEFIELD_ROW, at.STACK_ROW),
        *(at.MY_GRAVEYARD_ROW, at.THEIR_GRAVEYARD_ROW, at.ENTITIES),
    )
    rows = jnp.arange(at.ENTITIES)[:, None]
    inside = (rows >= jnp.array(starts[:-1])) & (rows < jnp.array(starts[1:]))
    return inside * entities[:, at.PRESENT, None]
