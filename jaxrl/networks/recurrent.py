"""A network that remembers: a torso, then recurrent layers, then heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

CELLS = {"lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}


class Torso(nn.Module):
    """Stands in for the heads of a network whose torso is wanted alone."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array) -> jax.Array:
        """[..., H] -> the same."""
        return torso


class Recurrent(nn.Module):
    """LSTM (Hochreiter & Schmidhuber 1997) or GRU layers (Cho et al. 2014, https://arxiv.org/abs/1406.1078) behind a
    torso; they and their memory are float32.

    Attributes:
      num_actions: A.
      torso: a module that ends in `Torso`; or one that ends in its own heads and takes `remember`.
      cell: lstm or gru.
      width: numbers in a layer.
      layers: recurrent layers.
      make_heads: makes the module that ends it; None: the torso has heads of its own.
    """

    num_actions: int
    torso: nn.Module
    cell: str
    width: int
    layers: int
    make_heads: Callable[..., nn.Module] | None

    @nn.compact
    def __call__(self, memory: Any, encoded: Any, **settings: Any) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        """(memory, encoded observation) -> memory, (logits f32[A], value f32[])."""
        after = []

        def remember(x: jax.Array) -> jax.Array:
            """[H] -> [R], through all recurrent layers."""
            x = x.astype(jnp.float32)
            for layer in range(self.layers):
                carry, x = CELLS[self.cell](self.width, name=f"{self.cell}_{layer}")(memory[layer], x)
                after.append(carry)
            return x

        if self.make_heads is None:
            found = self.torso(encoded, remember, **settings)
            return tuple(after), found
        x = remember(self.torso(encoded, **settings))
        return tuple(after), self.make_heads(self.num_actions, name="heads")(x)


def empty_memory(cell: str, width: int, layers: int, batch: tuple[int, ...]) -> Any:
    """The memory at the beginning of a game: for each layer f32[..., width], two of them in an LSTM."""
    zeros = jnp.zeros((*batch, width), jnp.float32)
    return ((zeros, zeros) if cell == "lstm" else zeros,) * layers
