"""Packs a batch of lanes into words, so that a loop on a GPU carries and stacks a single array.

XLA writes each stacked output by a kernel of its own, and copies a carried buffer that is read
after its new value is written. A card game has a hundred small leaves: launching takes longer than the game.
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
    """Packs arrays [B, ...]; numbers of fewer than 32 bits share words with all others of their size."""
    leaves = jax.tree.leaves(tree)
    rows = [row for bits, group in _groups(leaves) for row in _rows(bits, [leaves[i] for i in group])]
    return Packed(lax.concatenate(rows, 0), tuple(leaf for leaf in leaves if not _is_small(leaf)))


def unpack(packed: Packed, like: Any) -> Any:
    """Inverts `pack`; `like` has the shapes and dtypes of the packed tree."""
    leaves, structure = jax.tree.flatten(like)
    large, words, found = iter(packed.large), packed.words, {}
    for bits, group in _groups(leaves):
        counts = [_numbers(leaves[i]) for i in group]
        length = _num_words(bits, sum(counts))
        numbers, words = _numbers_of(bits, words[:length]), words[length:]
        for i, last in zip(group, np.cumsum(counts), strict=True):
            found[i] = _leaf(numbers[last - _numbers(leaves[i]) : last].T, leaves[i])
    return jax.tree.unflatten(structure, [found[i] if i in found else next(large) for i in range(len(leaves))])


def pack_lane(tree: Any) -> Packed:
    """Packs one lane as `pack`: leaves [...], words u32[W]."""
    words, large = pack(jax.tree.map(lambda leaf: leaf[None], tree))
    return Packed(words[:, 0], tuple(leaf[0] for leaf in large))


def unpack_lane(packed: Packed, like: Any) -> Any:
    """Inverts `pack_lane`; `like` has the shapes and dtypes of many lanes, [B, ...]."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), like)
    tree = unpack(Packed(packed.words[:, None], tuple(leaf[None] for leaf in packed.large)), one)
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _groups(leaves: list[Any]) -> list[tuple[int, list[int]]]:
    """Returns (bits of a number, places of the small leaves with such numbers)."""
    small = [i for i, leaf in enumerate(leaves) if _is_small(leaf)]
    widths = sorted({_bits(leaves[i]) for i in small})
    return [(bits, [i for i in small if _bits(leaves[i]) == bits]) for bits in widths]


def _bits(leaf: Any) -> int:
    return 1 if leaf.dtype == bool else 8 * leaf.dtype.itemsize


def _numbers(leaf: Any) -> int:
    """Returns how many numbers of a leaf a lane has."""
    return int(leaf.size // leaf.shape[0])


def _num_words(bits: int, numbers: int) -> int:
    return -(-numbers * bits // WORD)


def _is_small(leaf: Any) -> bool:
    return _bits(leaf) <= WORD and _num_words(_bits(leaf), _numbers(leaf)) <= LARGE


def _rows(bits: int, leaves: list[jax.Array]) -> list[jax.Array]:
    """Returns the words of leaves [B, ...] with numbers of `bits` bits, u32[..., B] each."""
    unsigned = jnp.dtype(f"uint{max(bits, 8)}")
    flat = [leaf.reshape(leaf.shape[0], -1) for leaf in leaves]
    flat = [leaf if bits == 1 else lax.bitcast_convert_type(leaf, unsigned) for leaf in flat]
    if bits == WORD:  # written out: a transposition is a kernel of its own
        return [leaf[:, i][None] for leaf in flat for i in range(leaf.shape[1])]
    numbers = jnp.concatenate([leaf.astype(jnp.uint32) for leaf in flat], axis=1)
    each, words = WORD // bits, _num_words(bits, numbers.shape[1])
    numbers = jnp.pad(numbers, ((0, 0), (0, words * each - numbers.shape[1]))).reshape(-1, words, each)
    return [jnp.sum(numbers << np.arange(0, WORD, bits, dtype=np.uint32), axis=2, dtype=jnp.uint32).T]


def _numbers_of(bits: int, words: jax.Array) -> jax.Array:
    """Returns the numbers of `bits` bits in words u32[W, B], u32[..., B]."""
    if bits == WORD:
        return words
    shifts = np.arange(0, WORD, bits, dtype=np.uint32)[:, None]
    return ((words[:, None] >> shifts) & jnp.uint32((1 << bits) - 1)).reshape(-1, words.shape[1])


def _leaf(numbers: jax.Array, like: Any) -> jax.Array:
    """Returns the leaf with these numbers, u32[B, ...]."""
    if like.dtype == bool:
        return numbers.astype(bool).reshape(like.shape)
    unsigned = jnp.dtype(f"uint{_bits(like)}")
    return lax.bitcast_convert_type(numbers.astype(unsigned), like.dtype).reshape(like.shape)
