"""Auxiliary networks: dense networks trained beside the policy on the same rollouts, used in training only.

`critic` and `belief` are auxiliary networks. They share no parameters with the policy, and snapshots and policy files
do not contain them. They have their own optimizer and train for as many epochs and minibatches as the policy, without
the early stop at `ppo.target_kl`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.base import Transition, across_devices
from jaxrl.algorithms.ppo.loss import PPOCoefs
from jaxrl.algorithms.ppo.update import Shuffle, make_rule, shuffled_indices
from jaxrl.config import Config
from jaxrl.networks import normaliser
from jaxrl.networks.mlp import MLP
from jaxrl.networks.normaliser import Statistics
from jaxrl_envs.contract.env import Env, PyTree, select


@struct.dataclass
class AuxiliaryState:
    """Parameters and optimizer state of an auxiliary network."""

    params: Any
    opt_state: optax.OptState
    statistics: Statistics | None  # of the features, with `network.normalize`


class AuxiliaryNetwork:
    """A dense network whose inputs (views) are packed trees of arrays, expanded per minibatch."""

    def __init__(
        self,
        config: Config,
        hidden: tuple[int, ...],
        make_head: Callable[..., nn.Module],
        outputs: int,
        encode: Callable[[Any], jax.Array],
        form: PyTree,
        number: int,
    ):
        """Compiles nothing. `config`: configuration of the training; gives activation, precision, normaliser, epochs
        and minibatches. `make_head`, `outputs`: creates the output layer; called with the number of outputs and a name.
        `encode`: view -> f32[F]. `form`: shapes of one view. `number`: number of this auxiliary network, from 0; each
        shuffles in its own order."""
        network, self._settings = config.network, config.ppo
        self._encode, self._form, self._number, self._normalize = encode, form, number, network.normalize
        activation, dtype = network.activation, network.compute_dtype
        self._module = MLP(outputs, tuple(hidden), activation, compute_dtype=dtype, make_heads=make_head)
        self._size = jax.eval_shape(encode, form).shape[0]
        self._init = _initialiser(self._module, self._size)

    def init(self, key: jax.Array) -> AuxiliaryState:
        """Returns the initial state from a typed key."""
        params = self._init(key)
        statistics = normaliser.fresh(self._size) if self._normalize else None
        return AuxiliaryState(
            params=params, opt_state=optimizer.init(params, self._settings.optimizer), statistics=statistics
        )

    def apply(self, state: AuxiliaryState, view: PyTree) -> jax.Array:
        """Evaluates views with any leading axes, f32[..., outputs]."""
        form = jax.tree.leaves(self._form)[0]
        encode = self._encode
        for _ in range(jax.tree.leaves(view)[0].ndim - len(form.shape)):
            encode = jax.vmap(encode)
        features = encode(view)
        if state.statistics is not None:
            features = normaliser.normalised(state.statistics, features)
        found: jax.Array = self._module.apply({"params": state.params}, features)  # type: ignore[assignment]
        return found

    def learn(
        self,
        state: AuxiliaryState,
        lessons: Any,
        loss: Callable[[jax.Array, Any], jax.Array],
        coefs: PPOCoefs,
        group_keys: jax.Array,
    ) -> tuple[AuxiliaryState, jax.Array]:
        """Trains for epochs x minibatches; inside the mesh.

        Args:
          lessons: a named tuple, leaves [T, L, ...] (L lanes x acting seats): the input `view`, `weight` f32, 0 =
            ignored, and the inputs of `loss`.
          loss: (outputs, lessons), both [n, ...] -> f32[n].
          group_keys: typed keys [groups], by global group number.

        Returns:
          The new state, and the mean loss f32[steps] before each step.
        """
        (steps, lanes), ppo = lessons.weight.shape, self._settings
        shape = Shuffle(ppo.epochs, ppo.minibatches * ppo.accumulate, group_keys.shape[0], steps, lanes)
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(group_keys, jnp.uint32(2**31 + self._number))
        order = shuffled_indices(keys, shape).reshape(ppo.epochs * ppo.minibatches, ppo.accumulate, -1)
        rows = jax.tree.map(lambda leaf: leaf.reshape(steps * lanes, *leaf.shape[2:]), lessons)
        return jax.lax.scan(functools.partial(self._minibatch, coefs, rows, loss), state, order)

    def absorbed(self, state: AuxiliaryState, view: PyTree, steps: Transition) -> AuxiliaryState:
        """Updates the feature statistics with the views [T, B, S, ...] of a rollout."""
        if state.statistics is None:
            return state
        statistics = normaliser.absorbed(state.statistics, self._encode, view, steps.weight, across_devices)
        return state.replace(statistics=statistics)

    def _minibatch(
        self, coefs: PPOCoefs, rows: Any, loss: Callable[..., jax.Array], state: AuxiliaryState, index: jax.Array
    ) -> tuple[AuxiliaryState, jax.Array]:
        """One optimizer step on rows i32[accumulate, n]. Returns the new state and the mean loss before the step."""

        def portion(params: Any, index: jax.Array) -> jax.Array:
            batch = jax.tree.map(lambda leaf: leaf[index], rows)
            return jnp.sum(batch.weight * loss(self.apply(state.replace(params=params), batch.view), batch))

        def add(total: Any, index: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(portion)(state.params, index)), None

        nothing = (jnp.float32(0.0), jax.tree.map(jnp.zeros_like, state.params))
        total, _ = jax.lax.scan(add, nothing, index)
        weight = jnp.maximum(across_devices(jnp.sum(rows.weight[index])), 1.0)
        found, gradient = jax.tree.map(lambda leaf: leaf / weight, across_devices(total))
        learnt = optimizer.apply(make_rule(self._settings, coefs), state.params, state.opt_state, gradient)
        finite = jnp.isfinite(optax.tree.norm(gradient))
        params, opt_state = select(finite, learnt, (state.params, state.opt_state))
        return state.replace(params=params, opt_state=opt_state), found


def forms(env: Env) -> tuple[PyTree, PyTree]:
    """Returns shapes of an observation and of its hidden part (`Env.privileged`)."""
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    seat = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.eval_shape(env.observe, state, seat), jax.eval_shape(env.privileged, state, seat)


def by_lane(tree: PyTree) -> PyTree:
    """Merges lanes and seats: [T, B, S, ...] -> [T, L, ...]."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), tree)


def _initialiser(module: nn.Module, size: int) -> Callable[[jax.Array], Any]:
    """Returns a function from a key to parameters of a module with inputs f32[size]."""

    @jax.jit  # one program instead of one for every operation of every layer
    @jax.custom_batching.sequential_vmap  # LAPACK's batched QR deadlocks on two cores
    def init(key: jax.Array) -> Any:
        return module.init(key, jnp.zeros(size))["params"]

    return init
