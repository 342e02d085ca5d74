"""A dense network beside the policy that learns from the same rollouts, in training only: of `critic` and `belief`.

Its parameters are its own, no gradient of it reaches the policy, and no policy, snapshot or policy file carries it. It
learns after each rollout by the passes of the policy (but for the stop at `ppo.target_kl`), with an Adam of its own.
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
from jaxrl.algorithms.ppo.update import ADAM_EPS, Shuffle, shuffled_indices
from jaxrl.config.schema import NetworkConfig, PPOConfig
from jaxrl.networks import normaliser
from jaxrl.networks.mlp import MLP
from jaxrl.networks.normaliser import Statistics
from jaxrl_envs.contract.env import Env, PyTree, select


@struct.dataclass
class AuxiliaryState:
    """The part of a learner that is a side network's."""

    params: Any
    opt_state: optax.OptState
    statistics: Statistics | None  # of its features, with `network.normalize`


class AuxiliaryNetwork:
    """A dense network that reads views: packed trees of arrays, which it expands late."""

    def __init__(
        self,
        network: NetworkConfig,
        hidden: tuple[int, ...],
        make_head: Callable[..., nn.Module],
        outputs: int,
        encode: Callable[[Any], jax.Array],
        form: PyTree,
        number: int,
    ):
        """Compiles nothing.

        Args:
          network: whose activation, precision and normaliser it shares.
          hidden: widths.
          make_head, outputs: from the last of them to the output; called with that number and a name.
          encode: view -> f32[F].
          form: the shapes of one view.
          number: which of the side networks, from 0; each shuffles in an order of its own.
        """
        self._encode, self._form, self._number, self._normalize = encode, form, number, network.normalize
        activation, dtype = network.activation, network.compute_dtype
        self._module = MLP(outputs, tuple(hidden), activation, compute_dtype=dtype, make_heads=make_head)
        self._size = jax.eval_shape(encode, form).shape[0]
        self._init = _initialiser(self._module, self._size)

    def init(self, key: jax.Array) -> AuxiliaryState:
        """A new network from a typed key."""
        params = self._init(key)
        statistics = normaliser.fresh(self._size) if self._normalize else None
        return AuxiliaryState(params=params, opt_state=optimizer.init(params), statistics=statistics)

    def apply(self, side: AuxiliaryState, view: PyTree) -> jax.Array:
        """f32[..., outputs] of views with any leading axes."""
        form = jax.tree.leaves(self._form)[0]
        encode = self._encode
        for _ in range(jax.tree.leaves(view)[0].ndim - len(form.shape)):
            encode = jax.vmap(encode)
        features = encode(view)
        if side.statistics is not None:
            features = normaliser.normalised(side.statistics, features)
        found: jax.Array = self._module.apply({"params": side.params}, features)  # type: ignore[assignment]
        return found

    def learn(
        self,
        side: AuxiliaryState,
        lessons: Any,
        loss: Callable[[jax.Array, Any], jax.Array],
        coefs: PPOConfig,
        group_keys: jax.Array,
    ) -> tuple[AuxiliaryState, jax.Array]:
        """Epochs x minibatches; inside the mesh.

        Args:
          side: before.
          lessons: a tuple with names, leaves [T, L, ...] (L lanes x seats asked): `view` that is read, `weight` f32,
            0 = not to be learnt from, and what `loss` needs.
          loss: (outputs, lessons), both [n, ...] -> f32[n].
          coefs: the numbers and schedules of this update, f32[] each.
          group_keys: typed keys [groups], by global group number.

        Returns:
          The network afterwards, and the mean loss f32[steps] before each step.
        """
        steps, lanes = lessons.weight.shape
        shape = Shuffle(coefs.epochs, coefs.minibatches * coefs.accumulate, group_keys.shape[0], steps, lanes)
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(group_keys, jnp.uint32(2**31 + self._number))
        order = shuffled_indices(keys, shape).reshape(coefs.epochs * coefs.minibatches, coefs.accumulate, -1)
        rows = jax.tree.map(lambda leaf: leaf.reshape(steps * lanes, *leaf.shape[2:]), lessons)
        return jax.lax.scan(functools.partial(self._minibatch, coefs, rows, loss), side, order)

    def absorbed(self, side: AuxiliaryState, view: PyTree, steps: Transition) -> AuxiliaryState:
        """With the statistics of its features after a rollout: views [T, B, S, ...] of its steps."""
        if side.statistics is None:
            return side
        statistics = normaliser.absorbed(side.statistics, self._encode, view, steps.weight, across_devices)
        return side.replace(statistics=statistics)

    def _minibatch(
        self, coefs: PPOConfig, rows: Any, loss: Callable, side: AuxiliaryState, index: jax.Array
    ) -> tuple[AuxiliaryState, jax.Array]:
        """One optimizer step on rows i32[accumulate, n]; and the mean loss before it."""

        def portion(params: Any, index: jax.Array) -> jax.Array:
            batch = jax.tree.map(lambda leaf: leaf[index], rows)
            return jnp.sum(batch.weight * loss(self.apply(side.replace(params=params), batch.view), batch))

        def add(total: Any, index: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(portion)(side.params, index)), None

        nothing = (jnp.float32(0.0), jax.tree.map(jnp.zeros_like, side.params))
        total, _ = jax.lax.scan(add, nothing, index)
        weight = jnp.maximum(across_devices(jnp.sum(rows.weight[index])), 1.0)
        found, gradient = jax.tree.map(lambda leaf: leaf / weight, across_devices(total))
        gradient, norms = optimizer.clip_by_global_norm(gradient, coefs.max_grad_norm)
        learnt = optimizer.apply(side.params, side.opt_state, gradient, coefs.learning_rate, jnp.float32(ADAM_EPS))
        params, opt_state = select(jnp.isfinite(norms.raw), learnt, (side.params, side.opt_state))
        return side.replace(params=params, opt_state=opt_state), found


def forms(env: Env) -> tuple[PyTree, PyTree]:
    """The forms of an observation and of what it leaves out."""
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    seat = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.eval_shape(env.observe, state, seat), jax.eval_shape(env.privileged, state, seat)


def by_lane(tree: PyTree) -> PyTree:
    """[T, B, S, ...] -> [T, L, ...]."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), tree)


def _initialiser(module: nn.Module, size: int) -> Callable[[jax.Array], Any]:
    """Key -> parameters of a module that reads f32[size]."""

    @jax.jit  # one program instead of one for every operation of every layer
    @jax.custom_batching.sequential_vmap  # LAPACK's batched QR waits for itself for ever on two cores
    def init(key: jax.Array) -> Any:
        return module.init(key, jnp.zeros(size))["params"]

    return init
