"""Gathers the lanes that need some work, processes them in chunks and scatters the results back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_envs.shared.fused.kernel import inside_kernel

CHUNK = 128  # lanes that are worked on together
FEW = 32  # lanes, those of one arena, that are worked on where they are: XLA compiles gathers slowly


def gathered(groups: jax.Array, lanes: Any, work: Callable[[Any], Any], otherwise: Any, chunk: int = CHUNK) -> Any:
    """Applies `work` to the lanes of some groups, `chunk` at a time; the others get `otherwise`.

    Args:
      groups: bool[G, n], of each lane one is true or none; those of a group follow each other.
      lanes: a pytree of [..., n].
      work: lanes [..., m] -> the structure and dtypes of `otherwise`, [..., m]; lanes that are in no group may be among
        them.
      otherwise: a pytree of [..., n]: f32, bool, or integers that f32 holds exactly.
    """
    if inside_kernel():  # these lanes are of one arena
        return _one_by_one(groups.any(0), lanes, work, otherwise)
    number, counts = groups.shape[-1], groups.any(0)
    if number <= FEW:
        found = jax.lax.cond(counts.any(), work, lambda lanes: otherwise, lanes)
        return jax.tree.map(lambda leaf, none: jnp.where(counts, leaf, none), found, otherwise)
    chunk = min(chunk, number)
    rank = jnp.cumsum(groups.reshape(-1).astype(jnp.int32))  # of the lanes that count, from one

    def some(turn, all_found):
        index = _lanes_of_rank(rank, turn * chunk + 1 + jnp.arange(chunk, dtype=jnp.int32)) % number
        found = work(jax.tree.map(lambda leaf: leaf[..., index], lanes))
        rows = jnp.concatenate([leaf.astype(jnp.float32).reshape(-1, chunk) for leaf in jax.tree.leaves(found)])
        return jax.lax.dynamic_update_slice(all_found, rows, (0, turn * chunk))

    empty, tree = jax.tree.flatten(otherwise)
    sizes = [leaf.size // number for leaf in empty]
    turns = (rank[-1] + chunk - 1) // chunk
    rows = jax.lax.fori_loop(0, turns, some, jnp.zeros((sum(sizes), number + chunk)))
    place = jnp.where(groups, rank.reshape(groups.shape) - 1, 0).max(0)
    rows = rows.at[:, place].get(mode="promise_in_bounds")
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    found = [
        rows[end - size : end].reshape(leaf.shape).astype(leaf.dtype)
        for end, size, leaf in zip(ends, sizes, empty, strict=True)
    ]
    return jax.tree.unflatten(tree, [jnp.where(counts, leaf, none) for leaf, none in zip(found, empty, strict=True)])


def _lanes_of_rank(rank: jax.Array, wanted: jax.Array) -> jax.Array:
    """Finds the first lane of each wanted rank by bisection; the last lane if no rank matches."""
    number = rank.shape[0]
    index = jnp.zeros(wanted.shape, jnp.int32)  # number of lanes with a smaller rank
    for bit in reversed(range(number.bit_length())):
        further = index + (1 << bit)
        smaller = rank.at[jnp.minimum(further, number) - 1].get(mode="promise_in_bounds") < wanted
        index = jnp.where((further <= number) & smaller, further, index)
    return jnp.minimum(index, number - 1)


def _one_by_one(needs: jax.Array, lanes: Any, work: Callable[[Any], Any], otherwise: Any) -> Any:
    """`gathered` with a chunk of one lane; bool[n]: which need the work."""
    number = jnp.arange(needs.shape[0])

    def one(carry):
        left, found = carry
        index = jnp.argmax(left)
        here = number == index
        new = work(jax.tree.map(lambda leaf: leaf[..., index][..., None], lanes))
        return left & ~here, jax.tree.map(lambda new, old: jnp.where(here, new, old), new, found)

    return jax.lax.while_loop(lambda carry: carry[0].any(), one, (needs, otherwise))[1]
