"""A multi-layer perceptron with a shared torso."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

ACTIVATIONS = {"relu": nn.relu, "tanh": jnp.tanh, "gelu": nn.gelu, "silu": nn.silu}


class Heads(nn.Module):
    """Policy and value heads on a torso vector, always in float32."""

    num_actions: int

    @nn.compact
    def __call__(self, torso: jax.Array, options: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """Maps [..., H] -> logits f32[..., A], value f32[...]; given option vectors [..., A, D], each logit is computed
        from its option."""
        torso = torso.astype(jnp.float32)
        # The first policy is nearly uniform over the legal actions (Andrychowicz et al. 2021, arXiv 2006.05990).
        init = nn.initializers.orthogonal(0.01)
        if options is None:
            logits = nn.Dense(self.num_actions, kernel_init=init, name="policy")(torso)
        else:
            logits = nn.Dense(1, kernel_init=init, name="policy")(options.astype(jnp.float32))[..., 0]
        value = nn.Dense(1, kernel_init=nn.initializers.orthogonal(1.0), name="value")(torso)
        return logits, value[..., 0]


class MLP(nn.Module):
    """Dense layers followed by `make_heads`. Parameters are float32; the torso computes in `compute_dtype`."""

    num_actions: int
    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    layer_norm: bool = False
    compute_dtype: str = "float32"
    make_heads: Callable[..., nn.Module] = Heads

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps f32[..., F] -> logits f32[..., A], value f32[...]."""
        dtype = jnp.dtype(self.compute_dtype)
        x = features.astype(dtype)
        for index, width in enumerate(self.hidden):
            init = nn.initializers.orthogonal(2.0**0.5)
            x = nn.Dense(width, dtype=dtype, kernel_init=init, name=f"dense_{index}")(x)
            if self.layer_norm:
                x = nn.LayerNorm(dtype=dtype, name=f"norm_{index}")(x)
            x = ACTIVATIONS[self.activation](x)
        return self.make_heads(self.num_actions, name="heads")(x)
