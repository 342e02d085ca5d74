"""Networks as plain functions, chosen by configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from envs.core import Env
from jaxrl.config.schema import Config, DQNConfig, NetworkConfig
from jaxrl.networks import distributions
from jaxrl.networks.candidates import CandidateScorer
from jaxrl.networks.mlp import MLP, Heads
from jaxrl.networks.q_heads import NOISE, QHeads, combine
from jaxrl.networks.transformer import Transformer

Params = Any


class Apply(Protocol):
    """The signature of `Network.apply`."""

    def __call__(
        self, params: Params, encoded: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """(params, encoded observation, mask bool[A]) -> masked logits f32[A], value f32[]."""


class Network(NamedTuple):
    """What decides: a policy and value network, or a Q network whose "logits" are the masked values of the actions and
    whose "value" is the largest of them. vmap its functions over decisions, or over stacked parameters."""

    num_actions: int
    encode: Callable[[Any], Any]  # packed observation -> features f32[F], Tokens or Candidates
    init: Callable[[jax.Array], Params]  # key -> parameters
    apply: Apply
    dropout: float = 0.0  # the rate at which a dropout key acts; 0 = a key changes nothing, so none need be made
    noisy: bool = False  # whether that key draws the noise of a Q network's layers

    def evaluate(
        self, params: Params, observation: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """One packed observation and its mask bool[A] -> masked logits f32[A], value f32[].

        Args:
          params: of this network.
          observation: as `Env.observe` gives it.
          mask: bool[A].
          dropout_key: typed; only the loss gives one, and DQN while it explores with noisy layers. Without it nothing
            is dropped and noise has its mean: so are games played, policies evaluated and exported.
        """
        return self.apply(params, self.encode(observation), mask, dropout_key)


def network_of(config: Config, env: Env) -> Network:
    """The network that a configuration trains, for `env`: a Q network with `train.algorithm: dqn`."""
    return make_network(config.network, env, config.dqn if config.train.algorithm == "dqn" else None)


def kind_of(config: Config) -> tuple[Any, ...]:
    """Equal for configurations whose networks differ in their parameters only; to be used as a key."""
    dqn = config.dqn
    heads = (dqn.exploration,) if config.train.algorithm == "dqn" else ()
    return (config.network, *heads)


def make_network(config: NetworkConfig, env: Env, dqn: DQNConfig | None = None) -> Network:
    """The network of a `NetworkConfig` for the observations and actions of `env`.

    Args:
      config: the torso.
      env: the game.
      dqn: the heads of a Q network; None: those of a policy and value network.
    """
    heads: Callable[..., nn.Module] = Heads
    noisy = dqn is not None and dqn.exploration == "noisy"
    if dqn is not None:
        heads = functools.partial(QHeads, noisy=noisy)
    module, encode, dropout = _module(config, env, heads)

    @jax.jit  # one program instead of one for every operation of every layer
    def init(key: jax.Array) -> Params:
        example = jax.eval_shape(encode, env.observation_spec)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
        return module.init(key, zeros)["params"]

    def apply(
        params: Params, encoded: Any, mask: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        if noisy and dropout_key is not None:
            output = module.apply({"params": params}, encoded, rngs={NOISE: dropout_key})
        elif dropout and dropout_key is not None:
            output = module.apply({"params": params}, encoded, deterministic=False, rngs={"dropout": dropout_key})
        else:
            output = module.apply({"params": params}, encoded)
        logits, value = cast(tuple[jax.Array, jax.Array], output)
        if dqn is None:
            return distributions.mask_logits(logits, mask), value
        q = distributions.mask_logits(combine(logits, value, mask), mask)
        return q, jnp.max(q, axis=-1)

    return Network(env.num_actions, encode, init, apply, dropout=dropout, noisy=noisy)


def _module(
    config: NetworkConfig, env: Env, heads: Callable[..., nn.Module]
) -> tuple[nn.Module, Callable[[Any], Any], float]:
    """The flax module, the encoding of observations that it reads, and its dropout rate."""
    actions, dtype = env.num_actions, config.compute_dtype
    if config.kind == "mlp":
        mlp = MLP(
            actions,
            tuple(config.hidden),
            config.activation,
            layer_norm=config.layer_norm,
            compute_dtype=dtype,
            make_heads=heads,
        )
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
            make_heads=heads,
        )
        return transformer, env.tokens, size.dropout
    if config.kind == "candidates":
        part = config.candidates
        scorer = CandidateScorer(
            actions,
            env.vocabulary,
            dim=part.dim,
            layers=part.layers,
            embedding=part.embedding,
            compute_dtype=dtype,
            make_heads=heads,
        )
        return scorer, env.candidates, 0.0
    raise ValueError(f"unknown network kind {config.kind!r}")
