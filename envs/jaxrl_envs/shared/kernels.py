"""Forms for GPUs, where the number of kernels counts.

A GPU launches a kernel for each group of operations that XLA cannot fuse, and waits for the host where a loop ends by
data. What is several arrays, sums or rounds on a CPU is one there, with the same meaning.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp


def on_gpu() -> bool:
    """Returns whether the program being traced is for GPUs, by its mesh; False outside a mesh."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return device is not None and device.platform != "cpu"


def total(x: jax.Array) -> jax.Array:
    """Returns the sum over a short last axis, written out: additions fuse, reductions do not. bool counts as i32."""
    x = x.astype(jnp.int32) if x.dtype == bool else x
    return functools.reduce(operator.add, [x[..., i] for i in range(x.shape[-1])])


def most(x: jax.Array) -> jax.Array:
    """Returns the maximum over a short last axis, written out like `total`."""
    return functools.reduce(jnp.maximum, [x[..., i] for i in range(x.shape[-1])])


def sums(arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Returns the sum of each of several arrays of one shape, by a single reduction on a GPU."""
    if not on_gpu():
        return [jnp.sum(x) for x in arrays]
    return list(jnp.sum(jnp.stack([x.reshape(-1) for x in arrays]), axis=1))
