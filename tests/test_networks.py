"""Networks as plain functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.core import Tokens
from jaxrl import distributions
from jaxrl.config.schema import AttentionConfig, NetworkConfig
from jaxrl.networks.factory import make_network
from tests.games import HighCard


class Cards(HighCard):
    """High card with its observation as card tokens."""

    id = "cards"

    def tokens(self, observation) -> Tokens:
        return Tokens(
            suit=jnp.arange(12, dtype=jnp.int32) // 6,
            rank=jnp.arange(12, dtype=jnp.int32) % 6,
            features=jnp.stack([observation.hand, observation.seen], axis=-1).astype(jnp.float32),
            context=jnp.concatenate([observation.table, observation.won]).astype(jnp.float32),
        )


CONFIGS = [
    NetworkConfig(hidden=(32, 32)),
    NetworkConfig(hidden=(32,), layer_norm=True, activation="tanh"),
    NetworkConfig(hidden=(32,), compute_dtype="bfloat16", activation="gelu"),
    NetworkConfig(kind="card_attention", attention=AttentionConfig(dim=16, heads=2, layers=1)),
    NetworkConfig(kind="card_attention", attention=AttentionConfig(16, 2, 1), compute_dtype="bfloat16"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.kind}-{c.activation}-{c.compute_dtype}")
def test_outputs_are_float32_and_masked(config: NetworkConfig) -> None:
    env = Cards()
    network = make_network(config, env)
    params = network.init(jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(1), 5))
    evaluate = jax.vmap(network.evaluate, in_axes=(None, 0, 0))
    logits, value = evaluate(params, states.observation, states.legal_action_mask)
    assert logits.shape == (5, 12) and value.shape == (5,) and logits.dtype == value.dtype == jnp.float32
    np.testing.assert_array_equal(logits == distributions.MASK_FILL, ~states.legal_action_mask)
    legal = np.asarray(logits)[np.asarray(states.legal_action_mask)]
    assert np.max(np.abs(legal)) < 0.2  # the first policy is nearly uniform
    one = network.evaluate(params, jax.tree.map(lambda x: x[2], states.observation), states.legal_action_mask[2])
    np.testing.assert_allclose(one[0], logits[2], atol=1e-2 if config.compute_dtype == "bfloat16" else 1e-5)


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3]], ids=lambda c: c.kind)
def test_gradients_reach_every_parameter(config: NetworkConfig) -> None:
    env = Cards()
    network = make_network(config, env)
    params = network.init(jax.random.key(0))
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(1), 16))

    def objective(params):
        logits, value = jax.vmap(network.evaluate, in_axes=(None, 0, 0))(
            params, states.observation, states.legal_action_mask
        )
        first = jnp.argmax(states.legal_action_mask, axis=-1)
        return jnp.sum(jnp.square(value - 1.0)) + jnp.sum(distributions.log_prob(logits, first))

    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.grad(objective)(params)):
        assert np.all(np.isfinite(leaf)), path
        assert np.any(leaf != 0) or "key" in jax.tree_util.keystr(path), path  # a key's bias cancels in the softmax


def test_parameters_can_be_stacked() -> None:
    env = Cards()
    network = make_network(CONFIGS[0], env)
    stacked = jax.vmap(network.init)(jax.random.split(jax.random.key(0), 3))
    state = env.init(jax.random.key(1))
    logits, value = jax.vmap(network.evaluate, in_axes=(0, None, None))(
        stacked, state.observation, state.legal_action_mask
    )
    assert logits.shape == (3, 12) and len(np.unique(value)) == 3
