"""Seat-wise GAE against its definition, and hand-made episodes for what went wrong elsewhere."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.gae import Steps, Trajectory, gae, vtrace

# Kernels give the same compiled and one operation at a time.
VARIANTS = pytest.mark.parametrize("variant", [jax.jit, lambda kernel: kernel], ids=["jit", "plain"])


def oracle(trajectory: Trajectory, gamma: float, gae_lambda: float) -> tuple[np.ndarray, np.ndarray]:
    """The definition: for each decision walk forward through the seat's later decisions and add up their errors."""
    advantage = np.zeros(trajectory.steps.acting.shape)
    valid = np.zeros(trajectory.steps.acting.shape, bool)
    for t, b, p in np.argwhere(trajectory.steps.acting):
        advantage[t, b, p], valid[t, b, p] = _walk(trajectory, t, b, p, gamma, gae_lambda)
    return advantage, valid


def _walk(x: Trajectory, start: int, b: int, p: int, gamma: float, gae_lambda: float) -> tuple[float, bool]:
    total, factor, now = 0.0, 1.0, start
    while True:
        earned, continuation, following = _until_next_decision(x, now, b, p)
        if continuation is None:
            return total, now != start
        total += factor * (earned + gamma * continuation - x.steps.value[now, b, p])
        if following is None:
            return total, True
        factor *= gamma * gae_lambda
        now = following


def _until_next_decision(x: Trajectory, t: int, b: int, p: int) -> tuple[float, float | None, int | None]:
    """What the seat earns until it is asked again, what it expects then (None = unknown), and when (None = never)."""
    steps, earned = x.steps, 0.0
    while True:
        earned += steps.rewards[t, b, p]
        if steps.terminated[t, b]:
            return earned, 0.0, None
        if steps.truncated[t, b]:
            return earned, (steps.final_value[t, b, p] if steps.final_acting[t, b, p] else None), None
        if t + 1 == len(steps.rewards):
            return earned, (x.last_value[b, p] if x.last_acting[b, p] else None), None
        if steps.acting[t + 1, b, p]:
            return earned, steps.value[t + 1, b, p], t + 1
        t += 1


def random_trajectory(rng: np.random.Generator, steps: int, games: int, seats: int, simultaneous: bool) -> Trajectory:
    def seat_asked(*shape: int) -> np.ndarray:
        if simultaneous:
            return np.ones((*shape, seats), bool)
        return rng.integers(seats, size=shape)[..., None] == np.arange(seats)

    over = rng.random((steps, games)) < 0.15
    cut = rng.random((steps, games)) < 0.5
    return Trajectory(
        Steps(
            acting=seat_asked(steps, games),
            value=rng.normal(size=(steps, games, seats)).astype(np.float32),
            rewards=rng.normal(size=(steps, games, seats)).astype(np.float32),
            terminated=over & ~cut,
            truncated=over & cut,
            final_acting=seat_asked(steps, games),
            final_value=rng.normal(size=(steps, games, seats)).astype(np.float32),
        ),
        last_acting=seat_asked(games),
        last_value=rng.normal(size=(games, seats)).astype(np.float32),
    )


@VARIANTS
@pytest.mark.parametrize("seats", [1, 2, 4])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_reward_credited_to_the_right_seat_brute_force(variant: Any, seats: int, simultaneous: bool) -> None:
    """open_spiel 1193, ray 14880: random games with ends, cuts and resets against the O(T^2) definition."""
    trajectory = random_trajectory(np.random.default_rng(seats), 24, 40, seats, simultaneous)
    advantage, valid = variant(gae)(jax.tree.map(jnp.asarray, trajectory), 0.97, 0.9)
    expected, expected_known = oracle(trajectory, 0.97, 0.9)
    np.testing.assert_array_equal(valid, expected_known)
    assert 0.3 < valid.sum() / trajectory.steps.acting.sum() <= 1.0
    np.testing.assert_allclose(advantage, expected, atol=2e-5)


def hand_made(**changes: np.ndarray) -> Trajectory:
    """Two seats in turn for four steps, one lane; gamma = lambda = 1 makes advantages plain sums."""
    acting = (np.arange(4)[:, None, None] + np.arange(2)) % 2 == 0
    zeros = np.zeros((4, 1, 2), np.float32)
    never = np.zeros((4, 1), bool)
    fields = {
        "acting": acting,
        "value": zeros,
        "rewards": zeros,
        "terminated": never,
        "truncated": never,
        "final_acting": np.ones((4, 1, 2), bool) & (np.arange(2) == 0),
        "final_value": zeros,
    }
    last_value = np.array([[8.0, 16.0]], np.float32)
    return jax.tree.map(jnp.asarray, Trajectory(Steps(**(fields | changes)), np.array([[True, False]]), last_value))


def test_rewards_between_turns_belong_to_the_decision_before() -> None:
    rewards = np.array([[1, 0], [2, 4], [0, 0], [0, 0]], np.float32)[:, None]
    advantage, valid = gae(hand_made(rewards=rewards), 1.0, 0.0)
    np.testing.assert_array_equal(advantage[:, 0], [[3, 0], [0, 4], [8, 0], [0, 0]])
    # What follows the decision of seat 1 at t = 3 is unknown.
    np.testing.assert_array_equal(valid[:, 0], [[1, 0], [0, 1], [1, 0], [0, 0]])


def test_done_off_by_one_in_gae() -> None:
    """cleanrl 337 and 393, JaxMARL 119: a step that ends the game keeps its reward, the next game adds nothing."""
    rewards = np.array([[0, 0], [1, -1], [5, 7], [0, 0]], np.float32)[:, None]
    terminated = np.array([False, True, False, False])[:, None]
    advantage, valid = gae(hand_made(rewards=rewards, terminated=terminated), 1.0, 1.0)
    np.testing.assert_array_equal(advantage[:, 0], [[1, 0], [0, -1], [13, 0], [0, 0]])
    np.testing.assert_array_equal(valid[:, 0], [[1, 0], [0, 1], [1, 0], [0, 0]])


def test_truncation_treated_as_termination() -> None:
    """Stoix 142, brax 641, gymnax 109: a cut continues with the value of the final observation, for the seat asked."""
    truncated = np.array([False, True, False, False])[:, None]
    final_value = np.full((4, 1, 2), 32.0, np.float32)
    advantage, valid = gae(hand_made(truncated=truncated, final_value=final_value), 1.0, 1.0)
    np.testing.assert_array_equal(advantage[:, 0], [[32, 0], [0, 0], [8, 0], [0, 0]])
    np.testing.assert_array_equal(valid[:, 0], [[1, 0], [0, 0], [1, 0], [0, 0]])


# ---- V-trace --------------------------------------------------------------------------------------------------------


def vtrace_oracle(
    x: Trajectory, ratio: np.ndarray, rho_clip: float, gamma: float, gae_lambda: float
) -> tuple[np.ndarray, np.ndarray]:
    """The definition (Espeholt et al. 2018, equation 1): a sum over the seat's later decisions, each error weighted by
    the product of the cut-off ratios before it. The policy's estimate leaves the first decision unweighted."""
    advantage, value_error = np.zeros(x.steps.acting.shape), np.zeros(x.steps.acting.shape)
    for t, b, p in np.argwhere(x.steps.acting):
        now, trace, first = t, 1.0, True
        while True:
            earned, continuation, following = _until_next_decision(x, now, b, p)
            if continuation is None:
                break
            weight = ratio[now, b, p]
            error = earned + gamma * continuation - x.steps.value[now, b, p]
            value_error[t, b, p] += trace * min(weight, rho_clip) * error
            # The first decision's own weights are left out of the advantage: its error and its trace count fully.
            cut_first = min(ratio[t, b, p], 1.0)
            advantage[t, b, p] += error if first else trace / cut_first * min(weight, rho_clip) * error
            if following is None:
                break
            trace, now, first = trace * gamma * gae_lambda * min(weight, 1.0), following, False
    return advantage, value_error


@VARIANTS
@pytest.mark.parametrize("seats", [1, 3])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_vtrace_brute_force(variant: Any, seats: int, simultaneous: bool) -> None:
    """Random games with ends and cuts, weights above and below both clips, against the O(T^2) definition."""
    rng = np.random.default_rng(seats)
    trajectory = random_trajectory(rng, 20, 30, seats, simultaneous)
    ratio = np.exp(rng.normal(size=trajectory.steps.value.shape)).astype(np.float32)
    got = variant(vtrace)(jax.tree.map(jnp.asarray, trajectory), ratio, 1.5, 0.97, 0.9)
    advantage, value_error = vtrace_oracle(trajectory, ratio, 1.5, 0.97, 0.9)
    valid = oracle(trajectory, 0.97, 0.9)[1]
    np.testing.assert_array_equal(got.valid, valid)
    np.testing.assert_allclose(got.value_error, value_error, atol=3e-5)
    np.testing.assert_allclose(got.advantage, advantage, atol=3e-5)


def test_vtrace_of_an_impossible_decision_stops_there() -> None:
    """A decision that the learning policy would never make changes neither its target nor that of earlier ones."""
    trajectory = random_trajectory(np.random.default_rng(3), 6, 4, 1, simultaneous=True)
    trajectory = trajectory._replace(steps=trajectory.steps._replace(terminated=np.zeros((6, 4), bool)))
    trajectory = trajectory._replace(steps=trajectory.steps._replace(truncated=np.zeros((6, 4), bool)))
    ratio = np.ones((6, 4, 1), np.float32)
    ratio[3] = 0.0
    got = vtrace(jax.tree.map(jnp.asarray, trajectory), ratio, 1.0, 0.9, 0.8)
    np.testing.assert_array_equal(got.value_error[3], 0.0)
    steps = trajectory.steps
    delta = steps.rewards[2] + 0.9 * steps.value[3] - steps.value[2]
    np.testing.assert_allclose(got.value_error[2], delta, atol=1e-5)
