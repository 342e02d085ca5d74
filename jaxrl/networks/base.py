"""What a network is: plain functions over parameters, with a memory from one decision of a seat to its next."""

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
Memory = Any  # a pytree of arrays; () for a network that remembers nothing


class Apply(Protocol):
    """The signature of `Network.apply`."""

    def __call__(
        self, params: Params, memory: Memory, encoded: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        """(params, memory, encoded observation, mask bool[A]) -> new memory, masked logits f32[A], value f32[]."""


class Network(NamedTuple):
    """What decides: a policy and value network, or a Q network whose "logits" are the masked values of the actions and
    whose "value" is the largest of them. vmap its functions over decisions, or over stacked parameters."""

    num_actions: int
    encode: Callable[[Any], Any]  # packed observation -> features f32[F], Tokens or Candidates
    init: Callable[[jax.Array], Params]  # key -> parameters
    apply: Apply
    memory: Callable[[tuple[int, ...]], Memory] = lambda batch: ()  # at the beginning of a game; leading axes `batch`
    dropout: float = 0.0  # the rate at which a key acts; 0 = a key changes nothing, so none need be made
    noisy: bool = False  # whether that key draws the noise of a Q network's layers
    normaliser: Normaliser | None = None  # of its features, if they are normalised

    @property
    def remembers(self) -> bool:
        """Whether there is a memory."""
        return bool(jax.tree.leaves(jax.eval_shape(lambda: self.memory(()))))

    def evaluate(
        self, params: Params, memory: Memory, observation: Any, mask: jax.Array, key: jax.Array | None = None
    ) -> tuple[Memory, jax.Array, jax.Array]:
        """One packed observation and its mask bool[A] -> the memory afterwards, masked logits f32[A], value f32[].

        Args:
          params: of this network.
          memory: of the seat that is asked, after its decision before.
          observation: as `Env.observe` gives it.
          mask: bool[A].
          key: typed; only the loss gives one, and an algorithm that explores with noisy layers. Without it nothing
            is dropped and noise has its mean: so are games played, policies evaluated and exported.
        """
        return self.apply(params, memory, self.encode(observation), mask, key)


class NetworkModule(nn.Module):
    """A network of one's own, `network.kind: package.module:Class`: a flax module that ends in the heads it is given.

    Attributes:
      num_actions: A.
      config: the section `network`, of which it reads what it has a use for.
      make_heads: makes the module that ends it: a policy and a value, or the values of actions.
    """

    num_actions: int
    config: NetworkConfig
    make_heads: Callable[..., nn.Module]

    def encode(self, env: Env) -> Callable[[Any], Any]:
        """What expands a packed observation: `env.features`, if not overridden, to f32[F]."""
        return env.features

    def memory(self, batch: tuple[int, ...]) -> Memory:
        """The memory at the beginning of a game, zeros with leading axes `batch`; (), if not overridden: nothing."""
        del batch
        return ()

    def heads(self, torso: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[H] -> logits f32[A], value f32[]; for `__call__`, which is `nn.compact`."""
        found: tuple[jax.Array, jax.Array] = self.make_heads(self.num_actions, name="heads")(torso)
        return found

    @abc.abstractmethod
    def __call__(self, memory: Memory, encoded: Any) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
        """(memory, one encoded observation) -> the memory afterwards, (logits f32[A], value f32[])."""
