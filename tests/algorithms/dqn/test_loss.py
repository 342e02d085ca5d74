"""Targets, weights and priorities of DQN against numbers made by hand; dueling and noisy heads."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms import optimizer
from jaxrl.algorithms.dqn.algorithm import DQN, exploring
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.dqn.loss import Transitions, dqn_loss, importance_weights, new_priority, targets
from jaxrl.algorithms.dqn.optimise import DQNCoefs, DQNLearner, optimise
from jaxrl.algorithms.dqn.q_heads import combine
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.networks import distributions
from jaxrl.networks.base import Network
from jaxrl.networks.config import NetworkConfig
from jaxrl.training.config import TrainConfig
from jaxrl_envs.shared.section import Schedule
from tests.support.games import TicTacToe
from tests.support.training import compiled_network


@functools.cache
def table_network() -> Network:
    """Action values are rows of a table, the observation is the number of the row."""

    def apply(params, memory, row, mask, key=None):
        q = distributions.mask_logits(params[row], mask)
        return memory, q, jnp.max(q, axis=-1)

    return Network(3, lambda row: row, lambda key: jnp.zeros((4, 3)), apply)


ONLINE = jnp.array([[1.0, 2.0, 9.0], [3.0, 8.0, 5.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
COPY = jnp.array([[7.0, 7.0, 7.0], [6.0, 1.0, 4.0], [2.0, 3.0, 4.0], [9.0, 9.0, 9.0]])


TARGETS = jax.jit(targets, static_argnums=3)


def batch(**changed) -> Transitions:
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
    return Transitions(**(fields | changed))


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
    loss_of = jax.jit(jax.value_and_grad(dqn_loss, has_aux=True), static_argnums=4)
    (loss, parts), gradient = loss_of(ONLINE, COPY, batch(), weight, table_network())
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


def q_learning(**dqn) -> DQN:
    """The algorithm with these keys of `dqn`, for a run of 101 updates."""
    train = TrainConfig(algorithm="dqn", num_envs=8, num_steps=1, total_steps=101 * 8, updates_per_call=1)
    return make_algorithm(Config(network=NetworkConfig(hidden=(8,)), dqn=DQNConfig(**dqn), train=train), TicTacToe())


def coefs_at(update: int, **dqn) -> DQNCoefs:
    """The numbers of an update."""
    return DQNCoefs(**q_learning(**dqn).hyper().at(jnp.int32(update)))


def epsilon_at(update: int, *, ready: bool = True, **dqn) -> float:
    """The share of random actions with which an update's rollout is played."""
    algorithm = q_learning(**dqn)
    learner = DQNLearner(None, algorithm.hyper(), None, None, jnp.int32(0), jnp.bool_(ready), None)
    return float(algorithm.policy(learner, jnp.int32(update)).epsilon)


def test_uniform_replay_has_no_weights_and_noise_no_epsilon() -> None:
    uniform = coefs_at(5, alpha=0.0)
    assert float(uniform.alpha) == 0.0 and float(uniform.beta) == 0.0
    assert epsilon_at(0, exploration="noisy") == 0.0


def test_schedules_begin_and_end_where_they_say() -> None:
    settings = {"epsilon": Schedule("linear", 1.0, 0.1, until=0.5)}
    betas = [float(coefs_at(update, **settings).beta) for update in (0, 50, 100)]
    np.testing.assert_allclose(betas, [0.4, 0.7, 1.0], rtol=1e-6)
    epsilons = [epsilon_at(update, **settings) for update in (0, 25, 50, 100)]
    np.testing.assert_allclose(epsilons, [1.0, 0.55, 0.1, 0.1], rtol=1e-5)
    assert epsilon_at(50, ready=False, **settings) == 1.0  # there is nothing to go by yet


def test_the_target_is_copied_at_its_interval() -> None:
    algorithm = q_learning(learning_rate=Schedule("constant", 0.1), target_every=3)
    hyper = algorithm.hyper()
    learner = DQNLearner(ONLINE, hyper, COPY, optimizer.init(ONLINE), jnp.int32(0), jnp.bool_(True), None)
    settings, coefs = algorithm.config.dqn, DQNCoefs(**hyper.at(jnp.int32(0)))
    step = jax.jit(lambda learner: optimise(table_network(), settings, coefs, learner, batch(), jax.random.key(0)))
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
    network = compiled_network(NetworkConfig(hidden=(16,)), env, DQNConfig())
    params, board, mask = jax.jit(network.init)(jax.random.key(0)), np.ones((9, 2), bool), np.arange(9) != 3
    evaluate = jax.jit(network.evaluate)
    _, q, value = evaluate(params, (), board, mask)
    assert q.shape == (9,) and q[3] == distributions.MASK_FILL and value == np.max(q)
    assert "value" in params["heads"]
    with_key = evaluate(params, (), board, mask, jax.random.key(7))
    np.testing.assert_array_equal(with_key[1], q)


def test_noise_acts_with_a_key_only_and_is_learnt() -> None:
    env = TicTacToe()
    network = compiled_network(NetworkConfig(hidden=(16,)), env, DQNConfig(exploration="noisy"))
    params, board, mask = jax.jit(network.init)(jax.random.key(0)), np.ones((9, 2), bool), np.ones(9, bool)
    keys = jax.random.split(jax.random.key(2), 1000)

    @jax.jit
    def measure(params):
        both = [network.evaluate(params, (), board, mask)[1] for _ in range(2)]
        noisy = jax.vmap(network.evaluate, in_axes=(None, None, None, None, 0))(params, (), board, mask, keys)[1]
        square = jax.grad(lambda p: jnp.sum(jnp.square(network.evaluate(p, (), board, mask, keys[0])[1])))
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
    networks = [make_algorithm(config, TicTacToe()).network for config in (ppo, dqn, noisy)]
    heads = [network.init(jax.random.key(0))["heads"] for network in networks]
    assert heads[0].keys() == {"policy", "value"} and heads[1].keys() > {"advantage", "value"}
    assert "kernel_size" in heads[2]["advantage"] and "kernel_size" not in heads[1]["advantage"]
