"""Heads of a Q network: dueling streams (Wang et al. 2016) and noisy layers (Fortunato et al. 2018)."""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.networks import distributions
from jaxrl.networks.factory import NOISE, HeadKind


def heads_of(dqn: DQNConfig) -> HeadKind:
    """Returns the configured heads of a Q network."""
    noisy = dqn.exploration == "noisy"
    make = functools.partial(QHeads, noisy=noisy)

    def finish(advantage: jax.Array, value: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = distributions.mask_logits(combine(advantage, value, mask), mask)
        return q, jnp.max(q, axis=-1)

    return HeadKind(make, finish, noisy)


class NoisyDense(nn.Module):
    """A noisy dense layer: weights with learnt means and standard deviations (https://arxiv.org/abs/1706.10295).

    The noise is factorised, one number per input and per output, and resampled for every decision."""

    features: int  # width of the output
    sigma: float = 0.5  # initial scale of the noise, divided by the root of the number of inputs

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layer: f32[..., I] -> f32[..., features]."""
        inputs = x.shape[-1]
        bound = float(inputs) ** -0.5

        def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
            return jax.random.uniform(key, shape, jnp.float32, -bound, bound)

        size = nn.initializers.constant(self.sigma * bound)
        kernel = self.param("kernel", uniform, (inputs, self.features))
        bias = self.param("bias", uniform, (self.features,))
        kernel_size = self.param("kernel_size", size, (inputs, self.features))
        bias_size = self.param("bias_size", size, (self.features,))
        y = x @ kernel + bias
        if not self.has_rng(NOISE):
            return y
        noise = jax.random.normal(self.make_rng(NOISE), (inputs + self.features,))
        noise = jnp.sign(noise) * jnp.sqrt(jnp.abs(noise))
        into, out = noise[:inputs], noise[inputs:]
        # (x * into) @ size is x @ (size * outer(into, out)), without building that matrix for every decision.
        return y + ((x * into) @ kernel_size + bias_size) * out


class QHeads(nn.Module):
    """Dueling heads on a torso vector, always in float32; `combine` computes the action values.

    Two streams, each with a hidden layer as wide as the torso (https://arxiv.org/abs/1511.06581)."""

    num_actions: int
    noisy: bool = False  # use noisy layers instead of plain ones

    @nn.compact
    def __call__(self, torso: jax.Array, options: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """Maps [..., H] -> advantages f32[..., A], value f32[...]; given option vectors [..., A, D], each advantage is
        computed from its option."""
        torso = torso.astype(jnp.float32)
        choices = torso if options is None else options.astype(jnp.float32)
        choices = nn.relu(self._dense(choices.shape[-1], "advantage_hidden")(choices))
        hidden = nn.relu(self._dense(torso.shape[-1], "value_hidden")(torso))
        value = self._dense(1, "value")(hidden)[..., 0]
        if options is None:
            return self._dense(self.num_actions, "advantage")(choices), value
        return self._dense(1, "advantage")(choices)[..., 0], value

    def _dense(self, features: int, name: str) -> nn.Module:
        return NoisyDense(features, name=name) if self.noisy else nn.Dense(features, name=name)


def combine(advantage: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
    """Combines both streams into action values f32[..., A].

    The mean advantage is taken over the legal actions: advantages of illegal actions are never trained and must not
    affect the other values.

    Args:
      advantage: f32[..., A].
      value: f32[...].
      mask: bool[..., A], True = legal.
    """
    legal = jnp.maximum(jnp.sum(mask, axis=-1, keepdims=True), 1)
    mean = jnp.sum(jnp.where(mask, advantage, 0.0), axis=-1, keepdims=True) / legal
    return value[..., None] + advantage - mean
