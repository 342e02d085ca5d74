"""Networks as plain functions, chosen by configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from envs.core import Env
from jaxrl import distributions
from jaxrl.config.schema import NetworkConfig
from jaxrl.networks.card_attention import CardAttention
from jaxrl.networks.mlp import MLP

Params = Any


class Network(NamedTuple):
    """A policy and value network for one decision; vmap its functions over decisions, or over stacked parameters."""

    num_actions: int
    encode: Callable[[Any], Any]  # packed observation -> features f32[F] or Tokens
    init: Callable[[jax.Array], Params]  # key -> parameters
    apply: Callable[[Params, Any, jax.Array], tuple[jax.Array, jax.Array]]  # (params, encoded, mask bool[A])

    def evaluate(self, params: Params, observation: Any, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One packed observation and its mask bool[A] -> masked logits f32[A], value f32[]."""
        return self.apply(params, self.encode(observation), mask)


def make_network(config: NetworkConfig, env: Env) -> Network:
    """The network of a `NetworkConfig` for the observations and actions of `env`."""
    module, encode = _module(config, env)

    def init(key: jax.Array) -> Params:
        example = jax.eval_shape(encode, env.observation_spec)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
        return module.init(key, zeros)["params"]

    def apply(params: Params, encoded: Any, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits, value = cast(tuple[jax.Array, jax.Array], module.apply({"params": params}, encoded))
        return distributions.mask_logits(logits, mask), value

    return Network(num_actions=env.num_actions, encode=encode, init=init, apply=apply)


def _module(config: NetworkConfig, env: Env) -> tuple[nn.Module, Callable[[Any], Any]]:
    """The flax module and the encoding of observations that it reads."""
    actions, dtype = env.num_actions, config.compute_dtype
    if config.kind == "mlp":
        mlp = MLP(actions, tuple(config.hidden), config.activation, layer_norm=config.layer_norm, compute_dtype=dtype)
        return mlp, env.features
    if config.kind == "card_attention":
        size = config.attention
        return CardAttention(actions, size.dim, size.heads, size.layers, compute_dtype=dtype), env.tokens
    raise ValueError(f"unknown network kind {config.kind!r}")
