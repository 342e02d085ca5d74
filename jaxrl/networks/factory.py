"""Networks as plain functions, chosen by configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from envs.core import Env
from jaxrl import distributions
from jaxrl.config.schema import NetworkConfig
from jaxrl.networks.mlp import MLP
from jaxrl.networks.transformer import Transformer

Params = Any


class Apply(Protocol):
    """The signature of `Network.apply`."""

    def __call__(
        self, params: Params, encoded: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """(params, encoded observation, mask bool[A]) -> masked logits f32[A], value f32[]."""


class Network(NamedTuple):
    """A policy and value network for one decision; vmap its functions over decisions, or over stacked parameters."""

    num_actions: int
    encode: Callable[[Any], Any]  # packed observation -> features f32[F] or Tokens
    init: Callable[[jax.Array], Params]  # key -> parameters
    apply: Apply
    dropout: float = 0.0  # the rate at which a dropout key acts; 0 = a key changes nothing, so none need be made

    def evaluate(
        self, params: Params, observation: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """One packed observation and its mask bool[A] -> masked logits f32[A], value f32[].

        Args:
          params: of this network.
          observation: as `Env.observe` gives it.
          mask: bool[A].
          dropout_key: typed; only the loss gives one. Without it nothing is dropped: so are games played, policies
            evaluated and exported.
        """
        return self.apply(params, self.encode(observation), mask, dropout_key)


def make_network(config: NetworkConfig, env: Env) -> Network:
    """The network of a `NetworkConfig` for the observations and actions of `env`."""
    module, encode, dropout = _module(config, env)

    def init(key: jax.Array) -> Params:
        example = jax.eval_shape(encode, env.observation_spec)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
        return module.init(key, zeros)["params"]

    def apply(
        params: Params, encoded: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        if dropout and dropout_key is not None:
            output = module.apply({"params": params}, encoded, deterministic=False, rngs={"dropout": dropout_key})
        else:
            output = module.apply({"params": params}, encoded)
        logits, value = cast(tuple[jax.Array, jax.Array], output)
        return distributions.mask_logits(logits, mask), value

    return Network(num_actions=env.num_actions, encode=encode, init=init, apply=apply, dropout=dropout)


def _module(config: NetworkConfig, env: Env) -> tuple[nn.Module, Callable[[Any], Any], float]:
    """The flax module, the encoding of observations that it reads, and its dropout rate."""
    actions, dtype = env.num_actions, config.compute_dtype
    if config.kind == "mlp":
        mlp = MLP(actions, tuple(config.hidden), config.activation, layer_norm=config.layer_norm, compute_dtype=dtype)
        return mlp, env.features, 0.0
    if config.kind == "transformer":
        size = config.transformer
        transformer = Transformer(
            actions,
            dim=size.dim,
            heads=size.heads,
            layers=size.layers,
            embedding=size.embedding,
            feed_forward=size.feed_forward,
            dropout=size.dropout,
            compute_dtype=dtype,
        )
        return transformer, env.tokens, size.dropout
    raise ValueError(f"unknown network kind {config.kind!r}")
