"""A card-set encoder: cards are tokens, so that what is learnt about one card carries over to its neighbours."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from envs.core import MAX_RANKS, MAX_SUITS, Tokens
from jaxrl.networks.mlp import Heads


class _Block(nn.Module):
    """A pre-norm attention layer (Xiong et al. 2020, https://arxiv.org/abs/2002.04745)."""

    heads: int
    compute_dtype: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., N, D] -> the same."""
        dtype, dim = jnp.dtype(self.compute_dtype), x.shape[-1]
        y = nn.LayerNorm(dtype=dtype, name="norm_attention")(x)
        x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=dtype, name="attention")(y)
        y = nn.LayerNorm(dtype=dtype, name="norm_dense")(x)
        y = nn.relu(nn.Dense(2 * dim, dtype=dtype, name="expand")(y))
        return x + nn.Dense(dim, dtype=dtype, name="contract")(y)


class CardAttention(nn.Module):
    """Suit and rank embeddings plus a projection of each card's flags, one context token, attention, then `Heads`."""

    num_actions: int
    dim: int = 64
    heads: int = 4
    layers: int = 2
    compute_dtype: str = "float32"

    @nn.compact
    def __call__(self, tokens: Tokens) -> tuple[jax.Array, jax.Array]:
        """Tokens (leading axes allowed in each field) -> logits f32[..., A], value f32[...]."""
        dtype = jnp.dtype(self.compute_dtype)
        cards = nn.Dense(self.dim, dtype=dtype, name="flags")(tokens.features.astype(dtype))
        # One-hot products instead of look-ups: their gradient is a product too, not a scatter.
        suit = jax.nn.one_hot(tokens.suit, MAX_SUITS, dtype=dtype)
        rank = jax.nn.one_hot(tokens.rank, MAX_RANKS, dtype=dtype)
        cards += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="suit")(suit)
        cards += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="rank")(rank)
        context = nn.relu(nn.Dense(2 * self.dim, dtype=dtype, name="context_0")(tokens.context.astype(dtype)))
        context = nn.Dense(self.dim, dtype=dtype, name="context_1")(context)
        x = jnp.concatenate([context[..., None, :], cards], axis=-2)
        for index in range(self.layers):
            x = _Block(self.heads, self.compute_dtype, name=f"layer_{index}")(x)
        x = nn.LayerNorm(dtype=dtype, name="norm")(x)
        pooled = jnp.concatenate([x[..., 0, :], jnp.mean(x[..., 1:, :], axis=-2)], axis=-1)
        return Heads(self.num_actions, name="heads")(nn.relu(nn.Dense(2 * self.dim, dtype=dtype, name="pool")(pooled)))
