"""The optimizers by name, as optax chains with global-norm clipping.

Each update builds its chain from traced hyper-parameters, f32[] of `schedule.Hyper`. They are stored once in the
training state; `optax.inject_hyperparams` would keep a second copy in the optimizer state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from optax import contrib

from jaxrl.networks.factory import is_statistics
from jaxrl_envs.shared import kernels

Params = Any
OPTIMIZERS = ("adam", "adamw", "muon")
WEIGHT_DECAY = 1e-4  # of adamw, times the learning rate; applied to matrices, not to biases
MUON_RMS = 0.2  # of muon's updates, as large as Adam's: one learning rate fits both (https://arxiv.org/abs/2502.16982)


class GradientNorms(NamedTuple):
    """Global norms of a gradient before and after clipping, f32[]."""

    raw: jax.Array
    clipped: jax.Array


class ParamLayout(NamedTuple):
    """Layout of parameters, moments and gradients in a loop over minibatches: trees, or each tree as one vector, so
    that a step of Adam is one kernel on a GPU instead of one per leaf."""

    join: Callable[[Params], Any]
    split: Callable[[Any], Params]  # inverse of `join`

    def join_state(self, params: Params, opt_state: optax.OptState) -> optax.OptState:
        """Returns the optimizer state for joined parameters."""
        return _map_trees(params, self.join, opt_state)

    def split_state(self, params: Params, opt_state: optax.OptState, joined: optax.OptState) -> optax.OptState:
        """Inverts `join_state`; `opt_state` has the structure of the result."""
        return _map_trees(params, lambda _, vector: self.split(vector), opt_state, joined)


def layout_of(params: Params, name: str) -> ParamLayout:
    """Returns vectors on a GPU for adam, which treats all numbers alike, of float32 parameters; else trees."""
    if kernels.on_gpu() and name == "adam" and all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params)):
        return ParamLayout(lambda tree: ravel_pytree(tree)[0], ravel_pytree(params)[1])
    return AS_TREES


AS_TREES = ParamLayout(lambda tree: tree, lambda tree: tree)


def _map_trees(params: Params, function: Callable[..., Any], opt_state: optax.OptState, *more: Any) -> Any:
    """Maps the parts of an optimizer state that are trees like `params`; other leaves are those of the last tree."""
    structure: Any = jax.tree.structure(params)

    def is_like_params(part: Any) -> bool:
        return jax.tree.structure(part) == structure

    def of(*parts: Any) -> Any:
        return function(*parts) if is_like_params(parts[0]) else parts[-1]

    return jax.tree.map(of, opt_state, *more, is_leaf=is_like_params)


def make_optimizer(
    name: str, learning_rate: Any, max_grad_norm: Any | None, eps: float = 1e-8
) -> optax.GradientTransformationExtraArgs:
    """Builds the optimizer of this name; the structure of its state depends on the name alone.

    Args:
      name: adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980), adamw (https://arxiv.org/abs/1711.05101) or muon
        (https://kellerjordan.github.io/posts/muon), which updates the hidden matrices; Adam updates the rest.
      learning_rate: f32[].
      max_grad_norm: f32[], gradients are scaled down to this global norm; None: they come clipped (`clipped`).
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
    clip = optax.identity() if max_grad_norm is None else optax.clip_by_global_norm(max_grad_norm)
    return optax.with_extra_args_support(optax.chain(clip, rule))


def init(params: Params, name: str = "adam") -> optax.OptState:
    """Returns the initial state of the optimizer `name`."""
    return make_optimizer(name, 0.0, 1.0).init(params)


def apply(
    optimizer: optax.GradientTransformation, params: Params, opt_state: optax.OptState, gradient: Params
) -> tuple[Params, optax.OptState]:
    """Applies one step of `optimizer`."""
    chex.assert_trees_all_equal_shapes_and_dtypes(params, gradient)
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def gradient_norms(gradient: Params, max_grad_norm: Any) -> GradientNorms:
    """Returns the global norms of `gradient` before and after clipping."""
    norm = optax.tree.norm(ravel_pytree(gradient)[0] if kernels.on_gpu() else gradient)
    return GradientNorms(raw=norm, clipped=jnp.minimum(norm, max_grad_norm))


def clipped(gradient: Any, norm: jax.Array, max_grad_norm: Any) -> Any:
    """`gradient` scaled down to the norm `max_grad_norm`, as by optax.clip_by_global_norm, with its known `norm`."""

    def of(leaf: jax.Array) -> jax.Array:
        return jnp.where(norm < max_grad_norm, leaf, (leaf / norm) * max_grad_norm)

    return jax.tree.map(of, gradient)


def _matrices(params: Params) -> Any:
    """Returns a tree of bools: True for the leaves to which adamw applies weight decay."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaf.ndim > 1 and not is_statistics(path), params)


def _hidden_matrices(params: Params) -> Any:
    """Returns `MuonDimensionNumbers` for the leaves updated by muon, None for those updated by Adam: the heads and all
    leaves that are not matrices."""

    def of(path: Any, leaf: Any) -> contrib.MuonDimensionNumbers | None:
        head = any(getattr(step, "key", None) == "heads" for step in path)
        return contrib.MuonDimensionNumbers() if leaf.ndim == 2 and not head and not is_statistics(path) else None

    return jax.tree_util.tree_map_with_path(of, params)
