"""The optimizers by name, as optax chains behind a clip by global norm.

An update builds its chain from traced hyper-parameters, f32[] of `schedule.Hyper`. So they live in one place of the
training state, and `optax.inject_hyperparams`, which would keep a second copy in the optimizer's, is not needed.
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
WEIGHT_DECAY = 1e-4  # of adamw, times the step size; of matrices, not of biases
MUON_RMS = 0.2  # of muon's updates, that of Adam's: one step size serves both (https://arxiv.org/abs/2502.16982)


class GradientNorms(NamedTuple):
    """Global norms of a gradient before and after clipping, f32[]."""

    raw: jax.Array
    clipped: jax.Array


def make_optimizer(
    name: str, learning_rate: Any, max_grad_norm: Any, eps: float = 1e-8
) -> optax.GradientTransformationExtraArgs:
    """The optimizer of this name; the form of its state depends on the name alone.

    Args:
      name: adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980), adamw (https://arxiv.org/abs/1711.05101) or muon
        (https://kellerjordan.github.io/posts/muon), which takes the hidden matrices and leaves the rest to Adam.
      learning_rate: f32[].
      max_grad_norm: f32[], gradients are scaled down to this global norm.
      eps: of Adam.
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
    """The state of an optimizer before its first step."""
    return make_optimizer(name, 0.0, 1.0).init(params)


def apply(
    optimizer: optax.GradientTransformation, params: Params, opt_state: optax.OptState, gradient: Params
) -> tuple[Params, optax.OptState]:
    """One step of `optimizer`."""
    chex.assert_trees_all_equal_shapes_and_dtypes(params, gradient)
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def gradient_norms(gradient: Params, max_grad_norm: Any) -> GradientNorms:
    """The global norm of `gradient`, and that after the clip of the optimizer."""
    norm = optax.tree.norm(gradient)
    return GradientNorms(raw=norm, clipped=jnp.minimum(norm, max_grad_norm))


def _matrices(params: Params) -> Any:
    """Which leaves adamw decays."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaf.ndim > 1 and not is_statistics(path), params)


def _hidden_matrices(params: Params) -> Any:
    """`MuonDimensionNumbers` of the leaves that muon takes, None of those that it leaves to Adam: the heads and all
    that is no matrix."""

    def of(path: Any, leaf: Any) -> contrib.MuonDimensionNumbers | None:
        head = any(getattr(step, "key", None) == "heads" for step in path)
        return contrib.MuonDimensionNumbers() if leaf.ndim == 2 and not head and not is_statistics(path) else None

    return jax.tree_util.tree_map_with_path(of, params)
