"""A multi-layer perceptron with a shared torso."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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


# ---- for GPUs: fewer kernels --------------------------------------------------------------------------------------

ALIGNED = 8  # rows of a matrix of bfloat16 are a multiple of it, or XLA pads them by a kernel of its own


class Products(NamedTuple):
    """An `MLP` of ReLU without layer norms as its matrices: the bias of the first layer is a row that reads a feature
    of 1, so that its gradient is part of a product, and both heads are one product."""

    first: jax.Array  # [F + 1 and rows of zeros, H]
    torso: list[tuple[jax.Array, jax.Array]]  # kernels and biases of the other layers
    heads: tuple[jax.Array, jax.Array]  # f32[H, A + 1], f32[A + 1]: logits, then the value

    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps f32[F] -> logits f32[A], value f32[]."""
        dtype, more = self.first.dtype, self.first.shape[0] - features.shape[0]
        x = relu(jnp.concatenate([features.astype(dtype), jnp.eye(1, more, dtype=dtype)[0]]) @ self.first)
        for kernel, bias in self.torso:
            x = relu(x @ kernel + bias)
        kernel, bias = self.heads
        found = x.astype(jnp.float32) @ kernel + bias
        return found[:-1], found[-1]


def products_of(params: Any, dtype: str) -> Products:
    """Returns the products of an `MLP` with these parameters and `compute_dtype`."""
    layers = [(params[f"dense_{i}"]["kernel"], params[f"dense_{i}"]["bias"]) for i in range(len(params) - 1)]
    kernel, bias = layers[0]
    first = jnp.concatenate([kernel, bias[None], jnp.zeros((-(len(kernel) + 1) % ALIGNED, len(bias)))])
    first, torso = jax.tree.map(lambda leaf: leaf.astype(dtype), (first, layers[1:]))
    join = functools.partial(jnp.concatenate, axis=-1)
    heads = {part: join([params["heads"][name][part] for name in ("policy", "value")]) for part in ("kernel", "bias")}
    return Products(first, torso, (heads["kernel"], heads["bias"]))


@jax.custom_vjp
def relu(x: jax.Array) -> jax.Array:
    """Computes `nn.relu`; its gradient reads the result alone, so that the product before it is written once."""
    return jnp.maximum(x, 0)


def _relu_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return relu(x), relu(x)


def _relu_backward(found: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    # Not `found > 0`: XLA makes that `x > 0`, which reads the product itself.
    return (jnp.where(found != 0, gradient, jnp.zeros_like(gradient)),)


relu.defvjp(_relu_forward, _relu_backward)
