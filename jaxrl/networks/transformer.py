"""A transformer over cards with one token per card, so that similar cards share what is learnt.

A card's place (hand, table, position in a queue) is part of its features, so there is no positional encoding: the
output is invariant to the order in which a game lists its cards.
"""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.networks.mlp import Heads
from jaxrl_envs.contract.env import MAX_RANKS, MAX_SUITS, Tokens


class Block(nn.Module):
    """A pre-norm attention layer (Xiong et al. 2020, https://arxiv.org/abs/2002.04745)."""

    heads: int
    feed_forward: int
    dropout: float
    compute_dtype: str

    @nn.compact
    def __call__(self, x: jax.Array, deterministic: bool, mask: jax.Array | None = None) -> jax.Array:
        """Maps [..., N, D] -> the same; mask bool[..., N]: True = token may be attended to, None: all."""
        dtype, dim = jnp.dtype(self.compute_dtype), x.shape[-1]
        y = nn.LayerNorm(dtype=dtype, name="norm_attention")(x)
        y = nn.MultiHeadDotProductAttention(self.heads, dtype=dtype, name="attention")(
            y, mask=None if mask is None else mask[..., None, None, :]
        )
        x = x + nn.Dropout(self.dropout, name="dropout_attention")(y, deterministic)
        y = nn.LayerNorm(dtype=dtype, name="norm_dense")(x)
        y = nn.relu(nn.Dense(self.feed_forward, dtype=dtype, name="expand")(y))
        y = nn.Dense(dim, dtype=dtype, name="contract")(y)
        return x + nn.Dropout(self.dropout, name="dropout_dense")(y, deterministic)


class Transformer(nn.Module):
    """Transformer encoder over card tokens (suit, rank, projected flags) and a context token, then `make_heads`."""

    num_actions: int
    dim: int = 64
    heads: int = 4  # attention heads; divides `dim`
    layers: int = 2
    embedding: int = 0  # width of the suit and rank embeddings, projected to `dim`; 0: `dim` without projection
    feed_forward: int = 0  # width of the hidden layer of each block; 0: 2 * dim
    # dropout rate of the token embeddings and of both sublayer outputs of each block (Vaswani et al. 2017, section
    # 5.4, https://arxiv.org/abs/1706.03762); needs a "dropout" stream unless deterministic
    dropout: float = 0.0
    compute_dtype: str = "float32"  # type of everything but the parameters and the heads
    make_heads: Callable[..., nn.Module] = Heads

    @nn.compact
    def __call__(self, tokens: Tokens, deterministic: bool = True) -> tuple[jax.Array, jax.Array]:
        """Maps tokens (leading axes allowed in each field) -> logits f32[..., A], value f32[...]."""
        dtype = jnp.dtype(self.compute_dtype)
        cards = nn.Dense(self.dim, dtype=dtype, name="flags")(tokens.features.astype(dtype)) + self._identity(tokens)
        context = nn.relu(nn.Dense(2 * self.dim, dtype=dtype, name="context_0")(tokens.context.astype(dtype)))
        context = nn.Dense(self.dim, dtype=dtype, name="context_1")(context)
        x = jnp.concatenate([context[..., None, :], cards], axis=-2)
        x = nn.Dropout(self.dropout, name="dropout")(x, deterministic)
        width = self.feed_forward or 2 * self.dim
        for index in range(self.layers):
            block = Block(self.heads, width, self.dropout, self.compute_dtype, name=f"layer_{index}")
            x = block(x, deterministic)
        x = nn.LayerNorm(dtype=dtype, name="norm")(x)
        pooled = jnp.concatenate([x[..., 0, :], jnp.mean(x[..., 1:, :], axis=-2)], axis=-1)
        pooled = nn.relu(nn.Dense(2 * self.dim, dtype=dtype, name="pool")(pooled))
        return self.make_heads(self.num_actions, name="heads")(pooled)

    def _identity(self, tokens: Tokens) -> jax.Array:
        """Returns suit and rank embedding of each card, [..., N, dim]."""
        dtype, width = jnp.dtype(self.compute_dtype), self.embedding or self.dim
        # One-hot products instead of look-ups, because their gradient is a matrix product and not a scatter.
        suit = jax.nn.one_hot(tokens.suit, MAX_SUITS, dtype=dtype)
        rank = jax.nn.one_hot(tokens.rank, MAX_RANKS, dtype=dtype)
        cards = nn.Dense(width, use_bias=False, dtype=dtype, name="suit")(suit)
        cards += nn.Dense(width, use_bias=False, dtype=dtype, name="rank")(rank)
        return nn.Dense(self.dim, use_bias=False, dtype=dtype, name="project")(cards) if self.embedding else cards
