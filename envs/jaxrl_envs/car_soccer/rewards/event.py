"""Rewards that are an event of the decision, as it is."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.events import Events
from jaxrl_envs.car_soccer.game import Step


def rewarded(event: Callable[[Events], jax.Array], words: str) -> Callable[[Step], jax.Array]:
    """Returns the component that is `event`, f32[P]; `words` is its docstring."""

    def component(step: Step) -> jax.Array:
        return event(step.events).astype(jnp.float32)

    component.__doc__ = words
    return component
