"""Adam with a global-norm clip, whose learning rate, clip and epsilon are traced numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Params = Any


class GradientNorms(NamedTuple):
    """Global norms of a gradient before and after clipping, f32[]."""

    raw: jax.Array
    clipped: jax.Array


def init(params: Params) -> optax.OptState:
    """Adam's moments for `params` (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980)."""
    return optax.scale_by_adam().init(params)


def clip_by_global_norm(gradient: Params, max_norm: Any) -> tuple[Params, GradientNorms]:
    """Scales `gradient` down to the global norm `max_norm` (f32[]) if it is larger."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, max_norm / jnp.maximum(norm, 1e-12))
    return jax.tree.map(lambda leaf: leaf * scale, gradient), GradientNorms(raw=norm, clipped=norm * scale)


def apply(
    params: Params, opt_state: optax.OptState, gradient: Params, learning_rate: Any, eps: Any
) -> tuple[Params, optax.OptState]:
    """One Adam step; `learning_rate` and `eps` are f32[]."""
    direction, opt_state = optax.scale_by_adam(eps=eps).update(gradient, opt_state)
    return jax.tree.map(lambda leaf, step: leaf - learning_rate * step, params, direction), opt_state
