"""Expensive work for the lanes of a batch that need it: they are gathered, in chunks of bounded memory.

Under `jax.vmap` a branch costs both of its sides in every lane. In half of the lanes of a match another seat
is asked, and many decisions leave no choice: a search must cost nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_envs.contract.env import PyTree


def where_needed(function: Callable[[PyTree, PyTree], PyTree], chunk: int) -> Callable[..., PyTree]:
    """Makes a function of one lane, to be vmapped, from one of a whole batch of lanes.

    Args:
      function: (shared, lanes) -> results; every leaf of `lanes` and of the results has a leading axis. The
        result of one lane must not depend on the others.
      chunk: the most lanes it is given at a time.

    Returns:
      (needed bool[], default, shared, lane) -> the result for this lane where it is needed, else `default`, which has
      the same form. Vmapped, only the lanes that need it are computed. `shared` must not be vmapped; where it is (a
      batch of parameters), all lanes are computed.
    """

    def single(needed: jax.Array, default: PyTree, shared: PyTree, lane: PyTree) -> PyTree:
        result = function(shared, jax.tree.map(lambda leaf: leaf[None], lane))
        return jax.tree.map(lambda new, old: jnp.where(needed, new[0], old), result, default)

    call = jax.custom_batching.custom_vmap(single)

    @call.def_vmap
    def batched(axis_size: int, in_batched: Any, needed: jax.Array, default: PyTree, shared: PyTree, lane: PyTree):
        mapped = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, list(in_batched))
        if any(jax.tree.leaves(in_batched[2])):
            result = jax.vmap(single, in_axes=mapped)(needed, default, shared, lane)
        else:
            needed, default, lane = (
                jax.tree.map(lambda x, b: x if b else jnp.broadcast_to(x, (axis_size, *x.shape)), tree, in_batched[i])
                for i, tree in ((0, needed), (1, default), (3, lane))
            )
            # Half of the lanes need it where two seats take turns: of quarters, none is computed half empty.
            result = _in_chunks(function, min(chunk, -(-axis_size // 4)), needed, default, shared, lane)
        return result, jax.tree.map(lambda _: True, result)

    return call


def _in_chunks(
    function: Callable[[PyTree, PyTree], PyTree],
    chunk: int,
    needed: jax.Array,
    default: PyTree,
    shared: PyTree,
    lanes: PyTree,
) -> PyTree:
    """Returns the results for bool[N] needed lanes, `chunk` of them at a time."""
    count = needed.shape[0]
    order = jnp.argsort(~needed, stable=True)  # those that need it first
    portions = (jnp.sum(needed) + chunk - 1) // chunk

    def one(i: jax.Array, results: PyTree) -> PyTree:
        index = order[jnp.minimum(i * chunk + jnp.arange(chunk), count - 1)]
        new = function(shared, jax.tree.map(lambda leaf: leaf[index], lanes))
        return jax.tree.map(
            lambda result, fresh: jax.lax.dynamic_update_slice_in_dim(result, fresh, i * chunk, 0), results, new
        )

    # Results are collected in that order and put back by one gather: scatters inside of the loop, fused with each
    # other, are more than XLA's CPU backend can compile for games that ask for multi-output fusion.
    size = -(-count // chunk) * chunk
    empty = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape[1:]), leaf.dtype), default)
    collected = jax.lax.fori_loop(0, portions, one, empty)
    place = jnp.argsort(order)

    def put_back(result: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(needed.reshape(-1, *[1] * (other.ndim - 1)), result[place], other)

    return jax.tree.map(put_back, collected, default)
