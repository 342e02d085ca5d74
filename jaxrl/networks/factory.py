"""Networks as plain functions, chosen by configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from envs.core import Env
from jaxrl import distributions
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


def make_network(config: Any, env: Env) -> Network:
    """The network of a `NetworkConfig` for the observations and actions of `env`."""
    common = {"num_actions": env.num_actions, "compute_dtype": config.compute_dtype}
    if config.kind == "mlp":
        module = MLP(
            hidden=tuple(config.hidden), activation=config.activation, layer_norm=config.layer_norm, **common
        )
        encode = env.features
    elif config.kind == "card_attention":
        module = CardAttention(
            dim=config.attention.dim, heads=config.attention.heads, layers=config.attention.layers, **common
        )
        encode = env.tokens
    else:
        raise ValueError(f"unknown network kind {config.kind!r}")

    def init(key: jax.Array) -> Params:
        example = jax.eval_shape(encode, env.observation_spec)
        zeros = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), example)
        return module.init(key, zeros)["params"]

    def apply(params: Params, encoded: Any, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits, value = module.apply({"params": params}, encoded)
        return distributions.mask_logits(logits, mask), value

    return Network(num_actions=env.num_actions, encode=encode, init=init, apply=apply)
