"""Masked categorical distributions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.networks import distributions


def random_logits(actions: int = 100, rows: int = 64) -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    mask = jax.random.bernoulli(keys[0], 0.2, (rows, actions))
    mask = mask | (jnp.arange(actions) == jax.random.randint(keys[1], (rows, 1), 0, actions))
    return distributions.mask_logits(3.0 * jax.random.normal(keys[2], (rows, actions)), mask), mask


@pytest.mark.parametrize("actions", [1, 2, 31, 32, 33, 100, 128])
def test_packed_masks_survive(actions: int) -> None:
    mask = jax.random.bernoulli(jax.random.key(actions), 0.5, (3, 5, actions))
    words = distributions.pack_mask(mask)
    assert words.dtype == jnp.uint32 and words.shape == (3, 5, -(-actions // 32))
    np.testing.assert_array_equal(distributions.unpack_mask(words, actions), mask)


def test_log_prob_and_entropy_match_a_softmax() -> None:
    logits, mask = random_logits()
    action = distributions.sample(logits, jax.random.uniform(jax.random.key(1), (64,)))
    probability = np.where(mask, np.asarray(jax.nn.softmax(logits)), 0.0)
    log_prob, entropy = distributions.log_prob_and_entropy(logits, action)
    np.testing.assert_allclose(log_prob, np.log(probability[np.arange(64), action]), rtol=1e-5, atol=1e-6)
    expected = -np.sum(probability * np.log(np.where(probability > 0, probability, 1.0)), axis=-1)
    np.testing.assert_allclose(entropy, expected, rtol=1e-5, atol=1e-6)


def test_nan_from_masked_logits() -> None:
    """SB3 1596, sb3-contrib 81/195/247, sample-factory 305: finite values and gradients, also with one legal action."""

    def objective(raw: jax.Array, mask: jax.Array, action: jax.Array) -> jax.Array:
        log_prob, entropy = distributions.log_prob_and_entropy(distributions.mask_logits(raw, mask), action)
        return jnp.sum(log_prob + entropy)

    raw = jnp.array([[1e4, -1e4, 0.0, 50.0], [0.0, 0.0, 0.0, 0.0]])
    mask = jnp.array([[False, True, False, False], [True, False, True, False]])
    action = jnp.array([1, 2])
    value, gradient = jax.value_and_grad(objective)(raw, mask, action)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))
    assert np.all(np.asarray(gradient)[~np.asarray(mask)] == 0.0)
    log_prob, entropy = distributions.log_prob_and_entropy(distributions.mask_logits(raw, mask), action)
    assert log_prob[0] == 0.0 and entropy[0] == 0.0
    np.testing.assert_allclose(entropy[1], np.log(2.0), rtol=1e-6)


def test_samples_follow_the_probabilities_and_the_mask() -> None:
    logits, mask = random_logits(rows=4)
    count = 40_000
    uniform = jax.random.uniform(jax.random.key(2), (count, 4))
    actions = np.asarray(distributions.sample(jnp.broadcast_to(logits, (count, 4, 100)), uniform))
    for row in range(4):
        frequency = np.bincount(actions[:, row], minlength=100) / count
        assert np.all(frequency[~np.asarray(mask[row])] == 0.0)
        np.testing.assert_allclose(frequency, jax.nn.softmax(logits[row]), atol=0.015)


def test_the_ends_of_the_unit_interval_give_legal_actions() -> None:
    logits, mask = random_logits()
    for uniform in (0.0, np.nextafter(np.float32(1.0), np.float32(0.0)), 1.0):
        action = distributions.sample(logits, jnp.full(64, uniform, jnp.float32))
        assert np.all(np.asarray(mask)[np.arange(64), action])
    assert np.all(np.asarray(mask)[np.arange(64), distributions.greedy(logits)])


@pytest.mark.parametrize("variant", [jax.jit, lambda kernel: kernel], ids=["jit", "plain"])
def test_kernels_are_the_same_compiled_and_reject_other_shapes(variant: Any) -> None:
    logits, mask = random_logits(actions=7, rows=5)
    action = distributions.greedy(logits)
    chosen, entropy = variant(distributions.log_prob_and_entropy)(logits, action)
    policy = np.exp(np.asarray(logits, np.float64)) * np.asarray(mask)
    policy /= policy.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(chosen, np.log(policy.max(axis=-1)), atol=1e-5)
    surprise = np.where(mask, policy * np.log(policy + 1e-300), 0.0)
    np.testing.assert_allclose(entropy, -np.sum(surprise, axis=-1), atol=1e-5)
    np.testing.assert_allclose(variant(distributions.kl_divergence)(logits, logits), 0.0, atol=1e-6)
    with pytest.raises(AssertionError):
        variant(distributions.log_prob)(logits, action[:-1])
    with pytest.raises(AssertionError):
        variant(distributions.sample)(logits, jnp.zeros(1))
