"""Packs a batch of lanes into words, so that a loop on a GPU carries and stacks a single array.

XLA copies a carried buffer that is read after its new value is written, and writes each stacked output by a kernel of
its own. A card game has a hundred small leaves: launching those kernels takes longer than the game.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WORD = 32
LARGE = 128  # words of a lane; larger leaves, such as recurrent states, stay arrays of their own


class Packed(NamedTuple):
    """A pytree with leaves [B, ...]."""

    words: jax.Array  # u32[W, B], the small leaves
    large: tuple[jax.Array, ...]  # the others as they are


def pack(tree: Any) -> Packed:
    """Packs arrays [B, ...]; numbers of fewer than 32 bits share words."""
    leaves = jax.tree.leaves(tree)
    rows = [row for leaf in leaves if _is_small(leaf) for row in _rows(leaf)]
    words = lax.concatenate([lax.expand_dims(row, (0,)) for row in rows], 0)
    return Packed(words, tuple(leaf for leaf in leaves if not _is_small(leaf)))


def unpack(packed: Packed, like: Any) -> Any:
    """Inverts `pack`; `like` has the shapes and dtypes of the packed tree."""
    leaves, structure = jax.tree.flatten(like)
    large, first, found = iter(packed.large), 0, []
    for leaf in leaves:
        if _is_small(leaf):
            count = _num_words(leaf)
            found.append(_leaf([packed.words[first + i] for i in range(count)], leaf))
            first += count
        else:
            found.append(next(large))
    return jax.tree.unflatten(structure, found)


def pack_lane(tree: Any) -> Packed:
    """Packs one lane as `pack`: leaves [...], words u32[W]."""
    words, large = pack(jax.tree.map(lambda leaf: leaf[None], tree))
    return Packed(words[:, 0], tuple(leaf[0] for leaf in large))


def unpack_lane(packed: Packed, like: Any) -> Any:
    """Inverts `pack_lane`; `like` has the shapes and dtypes of many lanes, [B, ...]."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), like)
    tree = unpack(Packed(packed.words[:, None], tuple(leaf[None] for leaf in packed.large)), one)
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _bits(leaf: Any) -> int:
    return 1 if leaf.dtype == bool else 8 * leaf.dtype.itemsize


def _num_words(leaf: Any) -> int:
    """Returns the number of words of one lane."""
    return -(-leaf.size // leaf.shape[0] * _bits(leaf) // WORD)


def _is_small(leaf: Any) -> bool:
    return _bits(leaf) <= WORD and _num_words(leaf) <= LARGE


def _rows(leaf: jax.Array) -> list[jax.Array]:
    """Returns the words of a leaf [B, ...], u32[B] each."""
    bits = _bits(leaf)
    flat = leaf.reshape(leaf.shape[0], -1)
    if bits > 1:
        flat = lax.bitcast_convert_type(flat, jnp.dtype(f"uint{bits}"))
    columns = [flat[:, i].astype(jnp.uint32) for i in range(flat.shape[1])]
    each = WORD // bits
    words = [columns[i : i + each] for i in range(0, len(columns), each)]
    return [sum((part << (bits * i) for i, part in enumerate(word[1:], 1)), word[0]) for word in words]


def _leaf(rows: list[jax.Array], like: Any) -> jax.Array:
    """Inverts `_rows`."""
    bits = _bits(like)
    flat = lax.concatenate([lax.expand_dims(row, (1,)) for row in rows], 1)
    if bits < WORD:
        shifts = np.arange(0, WORD, bits, dtype=np.uint32)
        flat = ((flat[:, :, None] >> shifts) & jnp.uint32((1 << bits) - 1)).reshape(flat.shape[0], -1)
        flat = flat[:, : like.size // like.shape[0]].astype(bool if bits == 1 else jnp.dtype(f"uint{bits}"))
    if bits > 1:
        flat = lax.bitcast_convert_type(flat, like.dtype)
    return flat.reshape(like.shape)
