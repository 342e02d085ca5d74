"""The lane generator against what true randomness would give, with stated bounds.

All tests are deterministic. A statistic of true random bits exceeds its bound with a probability below one in 100,000:
5 standard deviations for a single figure, 5.5 for the largest of 1024.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.shared import prng

N = 1 << 16
SINGLE, LARGEST_OF_1024 = 5.0, 5.5


def word(key):
    return jax.random.bits(key)


def raw_keys(first, second):
    """Keys with the given data words: neighbours, not hashed ones."""
    data = jnp.stack([jnp.broadcast_to(first, N), jnp.broadcast_to(second, N)], axis=-1).astype(jnp.uint32)
    return jax.random.wrap_key_data(data, impl=prng.implementation())


def rollout_words(steps, lanes):
    """One word per step and lane, drawn as rollouts draw them."""
    key = prng.from_key(jax.random.key(3))
    return jax.vmap(lambda t: jax.vmap(word)(jax.random.split(jax.random.fold_in(key, t), lanes)))(jnp.arange(steps))


COUNT = np.arange(N, dtype=np.uint32)
SOURCES = {
    "words of one key": lambda: jax.random.bits(prng.fast_key(1), (N,)),
    "across split": lambda: jax.vmap(word)(jax.random.split(prng.fast_key(2), N)),
    "across fold_in": lambda: jax.vmap(lambda t: word(jax.random.fold_in(prng.fast_key(3), t)))(COUNT),
    "across fold_in of high words": lambda: jax.vmap(lambda t: word(jax.random.fold_in(prng.fast_key(3), t)))(
        COUNT << 16
    ),
    "across seeds": lambda: jax.vmap(lambda seed: word(prng.fast_key(seed)))(COUNT),
    "across neighbouring first words": lambda: jax.vmap(word)(raw_keys(COUNT, jnp.uint32(0))),
    "across neighbouring second words": lambda: jax.vmap(word)(raw_keys(jnp.uint32(0), COUNT)),
    "a rollout": lambda: rollout_words(256, N // 256),
    "a chain of splits": lambda: _chain(lambda key: jax.random.split(key)[1]),
    "a chain of fold_ins": lambda: _chain(lambda key: jax.random.fold_in(key, 1)),
}


def _chain(following):
    keys = jax.random.split(prng.fast_key(4), N // 1024)
    return jax.lax.scan(lambda keys, _: (jax.vmap(following)(keys), jax.vmap(word)(keys)), keys, None, 1024)[1]


@pytest.fixture(scope="module", params=SOURCES)
def words(request):
    return np.asarray(jax.jit(SOURCES[request.param])()).reshape(-1)


def test_every_bit_is_balanced(words):
    ones = np.array([((words >> np.uint32(bit)) & 1).sum() for bit in range(32)])
    z = (ones - words.size / 2) / np.sqrt(words.size / 4)
    assert np.abs(z).max() < LARGEST_OF_1024, z


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_are_uniform(words, shift):
    counts = np.bincount((words >> np.uint32(shift)) & 255, minlength=256)
    expected = words.size / 256
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi2 - 255) / np.sqrt(2 * 255) < SINGLE, chi2


def test_pairs_of_successive_words_are_uniform(words):
    """Serial test: 64 x 64 cells by the top six bits of two neighbours."""
    pairs = (words[:-1:2] >> np.uint32(26)).astype(np.int64) * 64 + (words[1::2] >> np.uint32(26))
    expected = pairs.size / 4096
    chi2 = ((np.bincount(pairs, minlength=4096) - expected) ** 2 / expected).sum()
    assert abs(chi2 - 4095) / np.sqrt(2 * 4095) < SINGLE, chi2


def bit_correlation(a, b):
    """The largest |z| of all 32 x 32 pairs of bits."""
    signs = [np.stack([((w >> np.uint32(i)) & 1).astype(np.float32) * 2 - 1 for i in range(32)]) for w in (a, b)]
    return np.abs(signs[0] @ signs[1].T / np.sqrt(a.size)).max()


def test_neighbours_are_independent_bit_by_bit(words):
    assert bit_correlation(words[:-1], words[1:]) < LARGEST_OF_1024


def test_lanes_and_times_are_independent_bit_by_bit():
    grid = np.asarray(jax.jit(lambda: rollout_words(512, 512))())
    assert bit_correlation(grid[:-1].ravel(), grid[1:].ravel()) < LARGEST_OF_1024
    assert bit_correlation(grid[:, :-1].ravel(), grid[:, 1:].ravel()) < LARGEST_OF_1024
    mean_of_lane = (grid / 2.0**32 - 0.5).mean(axis=0) * np.sqrt(12 * 512)
    assert np.abs(mean_of_lane).max() < LARGEST_OF_1024


def test_a_key_its_children_and_its_folds_are_independent_bit_by_bit():
    def family(key):
        children = jax.vmap(word)(jax.random.split(key, 3))
        folds = jax.vmap(lambda t: word(jax.random.fold_in(key, t)))(jnp.arange(3))
        return jnp.concatenate([jax.random.bits(key, (3,)), children, folds])

    members = np.asarray(jax.jit(jax.vmap(family))(jax.random.split(prng.fast_key(5), N)))
    for i in range(9):
        for j in range(i):
            assert bit_correlation(members[:, i], members[:, j]) < LARGEST_OF_1024, (i, j)


def test_one_bit_of_a_key_changes_half_of_the_output_bits():
    """Avalanche: flipping any key bit flips every output bit with probability 1/2."""
    data = np.asarray(jax.random.bits(jax.random.key(0), (1 << 13, 2), jnp.uint32))
    words_of = jax.jit(jax.vmap(lambda d: word(jax.random.wrap_key_data(d, impl=prng.implementation()))))
    before = np.asarray(words_of(data))
    for half in range(2):
        for bit in range(32):
            flipped = data.copy()
            flipped[:, half] ^= np.uint32(1) << np.uint32(bit)
            change = before ^ np.asarray(words_of(flipped))
            share = np.array([((change >> np.uint32(i)) & 1).mean() for i in range(32)])
            assert np.abs(share - 0.5).max() < 0.06, (half, bit)  # 11 standard deviations: a strong but not ideal mixer


def test_keys_of_a_long_training_are_all_different():
    """A thousand steps of a thousand lanes, twice split: four million 64-bit keys."""

    def keys():
        key = prng.fast_key(6)
        at = jax.vmap(lambda t: jax.random.split(jax.random.fold_in(key, t), 1024))(jnp.arange(1024))
        return jax.random.key_data(jax.vmap(jax.vmap(jax.random.split))(at))

    data = np.asarray(jax.jit(keys)()).reshape(-1, 2).astype(np.uint64)
    joined = (data[:, 0] << np.uint64(32)) | data[:, 1]
    assert np.unique(joined).size == joined.size


def test_streams_do_not_meet():
    """Words, splits and folds of one key walk the same orbit from different places, at least 2**20 counters apart."""
    inverse = pow(prng._GOLDEN, -1, 2**32)
    starts = [0, *(s ^ flip for s in (0x1B873593, 0x2C1B3C6D) for flip in (0, 0x5BD1E995))]
    for i, a in enumerate(starts):
        for b in starts[:i]:
            apart = (a - b) * inverse % 2**32
            assert min(apart, 2**32 - apart) > 2**20


def test_keys_are_ordinary_typed_keys():
    key = prng.from_key(jax.random.key(0))
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert jax.random.split(key, 3).shape == (3,)
    assert jax.random.bits(key, (2,), jnp.uint8).dtype == jnp.uint8
    assert (jax.random.key_data(prng.fast_key(5)) != jax.random.key_data(prng.fast_key(6))).any()
    again = jax.random.wrap_key_data(jax.random.key_data(key), impl=prng.implementation())
    assert jax.random.bits(again) == jax.random.bits(key)


def test_few_and_many_words_are_made_alike():
    """Short requests are computed word by word, for speed; the values must not depend on that."""
    key = prng.fast_key(8)
    assert (jax.random.bits(key, (4,)) == jax.random.bits(key, (100,))[:4]).all()
    few, many = (jax.random.key_data(jax.random.split(key, count)) for count in (3, 100))
    assert (few == many[:3]).all()
