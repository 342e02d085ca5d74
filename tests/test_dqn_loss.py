"""Targets, weights and priorities of DQN against numbers made by hand; dueling and noisy heads."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.dqn.learner import LearnShape, exploring, learn
from jaxrl.algorithms.dqn.loss import Batch, dqn_loss, importance_weights, new_priority, targets
from jaxrl.algorithms.dqn.state import Learner, make_dqn_hyper
from jaxrl.config.schema import Config, DQNConfig, NetworkConfig, Schedule, TrainConfig
from jaxrl.networks import distributions
from jaxrl.networks.factory import Network, kind_of, make_network, network_of
from jaxrl.networks.q_heads import combine
from tests.games import TicTacToe


@functools.cache
def table_network() -> Network:
    """Action values are rows of a table, the observation is the number of the row."""

    def apply(params, row, mask, dropout_key=None):
        q = distributions.mask_logits(params[row], mask)
        return q, jnp.max(q, axis=-1)

    return Network(3, lambda row: row, lambda key: jnp.zeros((4, 3)), apply)


ONLINE = jnp.array([[1.0, 2.0, 9.0], [3.0, 8.0, 5.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
COPY = jnp.array([[7.0, 7.0, 7.0], [6.0, 1.0, 4.0], [2.0, 3.0, 4.0], [9.0, 9.0, 9.0]])


TARGETS = jax.jit(targets, static_argnums=(3, 4))


def batch(**changed) -> Batch:
    """Three transitions: 0 -> 1, 1 -> 2 (action 2 is illegal there), 3 -> the end."""
    fields = {
        "observation": jnp.array([0, 1, 3]),
        "mask": jnp.ones((3, 3), bool),
        "action": jnp.array([1, 0, 2]),
        "reward": jnp.array([0.5, -1.0, 2.0]),
        "discount": jnp.array([0.9, 0.81, 0.0]),
        "next_observation": jnp.array([1, 2, 3]),
        "next_mask": jnp.array([[True, True, True], [True, True, False], [True, True, True]]),
        "priority": jnp.array([1.0, 1.0, 1.0]),
    }
    return Batch(**(fields | changed))


def test_double_targets_are_chosen_by_one_network_and_judged_by_the_other() -> None:
    # Row 1: the learning network prefers action 1, which the copy judges 1; the copy itself prefers its 6.
    double = TARGETS(ONLINE, COPY, batch(), table_network())
    np.testing.assert_allclose(double, [0.5 + 0.9 * 1.0, -1.0 + 0.81 * 2.0, 2.0], rtol=1e-6)


def test_an_illegal_action_is_never_the_next_one() -> None:
    """Action 2 is the best of row 2 for both networks, but not legal there."""
    online = ONLINE.at[2, 2].set(50.0)
    copy = COPY.at[2, 2].set(100.0)
    found = TARGETS(online, copy, batch(), table_network())
    assert float(found[1]) == pytest.approx(-1.0 + 0.81 * 2.0)


def test_the_loss_is_the_weighted_huber_loss_and_its_gradient_stays_with_the_actions_taken() -> None:
    weight = jnp.array([1.0, 0.5, 0.25])
    loss_of = jax.jit(jax.value_and_grad(dqn_loss, has_aux=True), static_argnums=(4, 5))
    (loss, parts), gradient = loss_of(ONLINE, COPY, batch(), weight, table_network(), True)
    errors = np.array([1.4 - 2.0, 0.62 - 3.0, 2.0 - 0.5])  # target minus value
    np.testing.assert_allclose(parts.error, errors, rtol=1e-5)
    huber = [0.5 * 0.6**2, 2.38 - 0.5, 1.5 - 0.5]
    assert float(loss) == pytest.approx(np.dot(weight, huber) / 3, rel=1e-5)
    expected = np.zeros((4, 3))
    expected[0, 1], expected[1, 0], expected[3, 2] = 0.6 / 3, 0.5 / 3, -0.25 / 3  # clipped to 1 and -1
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_importance_weights_by_hand() -> None:
    """P = (0.5, 0.25, 0.25) of 4 transitions: (4 P)^-0.5 = (0.707, 1, 1), whose largest is 1."""
    np.testing.assert_allclose(importance_weights(jnp.array([2.0, 1.0, 1.0]), 0.5), [0.5**0.5, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(importance_weights(jnp.array([8.0, 2.0]), 1.0), [0.25, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(importance_weights(jnp.array([8.0, 2.0]), 0.0), [1.0, 1.0])


def test_priorities_by_hand() -> None:
    found = new_priority(jnp.array([-3.0, 0.0, 1.0]), 0.5, 1.0)
    np.testing.assert_allclose(found, [2.0, 1.0, 2.0**0.5], rtol=1e-6)
    np.testing.assert_array_equal(new_priority(jnp.array([-3.0, 0.0]), 0.0, 1e-3), [1.0, 1.0])


def test_uniform_replay_has_no_weights_and_noise_no_epsilon() -> None:
    uniform = make_dqn_hyper(DQNConfig(alpha=0.0), 10)
    assert float(uniform.alpha) == 0.0 and float(uniform.beta_at(jnp.int32(5))) == 0.0
    assert float(make_dqn_hyper(DQNConfig(exploration="noisy"), 10).epsilon_at(jnp.int32(0))) == 0.0


def test_schedules_begin_and_end_where_they_say() -> None:
    hyper = make_dqn_hyper(DQNConfig(epsilon=Schedule("linear", 1.0, 0.1, until=0.5)), 101)
    betas = [float(hyper.beta_at(jnp.int32(u))) for u in (0, 50, 100)]
    np.testing.assert_allclose(betas, [0.4, 0.7, 1.0], rtol=1e-6)
    epsilons = [float(hyper.epsilon_at(jnp.int32(u))) for u in (0, 25, 50, 100)]
    np.testing.assert_allclose(epsilons, [1.0, 0.55, 0.1, 0.1], rtol=1e-5)


def test_the_copy_is_renewed_every_so_many_steps() -> None:
    hyper = make_dqn_hyper(DQNConfig(learning_rate=Schedule("constant", 0.1)), 10)
    learner = Learner(ONLINE, COPY, optimizer.init(ONLINE), jnp.int32(0))
    step = jax.jit(
        lambda learner: learn(
            table_network(), LearnShape(True, 3), learner, batch(), hyper, jnp.int32(0), jax.random.key(0)
        )
    )
    for number in range(1, 8):
        before = learner
        learner, priority, sums = step(learner)
        wanted = learner.params if number % 3 == 0 else before.target
        np.testing.assert_array_equal(learner.target, wanted)
        assert not np.array_equal(learner.params, before.params) and float(sums.steps) == 1.0
    assert int(learner.steps) == 7 and np.all(np.asarray(priority) > 0)


def test_exploring_draws_legal_actions_evenly() -> None:
    mask = jnp.array([True, False, True, True])
    q = distributions.mask_logits(jnp.array([0.0, 9.0, 2.0, 1.0]), mask)
    uniform = jax.random.uniform(jax.random.key(0), (30_000, 2))
    explore = jax.jit(jax.vmap(exploring, in_axes=(None, None, None, 0)))
    actions = np.asarray(explore(q, mask, jnp.float32(0.3), uniform))
    shares = np.bincount(actions, minlength=4) / len(actions)
    np.testing.assert_allclose(shares, [0.1, 0.0, 0.8, 0.1], atol=0.01)
    np.testing.assert_array_equal(explore(q, mask, jnp.float32(0.0), uniform), 2)


# ---- heads ----


def test_dueling_takes_off_the_mean_of_the_legal_actions() -> None:
    advantage, mask = jnp.array([1.0, 3.0, 100.0]), jnp.array([True, True, False])
    np.testing.assert_allclose(combine(advantage, jnp.float32(5.0), mask)[:2], [4.0, 6.0])
    other = combine(advantage.at[2].set(-7.0), jnp.float32(5.0), mask)
    np.testing.assert_allclose(other[:2], [4.0, 6.0])  # what nothing teaches moves nothing


def test_a_q_network_gives_masked_values_and_the_largest_of_them() -> None:
    env = TicTacToe()
    network = make_network(NetworkConfig(hidden=(16,)), env, DQNConfig())
    params, board, mask = jax.jit(network.init)(jax.random.key(0)), np.ones((9, 2), bool), np.arange(9) != 3
    evaluate = jax.jit(network.evaluate)
    q, value = evaluate(params, board, mask)
    assert q.shape == (9,) and q[3] == distributions.MASK_FILL and value == np.max(q)
    assert "value" in params["heads"]
    with_key = evaluate(params, board, mask, jax.random.key(7))
    np.testing.assert_array_equal(with_key[0], q)


def test_noise_acts_with_a_key_only_and_is_learnt() -> None:
    env = TicTacToe()
    network = make_network(NetworkConfig(hidden=(16,)), env, DQNConfig(exploration="noisy"))
    params, board, mask = jax.jit(network.init)(jax.random.key(0)), np.ones((9, 2), bool), np.ones(9, bool)
    keys = jax.random.split(jax.random.key(2), 1000)

    @jax.jit
    def measure(params):
        both = [network.evaluate(params, board, mask)[0] for _ in range(2)]
        noisy = jax.vmap(network.evaluate, in_axes=(None, None, None, 0))(params, board, mask, keys)[0]
        square = jax.grad(lambda p: jnp.sum(jnp.square(network.evaluate(p, board, mask, keys[0])[0])))
        return both, noisy, square(params)["heads"]

    calm, noisy, gradient = measure(params)
    np.testing.assert_array_equal(*calm)
    assert len(np.unique(noisy[:, 0])) == 1000 and 0.01 < float(np.std(noisy[:, 0])) < 3.0
    for name in ("advantage", "value", "advantage_hidden", "value_hidden"):
        assert np.any(gradient[name]["kernel_size"]) and np.any(gradient[name]["bias_size"])


def test_networks_are_told_apart_by_what_their_parameters_are_for() -> None:
    ppo = Config(network=NetworkConfig(hidden=(8,)))
    dqn = dataclasses.replace(ppo, train=TrainConfig(algorithm="dqn"))
    noisy = dataclasses.replace(dqn, dqn=DQNConfig(exploration="noisy"))
    assert len({kind_of(ppo), kind_of(dqn), kind_of(noisy)}) == 3
    assert kind_of(dqn) == kind_of(dataclasses.replace(dqn, dqn=DQNConfig(capacity=7)))
    assert "policy" in network_of(ppo, TicTacToe()).init(jax.random.key(0))["heads"]
    assert "advantage" in network_of(noisy, TicTacToe()).init(jax.random.key(0))["heads"]
