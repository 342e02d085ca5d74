"""The environment of Magic for learners, around the host game of `game`, which imports no jax."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_envs.contract.env import Candidates
from jaxrl_envs.forge import layout, observe
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.host.env import HostEnv


class ForgeEnv(HostEnv):
    """Magic: The Gathering with two constructed decks; Forge keeps the rules, `envs/jaxrl_envs/forge` talks to it."""

    id, version = ForgeGame.id, ForgeGame.version
    vocabulary = layout.VOCABULARY
    game: ForgeGame

    @functools.wraps(ForgeGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(ForgeGame(**options))

    def features(self, observation: Any) -> jax.Array:
        """f32[16577]: all that networks read of cards and options, without the numbers of names and rows."""
        view = observe.as_candidates(observation)
        told = (view.context, view.entities, view.options, view.kinds, view.parts)
        return jnp.concatenate([part.ravel() for part in told if part is not None])

    def candidates(self, observation: Any) -> Candidates:
        """Cards and spells as entities, actions as options, card names as kinds, abilities as their parts."""
        return observe.as_candidates(observation)
