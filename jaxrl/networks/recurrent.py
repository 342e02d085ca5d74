"""Recurrent networks: a torso, LSTM or GRU layers, and heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

CELLS = {"lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}


class Torso(nn.Module):
    """Identity in place of the heads, to use a network as a torso."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array) -> jax.Array:
        """Maps [..., H] -> the same."""
        return torso


class Recurrent(nn.Module):
    """LSTM (Hochreiter & Schmidhuber 1997) or GRU layers (Cho et al. 2014, https://arxiv.org/abs/1406.1078) on top of a
    torso; layers and recurrent state are float32."""

    num_actions: int
    # a module with `Torso` as its heads, or one with heads of its own that takes an argument `remember`
    torso: nn.Module
    cell: str  # lstm or gru
    width: int  # units of a layer
    layers: int  # recurrent ones
    make_heads: Callable[..., nn.Module] | None  # creates the output heads; None: the torso has heads of its own

    @nn.compact
    def __call__(self, memory: Any, encoded: Any, **settings: Any) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        """Maps (memory, encoded observation) to (new memory, (logits f32[A], value f32[]))."""
        after = []

        def remember(x: jax.Array) -> jax.Array:
            """Applies all recurrent layers: [H] -> [R]."""
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
    """Returns the initial recurrent state, zeros: for each layer f32[..., width], a pair of them for an LSTM."""
    zeros = jnp.zeros((*batch, width), jnp.float32)
    return ((zeros, zeros) if cell == "lstm" else zeros,) * layers
