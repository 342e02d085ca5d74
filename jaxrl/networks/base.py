"""The network interface: pure functions over parameters, with a recurrent state per seat."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax

from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.normaliser import Normaliser
from jaxrl_envs.contract.env import Env

Params = Any
Memory = Any  # recurrent state, a pytree of arrays; () for a feed-forward network


class Apply(Protocol):
    """The signature of `Network.apply`."""

    def __call__(
        self, params: Params, memory: Memory, encoded: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        """Maps (params, memory, encoded observation, mask bool[A]) -> new memory, masked logits f32[A], value f32[]."""


class Network(NamedTuple):
    """A policy and value network, or a Q network whose "logits" are the masked action values and whose "value" is the
    largest of them. Its functions take single decisions; vmap them over decisions or over stacked parameters."""

    num_actions: int
    encode: Callable[[Any], Any]  # packed observation -> features f32[F], Tokens or Candidates
    init: Callable[[jax.Array], Params]  # key -> parameters
    apply: Apply
    memory: Callable[[tuple[int, ...]], Memory] = lambda batch: ()  # initial state, with leading axes `batch`
    dropout: float = 0.0  # dropout rate; 0: `apply` ignores its key, so callers need not make one
    noisy: bool = False  # whether the key also draws the noise of noisy layers
    normaliser: Normaliser | None = None  # of the features, if they are normalised
    prepare: Callable[[Params], Params] = lambda params: params  # once for many answers; `apply` reads both

    @property
    def remembers(self) -> bool:
        """Whether the network is recurrent."""
        return bool(jax.tree.leaves(jax.eval_shape(lambda: self.memory(()))))

    def evaluate(
        self, params: Params, memory: Memory, observation: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        """Evaluates one packed observation -> (new memory, masked logits f32[A], value f32[]).

        Args:
          params: parameters of this network.
          memory: recurrent state of the acting seat after its previous decision.
          observation: result of `Env.observe`.
          mask: bool[A], True = legal.
          key: typed; passed by losses, and for exploration with noisy layers. Without it dropout is off and the noise
            has its mean, as in play, evaluation and export.
        """
        return self.apply(params, memory, self.encode(observation), mask, key)


class NetworkModule(nn.Module):
    """Base class for a user's own network (`network.kind: package.module:Class`): a flax module with the given heads.

    Attributes:
      num_actions: A.
      config: the section `network`; its keys may be used or ignored.
      make_heads: creates the output heads: policy and value, or action values.
    """

    num_actions: int
    config: NetworkConfig
    make_heads: Callable[..., nn.Module]

    def encode(self, env: Env) -> Callable[[Any], Any]:
        """Returns the function that expands a packed observation; by default `env.features`, to f32[F]."""
        return env.features

    def memory(self, batch: tuple[int, ...]) -> Memory:
        """The initial recurrent state, zeros with leading axes `batch`; by default (), a feed-forward network."""
        del batch
        return ()

    def heads(self, torso: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Applies the heads: [H] -> logits f32[A], value f32[]; for use in `__call__`, which is `nn.compact`."""
        found: tuple[jax.Array, jax.Array] = self.make_heads(self.num_actions, name="heads")(torso)
        return found

    @abc.abstractmethod
    def __call__(self, memory: Memory, encoded: Any) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
        """Maps (memory, one encoded observation) to (new memory, (logits f32[A], value f32[]))."""
