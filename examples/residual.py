"""A network of one's own: dense layers with a short cut around each pair (He et al. 2016, https://arxiv.org/abs/1512.03385).

jaxrl train --config examples/nim.yaml --allow examples network.kind=examples.residual:Residual
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.networks.base import Memory, NetworkModule


class Residual(NetworkModule):
    """A block for every number in `network.hidden`; all are as wide as the first. It remembers nothing."""

    @nn.compact
    def __call__(self, memory: Memory, encoded: Any) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
        """Maps (memory, features f32[F]) to memory, (logits f32[A], value f32[])."""
        dtype, width = jnp.dtype(self.config.compute_dtype), self.config.hidden[0]
        x = nn.Dense(width, dtype=dtype, name="into")(encoded)
        for index, _ in enumerate(self.config.hidden):
            y = nn.relu(nn.Dense(width, dtype=dtype, name=f"first_{index}")(nn.relu(x)))
            x = x + nn.Dense(width, dtype=dtype, name=f"second_{index}")(y)
        return memory, self.heads(nn.relu(x))
