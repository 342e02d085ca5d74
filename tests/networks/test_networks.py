"""Networks as plain functions."""

from __future__ import annotations

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.networks import distributions
from jaxrl.networks.base import NetworkModule
from jaxrl.networks.config import NetworkConfig, TransformerConfig
from jaxrl.networks.factory import make_network
from jaxrl.networks.mlp import Products
from jaxrl.training.make import make_program
from jaxrl_envs.contract.env import Tokens
from jaxrl_envs.shared import kernels, prng
from jaxrl_envs.shared.errors import UserError
from tests.support.games import HighCard, TicTacToe
from tests.support.training import assert_close, compiled_network, small_config


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


TINY = TransformerConfig(dim=16, heads=2, layers=1)
FULL = TransformerConfig(dim=16, heads=4, layers=2, embedding=6, feed_forward=20, dropout=0.5)
CONFIGS = [
    NetworkConfig(hidden=(32, 32)),
    NetworkConfig(hidden=(32,), activation="tanh"),
    NetworkConfig(hidden=(32,), compute_dtype="bfloat16", activation="gelu"),
    NetworkConfig(kind="transformer", transformer=TINY),
    NetworkConfig(kind="transformer", transformer=FULL, compute_dtype="bfloat16"),
    NetworkConfig(kind="transformer", transformer=FULL),
]


@pytest.mark.parametrize(("hidden", "dtype"), [((32,), "float32"), ((32, 24), "float32"), ((32, 32), "bfloat16")])
def test_an_mlp_for_a_gpu_gives_the_same_answers_and_gradients(hidden, dtype, monkeypatch) -> None:
    network = make_network(NetworkConfig(hidden=hidden, compute_dtype=dtype), Cards())
    params = jax.tree.map(lambda leaf: leaf + 0.01, network.init(jax.random.key(0)))  # biases begin at 0
    observation, mask = example(8)

    def loss(params):
        _, logits, value = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))(params, (), observation, mask)
        return jnp.sum(jnp.sin(distributions.log_prob(logits, jnp.argmax(mask, axis=1)) + value)), (logits, value)

    plain = jax.grad(loss, has_aux=True)(params)
    monkeypatch.setattr(kernels, "on_gpu", lambda: True)
    assert isinstance(network.prepare(params), Products)
    assert_close(jax.grad(loss, has_aux=True)(params), plain, 1e-5 if dtype == "float32" else 0.05)
    assert_close(loss(network.prepare(params))[1], plain[1], 1e-5 if dtype == "float32" else 0.05)


def example(batch: int) -> tuple[jax.Array, jax.Array]:
    """Observations and masks of `batch` fresh games."""
    states = jax.jit(jax.vmap(Cards().init))(jax.random.split(jax.random.key(1), batch))
    return states.observation, states.legal_action_mask


@pytest.mark.thorough
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.kind}-{c.activation}-{c.compute_dtype}")
def test_outputs_are_float32_and_masked(config: NetworkConfig) -> None:
    env = Cards()
    network = compiled_network(config, env)
    params = network.init(jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(1), 5))
    evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))
    memory, logits, value = evaluate(params, (), states.observation, states.legal_action_mask)
    assert memory == () and not network.remembers
    assert logits.shape == (5, 12) and value.shape == (5,) and logits.dtype == value.dtype == jnp.float32
    np.testing.assert_array_equal(logits == distributions.MASK_FILL, ~states.legal_action_mask)
    legal = np.asarray(logits)[np.asarray(states.legal_action_mask)]
    assert np.max(np.abs(legal)) < 0.2  # the first policy is nearly uniform
    one = network.evaluate(params, (), jax.tree.map(lambda x: x[2], states.observation), states.legal_action_mask[2])
    np.testing.assert_allclose(one[1], logits[2], atol=1e-2 if config.compute_dtype == "bfloat16" else 1e-5)


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[5]], ids=lambda c: c.kind)
def test_gradients_reach_every_parameter(config: NetworkConfig) -> None:
    network = compiled_network(config, Cards())
    params = network.init(jax.random.key(0))
    observation, mask = example(16)
    keys = jax.random.split(prng.fast_key(2), 16)

    def objective(params):
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0, 0))
        _, logits, value = evaluate(params, (), observation, mask, keys)
        first = jnp.argmax(mask, axis=-1)
        return jnp.sum(jnp.square(value - 1.0)) + jnp.sum(distributions.log_prob(logits, first))

    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.jit(jax.grad(objective))(params)):
        assert np.all(np.isfinite(leaf)), path
        assert np.any(leaf != 0) or "key" in jax.tree_util.keystr(path), path  # a key's bias cancels in the softmax


def test_the_order_of_the_cards_does_not_matter() -> None:
    """A card's place is told by its flags: tokens are a set."""
    env = Cards()
    network = compiled_network(CONFIGS[5], env)
    params = network.init(jax.random.key(0))
    observation, mask = jax.tree.map(lambda leaf: leaf[0], example(1))
    tokens, order = env.tokens(observation), jax.random.permutation(jax.random.key(3), 12)
    mixed = tokens._replace(suit=tokens.suit[order], rank=tokens.rank[order], features=tokens.features[order])
    _, logits, value = network.apply(params, (), tokens, mask)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask)[1], logits, atol=1e-5)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask)[2], value, atol=1e-5)
    other = tokens._replace(rank=tokens.rank[order])  # other cards in the same places are told apart
    assert abs(network.apply(params, (), other, mask)[2] - value) > 1e-3


def test_dropout_acts_only_with_a_key() -> None:
    network = compiled_network(CONFIGS[5], Cards())
    params = network.init(jax.random.key(0))
    observation, mask = example(1)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], observation), mask[0]
    calm = network.evaluate(params, (), observation, mask)
    np.testing.assert_array_equal(network.evaluate(params, (), observation, mask)[1], calm[1])
    keys = jax.random.split(prng.fast_key(5), 64)
    dropping = jax.vmap(network.evaluate, in_axes=(None, None, None, None, 0))
    dropped, again = (dropping(params, (), observation, mask, keys) for _ in range(2))
    assert len(np.unique(dropped[2])) == 64 and np.all(np.isfinite(dropped[2]))
    np.testing.assert_array_equal(again[1], dropped[1])


def test_a_rate_of_zero_reads_no_key() -> None:
    network = make_network(CONFIGS[3], Cards())
    assert network.dropout == 0.0
    params = network.init(jax.random.key(0))
    observation, mask = example(1)
    question = jax.tree.map(lambda leaf: leaf[0], (observation, mask))
    program = jax.make_jaxpr(network.evaluate)(params, (), *question)
    with_key = jax.make_jaxpr(lambda *inputs: network.evaluate(*inputs, jax.random.key(0)))(params, (), *question)
    assert "random" not in str(program) and len(with_key.eqns) <= len(program.eqns) + 2  # the key itself


# ---- of one's own ---------------------------------------------------------------------------------------------------


class Counting(NetworkModule):
    """Remembers how often it was asked."""

    def memory(self, batch):
        return jnp.zeros((*batch, 1))

    @nn.compact
    def __call__(self, memory, encoded):
        return memory + 1, self.heads(jnp.concatenate([encoded, memory]))


class Narrow(NetworkModule):
    """Has a logit too few, and forgets to remember."""

    @nn.compact
    def __call__(self, memory, encoded):
        logits, value = self.heads(encoded)
        return (), (logits[1:], value)


class Silent(NetworkModule):
    """Says nothing."""


@pytest.mark.thorough
def test_a_network_of_ones_own_with_a_memory_learns_by_chunks():
    config = small_config(sequence=4, num_envs=16, num_steps=8)
    config = dataclasses.replace(config, network=NetworkConfig(kind="tests.networks.test_networks:Counting"))
    program = make_program(config, HighCard())
    network = program.algorithm.network
    assert network.remembers and program.algorithm.sequence == 4
    state, _, updates = program.advance(program.init(0))
    assert updates == 2
    observation, mask = jax.tree.map(lambda leaf: leaf[0], example(1))
    memory = network.memory(())
    for asked in range(3):
        assert memory == asked
        memory, logits, value = network.evaluate(state.learner.params, memory, observation, mask)
    assert logits.shape == mask.shape and value.shape == () and np.isfinite(value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"network": {"kind": "tests.networks.test_networks:Narrow"}},
            r"Narrow' gives .*float32\[\d+\].* where \(memory, ",
        ),
        (
            {"network": {"kind": "tests.networks.test_networks:Silent"}},
            "Silent' lacks __call__: define them in the class, .*py, l",
        ),
        ({"network": {"kind": "tests.networks.test_networks:Missing"}}, "test_networks has no 'Missing'"),
        (
            {"network": {"kind": "tests.networks.test_networks:Counting"}},
            "train.num_steps .* divisible by ppo.sequence",
        ),
        (
            {"network": {"kind": "tests.networks.test_networks:Counting"}, "train": {"algorithm": "dqn"}},
            "Counting remembers, which DQN does not",
        ),
    ],
)
def test_what_is_wrong_with_a_network_of_ones_own_is_one_sentence(settings, sentence):
    train = {"num_envs": 16, "num_steps": 6, "total_steps": 960, "updates_per_call": 1} | settings.get("train", {})
    config = configs.from_dict(settings | {"train": train, "ppo": {"minibatches": 2, "sequence": 4}})
    with pytest.raises(UserError, match=sentence):
        make_algorithm(config, HighCard())


def test_seeds_side_by_side_begin_one_after_the_other():
    # LAPACK's batched QR takes threads of the pool in which it runs: on two cores it would wait for itself for ever.
    env = TicTacToe()
    network = make_network(NetworkConfig(), env)
    init = jax.jit(jax.vmap(lambda seed: network.init(jax.random.key(seed))))
    seeds = np.arange(3, dtype=np.uint32)
    calls = [line for line in init.lower(seeds).as_text().splitlines() if "geqrf" in line and "custom_call" in line]
    assert calls and not any("tensor<3x" in line for line in calls)
    found, alone = init(seeds), network.init(jax.random.key(2))
    assert jax.tree.all(jax.tree.map(lambda each, one: bool(np.array_equal(each[2], one)), found, alone))
