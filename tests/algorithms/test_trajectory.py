"""From rollouts to sequences of choices: forced decisions teach nothing and are passed over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.base import Asked, Rollout, Transition
from jaxrl.algorithms.gae import gae
from jaxrl.algorithms.trajectory import Values, of_choices, trajectory_of, values_of
from jaxrl.networks import distributions
from jaxrl_envs.shared import kernels


def rollout_of(rng: np.random.Generator, steps: int, lanes: int, seats: int) -> tuple[Rollout, np.ndarray]:
    """A random rollout of a turn-based game with one to three legal actions of 40, and their numbers [T + 1, B]."""
    legal = rng.integers(1, 4, size=(steps + 1, lanes))
    order = np.argsort(rng.random((steps + 1, lanes, 40)), axis=-1)
    mask = jnp.asarray(order < legal[..., None])[:, :, None]
    seat = jnp.asarray(rng.integers(seats, size=(steps + 1, lanes, 1)), jnp.int32)
    over, cut = rng.random((steps, lanes)) < 0.15, rng.random((steps, lanes)) < 0.5
    fields: dict[str, Any] = {
        name: jnp.asarray(rng.normal(size=(steps, lanes, 1)), jnp.float32) for name in ("log_prob", "value")
    }
    transition = Transition(
        observation=(),
        mask=distributions.pack_mask(mask[:-1]),
        action=jnp.zeros((steps, lanes, 1), jnp.int32),
        seat=seat[:-1],
        weight=jnp.ones((steps, lanes, 1)),
        rewards=jnp.asarray(rng.normal(size=(steps, lanes, seats)), jnp.float32),
        terminated=jnp.asarray(over & ~cut),
        truncated=jnp.asarray(over & cut),
        final_observation=(),
        final_seat=seat[1:],
        final_weight=jnp.ones((steps, lanes, 1)),
        **fields,
    )
    return Rollout(transition, (), Asked((), mask[-1], seat[-1]), (), None), legal


def test_forced_decisions_are_passed_over() -> None:
    """Advantages equal those of the same games in which a forced decision is a step without any decision."""
    rollout, legal = rollout_of(np.random.default_rng(0), 24, 40, 3)
    rng = np.random.default_rng(1)
    last, final = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((40, 1), (24, 40, 1)))
    trajectory = trajectory_of(rollout, Values(rollout.steps.value, final, last))
    chosen = of_choices(trajectory, rollout)
    np.testing.assert_array_equal(chosen.steps.acting, np.asarray(trajectory.steps.acting) & (legal[:-1, :, None] > 1))
    np.testing.assert_array_equal(chosen.last_acting, np.asarray(trajectory.last_acting) & (legal[-1][:, None] > 1))
    advantage, valid = gae(chosen, jnp.float32(0.97), jnp.float32(0.9))
    assert not np.any(np.asarray(valid) & (legal[:-1, :, None] == 1))
    # Whatever stands where there was no choice changes nothing.
    noise = jnp.where(chosen.steps.acting, 0.0, 100.0)
    other = chosen._replace(steps=chosen.steps._replace(value=chosen.steps.value + noise))
    jax.tree.map(np.testing.assert_array_equal, gae(other, jnp.float32(0.97), jnp.float32(0.9)), (advantage, valid))


def test_rewards_after_a_forced_decision_belong_to_the_choice_before() -> None:
    """One seat chooses, is forced twice, and chooses again where the rollout is cut; nothing is discounted between."""
    rollout, _ = rollout_of(np.random.default_rng(2), 3, 1, 1)
    legal = np.array([2, 1, 1, 2])
    mask = jnp.asarray(np.arange(40) < legal[:, None])[:, None, None]
    steps = rollout.steps._replace(
        mask=distributions.pack_mask(mask[:-1]),
        value=jnp.asarray([[[1.0]], [[50.0]], [[70.0]]]),
        rewards=jnp.asarray([[[2.0]], [[3.0]], [[4.0]]]),
        terminated=jnp.zeros((3, 1), bool),
        truncated=jnp.zeros((3, 1), bool),
    )
    rollout = rollout._replace(steps=steps, last=rollout.last._replace(mask=mask[-1]))
    values = Values(steps.value, jnp.zeros((3, 1, 1)), jnp.full((1, 1), 10.0))
    advantage, valid = gae(of_choices(trajectory_of(rollout, values), rollout), jnp.float32(0.5), jnp.float32(0.9))
    np.testing.assert_array_equal(valid[:, 0, 0], [True, False, False])
    np.testing.assert_allclose(advantage[:, 0, 0], [2.0 + 3.0 + 4.0 + 0.5 * 10.0 - 1.0, 0.0, 0.0])


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_truncated_games_are_valued_alike_on_a_gpu(share, monkeypatch) -> None:
    """There rows are gathered, a few lanes at a time, instead of a branch in each step."""

    def evaluate(params, memory, observation, mask):
        return memory, mask, jnp.sum(params * observation)

    rng = np.random.default_rng(3)
    rollout, _ = rollout_of(rng, 6, 4, 2)
    network: Any = SimpleNamespace(evaluate=evaluate, memory=lambda batch: (), remembers=False, num_actions=40)
    seen = jnp.asarray(rng.normal(size=(7, 4, 1, 5)), jnp.float32)
    cut = jnp.asarray(rng.random((6, 4)) < share)
    steps = rollout.steps._replace(observation=seen[:-1], final_observation=seen[1:], truncated=cut)
    policy = SimpleNamespace(params=jnp.arange(5, dtype=jnp.float32))
    rollout = rollout._replace(steps=steps, last=rollout.last._replace(observation=seen[-1]), policy=policy)
    on_cpu = values_of(network, rollout)
    monkeypatch.setattr(kernels, "on_gpu", lambda: True)
    jax.tree.map(np.testing.assert_array_equal, values_of(network, rollout), on_cpu)
    assert np.count_nonzero(on_cpu.final) == np.sum(cut)
