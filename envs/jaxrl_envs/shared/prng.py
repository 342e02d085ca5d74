"""A counter-based random generator of a few integer operations, for thousands of lanes per step.

`jax.random`'s threefry costs more than a whole step of a card game. The keys made here are ordinary typed JAX keys
with another implementation, so every `jax.random` function takes them and a game never knows which kind it was given.
Each output word is a two-round bijective mixer (the constants are the public-domain "lowbias32" ones) of a 64-bit key
and a counter: good for games and exploration, not for cryptography.
"""

from __future__ import annotations

import math
from functools import cache

import chex
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import random as jax_random

_GOLDEN = 0x9E3779B9
_FEW = 16  # up to this number, words are computed one by one, see `_joined`


def _mix(x: jax.Array) -> jax.Array:
    """Returns a bijection on u32 whose output bits each depend on every input bit."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _seed(seed: jax.Array) -> jax.Array:
    """i32 or u32[] -> key data u32[2]."""
    seed = jnp.asarray(seed).astype(jnp.uint32)
    return jnp.stack([_mix(seed + jnp.uint32(_GOLDEN)), _mix(seed ^ jnp.uint32(0x85EBCA6B))])


def _counters(shape: tuple[int, ...]) -> jax.Array:
    return jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)


def _words(key: jax.Array, counter: jax.Array, stream: int) -> jax.Array:
    """Random u32 words for `counter`; a `stream` number shifts the counter far away from those of other streams."""
    return _mix(_mix(counter * jnp.uint32(_GOLDEN) + key[0] + jnp.uint32(stream)) ^ key[1])


def _joined(words: list[jax.Array]) -> jax.Array:
    """Words along a new last axis.

    A plain concatenation, because XLA cancels slices of it: a word that is used by itself is then never written
    interleaved with others. `jnp.stack` under vmap adds a transpose that hides this and costs a third of a game step.
    """
    return lax.concatenate([lax.expand_dims(word, (word.ndim,)) for word in words], words[0].ndim)


def _derive(key: jax.Array, counter: jax.Array, stream: int) -> jax.Array:
    """Returns new key data u32[..., 2] for `counter`."""
    return _joined([_words(key, counter, stream), _words(key, counter, stream ^ 0x5BD1E995)])


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    count = math.prod(shape)
    if not 0 < count <= _FEW:
        return _derive(key, _counters(shape), 0x1B873593)
    rows = [lax.expand_dims(_derive(key, jnp.uint32(i), 0x1B873593), (0,)) for i in range(count)]
    return lax.reshape(lax.concatenate(rows, 0), (*shape, 2))


def _fold_in(key: jax.Array, data: jax.Array | int) -> jax.Array:
    return _derive(key, jnp.asarray(data).astype(jnp.uint32), 0x2C1B3C6D)


def _random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    count = math.prod(shape)
    if bit_width == 32 and 0 < count <= _FEW:
        return lax.reshape(_joined([_words(key, jnp.uint32(i), 0) for i in range(count)]), shape)
    if bit_width == 64:
        pair = _words(key, _counters((*shape, 2)), 0).astype(jnp.uint64)
        return (pair[..., 0] << 32) | pair[..., 1]
    words = _words(key, _counters(shape), 0)
    return words if bit_width == 32 else (words >> (32 - bit_width)).astype(f"uint{bit_width}")


@cache
def implementation():
    """Returns the registered PRNG implementation; built on first use, because registering touches jax."""
    return jax_random.define_prng_impl(
        key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="lane_hash", tag="lh"
    )


def fast_key(seed: int | jax.Array) -> jax.Array:
    """Returns a typed key from an integer seed."""
    return jax.random.key(seed, impl=implementation())


def from_key(key: jax.Array) -> jax.Array:
    """Returns a fast key derived from any typed key, e.g. from a training's threefry key for its lanes."""
    chex.assert_rank(key, 0)
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=implementation())
