"""Schedules, counters, optimizer, minibatches and the update as a whole."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.ppo import update
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import Batch, PPOCoefs, ppo_loss
from jaxrl.algorithms.schedule import KINDS, make_hyper, make_schedule, value_at
from jaxrl.networks import distributions
from jaxrl.networks.config import NetworkConfig, TransformerConfig
from jaxrl.networks.factory import make_network
from jaxrl.training.state import Counter
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.section import Schedule
from tests.networks.test_networks import Cards
from tests.support.games import HighCard, TicTacToe
from tests.support.training import (
    assert_close,
    assert_identical,
    in_mesh,
    program,
    run,
    small_config,
    train,
    with_hyper,
)


def test_schedules() -> None:
    progress = jnp.array([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])
    value = {kind: value_at(make_schedule(kind, 4.0, 2.0), progress) for kind in KINDS}
    np.testing.assert_allclose(value["constant"], 4.0)
    np.testing.assert_allclose(value["linear"], [4, 4, 3.5, 3, 2, 2])
    np.testing.assert_allclose(value["cosine"], [4, 4, 4 - 2 * (1 - np.cos(np.pi / 4)) / 2, 3, 2, 2], rtol=1e-6)


TINY_TRANSFORMER = TransformerConfig(dim=8, heads=2, layers=1, dropout=0.3)

# One program for several tests: what differs between them is traced.
ONE_UPDATE = small_config(updates=1, calls=4)


def initial_state(**hyper):
    """The program of `ONE_UPDATE` and its first state with other hyper-parameters."""
    anakin = program(TicTacToe(), ONE_UPDATE)
    return anakin, with_hyper(anakin.init(0), **hyper)


def test_schedules_reach_their_ends_with_the_last_update() -> None:
    schedule = make_schedule("linear", 1e-3, 1e-4)
    anakin, state = initial_state(learning_rate=schedule, total_updates=3)
    rates = []
    for _ in range(3):
        state, metrics = run(anakin, state)
        rates.append(float(metrics["train/learning_rate"]))
    np.testing.assert_allclose(rates, [1e-3, 5.5e-4, 1e-4], rtol=1e-5)


def test_step_counter_overflow() -> None:
    """brax 578, mujoco_playground 48: exact beyond 2^31 and 2^32."""
    counter, amount = Counter.zero(), 2**31 - 5
    for times in range(1, 7):
        counter = jax.jit(Counter.add)(counter, jnp.uint32(amount))
        assert int(counter) == times * amount
    assert int(counter.add(2**32 - 1)) == 6 * amount + 2**32 - 1


def test_gradient_norm_is_clipped_and_reported() -> None:
    gradient = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    norms = optimizer.gradient_norms(gradient, jnp.float32(0.5))
    assert norms.raw == 5.0 and norms.clipped == 0.5
    norms = optimizer.gradient_norms(gradient, jnp.float32(10.0))
    assert norms.raw == norms.clipped == 5.0
    # Adam's first moments show what the clip has left of a gradient.
    for limit, wanted in ((0.5, 0.4), (10.0, 4.0)):
        rule = optimizer.make_optimizer("adam", 0.0, jnp.float32(limit))
        _, state = optimizer.apply(rule, gradient, rule.init(gradient), gradient)
        np.testing.assert_allclose(optax.tree.get(state, "mu")["b"], [[0.1 * wanted]], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1024, 5000])
def test_permutations(size: int) -> None:
    permutation = jax.jit(update.permutation, static_argnums=1)
    first, second = (np.asarray(permutation(jax.random.key(key), size)) for key in (0, 1))
    np.testing.assert_array_equal(np.sort(first), np.arange(size))
    assert size < 100 or np.mean(first == second) < 0.1


def test_every_decision_is_used_once_per_epoch_and_groups_contribute_equally() -> None:
    steps, lanes = 8, 6
    shape = update.Shuffle(epochs=3, portions=4 * 2, groups=2, chunks=steps, lanes=lanes)
    shuffled = jax.jit(lambda key: update.shuffled_indices(jax.random.split(key, 2), shape))
    indices = np.asarray(shuffled(jax.random.key(0))).reshape(3 * 4, 2, -1)
    assert indices.shape == (12, 2, 6)
    for epoch in indices.reshape(3, -1):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(steps * lanes))
    assert np.all(np.sum(indices % lanes < 3, axis=-1) == 3)
    assert not np.array_equal(indices[:4], indices[4:8])


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_epoch_holds_every_weighted_decision_once_in_equally_full_minibatches(accumulate: int) -> None:
    shape = update.Shuffle(epochs=3, portions=8 * accumulate, groups=2, chunks=16, lanes=16)
    settings = PPOConfig(epochs=3, minibatches=8, accumulate=accumulate)
    weight = (jax.random.uniform(jax.random.key(0), (16, 16)) < 0.2).astype(jnp.float32)
    keys = jax.random.split(jax.random.key(1), 2)

    def order() -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        found = update.minibatches_of(keys, shape, settings, weight, 1)
        return found.length, jax.vmap(found.at)(jnp.arange(24))

    count, (epochs, index) = in_mesh(order)()
    own = np.flatnonzero(np.asarray(weight).ravel())
    each = int(count) // 3
    assert each == int(np.ceil(max(np.asarray(weight)[:, :8].sum(), np.asarray(weight)[:, 8:].sum()) / 16))
    rows = np.asarray(index)[: int(count)].reshape(3, each, -1)
    for epoch in range(3):
        taken = [row[np.isin(row, own)] for row in rows[epoch]]
        np.testing.assert_array_equal(np.sort(np.concatenate(taken)), own)
        assert max(map(len, taken)) - min(map(len, taken)) <= 2  # one of each group
    assert not np.array_equal(rows[0], rows[1]) and list(epochs[: int(count)]) == [0] * each + [1] * each + [2] * each


def test_normalisation_reads_weights() -> None:
    advantage = jnp.array([[1.0, 2.0, 3.0, 1e6]])
    weight = jnp.array([[1.0, 1.0, 1.0, 0.0]])
    normal = in_mesh(update.normalize)(advantage, weight)[0, :3]
    np.testing.assert_allclose(normal, np.array([-1.0, 0.0, 1.0]) / np.sqrt(2 / 3), rtol=1e-5)


def test_accumulation_changes_nothing() -> None:
    _, whole, _ = train(TicTacToe(), small_config(), 1)
    _, portions, _ = train(TicTacToe(), small_config(accumulate=4), 1)
    assert_close(whole.learner.params, portions.learner.params, 1e-5)


def test_target_kl_declared_never_read() -> None:
    """cleanrl's JAX variants: the stop stops, and what is skipped changes nothing."""

    def learnt(target_kl: float):
        rate = make_schedule("constant", 0.03, 0.0)
        state, metrics = run(*initial_state(learning_rate=rate, target_kl=target_kl))
        return state.learner, metrics

    free, without = learnt(0.0)
    stopped, metrics = learnt(0.002)
    assert without["train/epochs_done"] == 2.0 and int(optax.tree.get(free.opt_state, "count")) == 4
    assert 0.0 < metrics["train/epochs_done"] < 2.0
    assert metrics["train/approx_kl"] < without["train/approx_kl"]
    # The minibatch that finds out is not learnt from.
    assert int(optax.tree.get(stopped.opt_state, "count")) == round(metrics["train/epochs_done"] * 2) - 1
    assert_identical(learnt(1e6)[0].params, free.params)


def test_replayed_log_ratio_is_zero_before_the_first_update() -> None:
    """The update sees the same mask, observation and parameters as the rollout did."""
    _, _, metrics = train(HighCard(), small_config(updates=1, epochs=1, minibatches=1), 1)
    assert abs(metrics["train/approx_kl"]) < 1e-6 and metrics["train/clip_fraction"] == 0.0


def now(settings: PPOConfig) -> tuple[PPOConfig, PPOCoefs]:
    """The settings and the numbers of the first update."""
    return settings, PPOCoefs(**make_hyper(settings, 10).at(jnp.int32(0)))


def gradient_function(network):
    """(parameters, batch) -> gradient of the loss and its sums."""
    at = now(PPOConfig(clip=0.2, value_clip=0.2, value_coef=0.5, entropy_coef=Schedule("constant", 0.01)))
    return jax.jit(jax.grad(lambda params, batch: ppo_loss(params, batch, network, *at), has_aux=True))


def test_only_weighted_decisions_move_the_parameters() -> None:
    """Bots' decisions and unknown returns have weight 0; changing what is stored with them changes nothing."""
    network = make_network(NetworkConfig(hidden=(16,)), TicTacToe())
    params = network.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    batch = Batch(
        observation=jnp.asarray(rng.random((10, 9, 2)) < 0.5),
        mask=jnp.full((10, 1), 0x1FF, jnp.uint32),
        action=jnp.asarray(rng.integers(9, size=10), jnp.int32),
        log_prob=jnp.full(10, -2.0),
        value=jnp.zeros(10),
        advantage=jnp.asarray(rng.normal(size=10), jnp.float32),
        target=jnp.asarray(rng.normal(size=10), jnp.float32),
        weight=jnp.asarray([1.0, 0.0] * 5),
    )
    noise = jnp.where(batch.weight > 0, 0.0, 100.0)
    other = batch._replace(advantage=batch.advantage + noise, target=batch.target - noise)
    gradient_of = gradient_function(network)
    gradient, sums = gradient_of(params, batch)
    assert_identical(gradient_of(params, other)[0], gradient)
    assert sums.weight == 5.0
    assert any(np.any(leaf) for leaf in jax.tree.leaves(gradient))


def test_dropout_keys_belong_to_decisions() -> None:
    """One key per decision and epoch, whatever device its group is on."""
    group_keys = jax.random.split(prng.fast_key(0), 2)
    both = update.Shuffle(epochs=3, portions=4, groups=2, chunks=8, lanes=6)
    rows = jnp.arange(8 * 6)  # 8 steps of 6 lanes: lanes 0-2 are the first group, 3-5 the second
    batch = types.SimpleNamespace(recurrent=None)
    keys_of = jax.jit(
        lambda keys, shape, epoch, rows: update.dropout_keys(keys, shape, 1, batch, epoch, rows), static_argnums=1
    )
    keys = {e: jax.random.key_data(keys_of(group_keys, both, e, rows)) for e in range(3)}
    assert len(np.unique(np.concatenate(list(keys.values())), axis=0)) == 3 * 48
    one = both._replace(groups=1, lanes=3)
    alone = keys_of(group_keys[1:], one, 2, jnp.arange(8 * 3))
    np.testing.assert_array_equal(jax.random.key_data(alone), keys[2].reshape(8, 6, 2)[:, 3:].reshape(-1, 2))


@pytest.mark.thorough
def test_an_update_with_dropout() -> None:
    """Decisions made without dropout, learnt from with it; the same keys give the same parameters."""
    env, at = Cards(), now(PPOConfig(epochs=1, minibatches=2, accumulate=2))
    network = make_network(NetworkConfig(kind="transformer", transformer=TINY_TRANSFORMER), env)

    @in_mesh
    def learn(seed: int):
        params = network.init(jax.random.key(0))
        states = jax.vmap(env.init)(jax.random.split(prng.fast_key(1), 16))
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))
        _, logits, value = evaluate(params, (), states.observation, states.legal_action_mask)
        action = distributions.greedy(logits)
        rows = Batch(
            observation=states.observation,
            mask=jax.vmap(distributions.pack_mask)(states.legal_action_mask),
            action=action,
            log_prob=distributions.log_prob(logits, action),
            value=value,
            advantage=jnp.linspace(-1.0, 1.0, 16),
            target=value + 1.0,
            weight=jnp.ones(16),
        )
        batch = jax.tree.map(lambda leaf: leaf.reshape(4, 4, *leaf.shape[1:]), rows)
        keys = jax.random.split(prng.fast_key(seed), 2)
        return update.update(network, *at, params, optimizer.init(params), batch, keys)

    (first, _, sums), (other, _, _) = learn(0), learn(1)
    assert sums.steps == 2 and sums.parts.approx_kl > 0.0 and np.isfinite(sums.loss)
    assert_identical(learn(0)[0], first)
    assert any(np.any(a != b) for a, b in zip(*map(jax.tree.leaves, (first, other)), strict=True))


def test_a_bots_all_but_impossible_action_does_not_poison_the_loss() -> None:
    """Weight 0 times an infinite ratio would be NaN."""
    env = TicTacToe()
    network = make_network(NetworkConfig(hidden=(8,)), env)
    params = network.init(jax.random.key(0))
    observation = jax.tree.map(lambda spec: jnp.zeros((2, *spec.shape), spec.dtype), env.observation_spec)
    one, two = jnp.ones(2), jnp.array([0.0, 1.0])
    batch = Batch(
        observation=observation,
        mask=jnp.full((2, 1), 0x1FF, jnp.uint32),
        action=jnp.array([0, 1]),
        log_prob=jnp.array([-200.0, -2.0]),
        value=one,
        advantage=one,
        target=one,
        weight=two,
    )
    gradient, sums = gradient_function(network)(params, batch)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradient, sums)))


def test_a_step_that_is_not_a_number_is_not_taken() -> None:
    anakin, state = initial_state(gamma=jnp.nan)
    before = jax.device_get(state.learner.params)
    state, metrics = run(anakin, state)
    assert not np.isfinite(metrics["train/loss"])
    assert_identical(before, state.learner.params)
