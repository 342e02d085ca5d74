"""The optimizers by name, as optax chains with global-norm clipping.

Each update builds its chain from traced hyper-parameters, f32[] of `schedule.Hyper`. They are stored once in the
training state; `optax.inject_hyperparams` would keep a second copy in the optimizer state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from optax import contrib

from jaxrl.networks.factory import is_statistics

Params = Any
OPTIMIZERS = ("adam", "adamw", "muon")
WEIGHT_DECAY = 1e-4  # of adamw, times the learning rate; applied to matrices, not to biases
MUON_RMS = 0.2  # of muon's updates, as large as Adam's: one learning rate fits both (https://arxiv.org/abs/2502.16982)


class GradientNorms(NamedTuple):
    """Global norms of a gradient before and after clipping, f32[]."""

    raw: jax.Array
    clipped: jax.Array


def make_optimizer(
    name: str, learning_rate: Any, max_grad_norm: Any, eps: float = 1e-8
) -> optax.GradientTransformationExtraArgs:
    """Builds the optimizer of this name; the structure of its state depends on the name alone.

    Args:
      name: adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980), adamw (https://arxiv.org/abs/1711.05101) or muon
        (https://kellerjordan.github.io/posts/muon), which updates the hidden matrices; Adam updates the rest.
      learning_rate: f32[].
      max_grad_norm: f32[], gradients are scaled down to this global norm.
      eps: Adam's epsilon.
    """
    if name == "muon":
        rule = contrib.muon(
            learning_rate, consistent_rms=MUON_RMS, muon_weight_dimension_numbers=_hidden_matrices, eps=eps
        )
    elif name == "adamw":
        rule = optax.adamw(learning_rate, eps=eps, weight_decay=WEIGHT_DECAY, mask=_matrices)
    else:
        rule = optax.adam(learning_rate, eps=eps)
    return optax.with_extra_args_support(optax.chain(optax.clip_by_global_norm(max_grad_norm), rule))


def init(params: Params, name: str = "adam") -> optax.OptState:
    """The initial state of the optimizer `name`."""
    return make_optimizer(name, 0.0, 1.0).init(params)


def apply(
    optimizer: optax.GradientTransformation, params: Params, opt_state: optax.OptState, gradient: Params
) -> tuple[Params, optax.OptState]:
    """Applies one step of `optimizer`."""
    chex.assert_trees_all_equal_shapes_and_dtypes(params, gradient)
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def gradient_norms(gradient: Params, max_grad_norm: Any) -> GradientNorms:
    """The global norms of `gradient` before and after clipping."""
    norm = optax.tree.norm(gradient)
    return GradientNorms(raw=norm, clipped=jnp.minimum(norm, max_grad_norm))


def _matrices(params: Params) -> Any:
    """True for the leaves to which adamw applies weight decay."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaf.ndim > 1 and not is_statistics(path), params)


def _hidden_matrices(params: Params) -> Any:
    """`MuonDimensionNumbers` for the leaves updated by muon, None for those updated by Adam: the heads and all leaves
    that are not matrices."""

    def of(path: Any, leaf: Any) -> contrib.MuonDimensionNumbers | None:
        head = any(getattr(step, "key", None) == "heads" for step in path)
        return contrib.MuonDimensionNumbers() if leaf.ndim == 2 and not head and not is_statistics(path) else None

    return jax.tree_util.tree_map_with_path(of, params)
