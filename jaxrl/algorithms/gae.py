"""Seat-wise generalized advantage estimation for any number of seats.

GAE (Schulman et al. 2016, https://arxiv.org/abs/1506.02438) assumes that every step is the learner's decision. Here a
seat acts now and then, and rewards reach it in between. Each seat gets its own sequence of decisions; whatever it earns
from one decision up to its next one belongs to the former, and the discount is applied once per own decision.

Time indices (two seats; `v` is the value that the acting seat expects, `r` what both seats earn by the step):

    t            0        1        2        3        4 = T
    acts       seat 0   seat 1   seat 0   seat 1   seat 0
    value       v[0]     v[1]     v[2]     v[3]    last_value, of the observation after the last step
    rewards          r[0]     r[1]     r[2]     r[3]
    over             e[0]     e[1]     e[2]     e[3]       e[t]: the game ended by step t; t+1 is a new game

    seat 0:  delta[0] = (r[0] + r[1]) + gamma v[2]       - v[0]
             delta[2] = (r[2] + r[3]) + gamma last_value - v[2]
    seat 1:  delta[1] = (r[1] + r[2]) + gamma v[3]       - v[1]
             t = 3: what follows is unknown, weight 0; only its value is used, by t = 1

If e[t] is a termination, nothing follows. If it is a truncation, the seat asked in the final observation continues with
the value of that observation, and the last decisions of all others are unknown.

Where other parameters played than those that learn, V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561)
weighs every decision k of a seat by the ratio w[k] of its probabilities, learning to playing, cut off at rho or 1:

    value_error[k] = min(w[k], rho) delta[k] + gamma lambda min(w[k], 1) value_error[k + 1]
    advantage[k]   =                delta[k] + gamma lambda              value_error[k + 1]

The value should predict value + value_error. The advantage leaves the decision itself unweighted, because the ratio in
the loss of PPO does that. With all w = 1 both are those of GAE.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Steps(NamedTuple):
    """What the estimator reads of each step, one column per seat."""

    acting: jax.Array  # bool[T, B, P], the seat decided in this step
    value: jax.Array  # f32[T, B, P], its value then; ignored where it did not act
    rewards: jax.Array  # f32[T, B, P]
    terminated: jax.Array  # bool[T, B]
    truncated: jax.Array  # bool[T, B]
    final_acting: jax.Array  # bool[T, B, P], the seat asked in the final observation; read where truncated
    final_value: jax.Array  # f32[T, B, P], its value there; read where truncated


class Trajectory(NamedTuple):
    """The steps of a rollout and where it was cut."""

    steps: Steps
    last_acting: jax.Array  # bool[B, P], the seat asked after the last step
    last_value: jax.Array  # f32[B, P], its value then


class _Carry(NamedTuple):
    """Per seat, what follows the step in hand."""

    next_value: jax.Array  # f32[B, P], value of the seat's next decision, or of where its sequence is cut
    next_advantage: jax.Array  # f32[B, P]
    pending: jax.Array  # f32[B, P], rewards since the step in hand
    valid: jax.Array  # bool[B, P], the seat's next decision, cut or end has been seen


def gae(trajectory: Trajectory, gamma: jax.Array, gae_lambda: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Advantages of all decisions.

    Args:
      trajectory: see `Trajectory`.
      gamma: f32[], discount per own decision.
      gae_lambda: f32[].

    Returns:
      advantage f32[T, B, P] and valid bool[T, B, P]: True where a seat decided and what follows is known. The
      advantage is 0 elsewhere. ``advantage + value`` is the return that the value function should predict.
    """

    def step(carry: _Carry, now: Steps) -> tuple[_Carry, tuple[jax.Array, jax.Array]]:
        before, corrected = _backward(carry, now, gamma, gae_lambda)
        return before, (corrected.advantage, corrected.valid)

    _, (advantage, valid) = jax.lax.scan(step, _after(trajectory), trajectory.steps, reverse=True)
    return advantage, valid


class Corrected(NamedTuple):
    """What V-trace makes of a rollout; 0 or False where a seat did not act."""

    advantage: jax.Array  # f32[T, B, P], for the policy
    value_error: jax.Array  # f32[T, B, P]; value + value_error is what the value function should predict
    valid: jax.Array  # bool[T, B, P], the seat decided and what follows is known


def vtrace(
    trajectory: Trajectory, ratio: jax.Array, rho_clip: jax.Array | float, gamma: jax.Array, gae_lambda: jax.Array
) -> Corrected:
    """Advantages and targets of all decisions under other parameters than those that played.

    Args:
      trajectory: with the values that the learning parameters expect.
      ratio: f32[T, B, P], probability of the decision, learning to playing; not read where the seat did not act.
      rho_clip: f32[], the largest weight of a decision; a trace is cut at 1.
      gamma: f32[], discount per own decision.
      gae_lambda: f32[].
    """
    chex.assert_equal_shape([trajectory.steps.acting, ratio])

    def step(carry: _Carry, now: tuple[Steps, _Weights]) -> tuple[_Carry, Corrected]:
        return _backward(carry, now[0], gamma, gae_lambda, now[1])

    weights = _Weights(jnp.minimum(ratio, rho_clip), jnp.minimum(ratio, 1.0))
    _, corrected = jax.lax.scan(step, _after(trajectory), (trajectory.steps, weights), reverse=True)
    return corrected


class _Weights(NamedTuple):
    """Importance weights of the decisions of one step, f32[B, P]."""

    decision: jax.Array
    trace: jax.Array


def _after(trajectory: Trajectory) -> _Carry:
    """What follows the last step."""
    steps = trajectory.steps
    chex.assert_rank(steps.acting, 3)
    chex.assert_shape([steps.terminated, steps.truncated], steps.acting.shape[:2])
    chex.assert_type([steps.acting, steps.terminated, steps.truncated, trajectory.last_acting], bool)
    chex.assert_type([steps.value, steps.rewards, steps.final_value, trajectory.last_value], float)
    chex.assert_equal_shape([steps.acting, steps.value, steps.rewards, steps.final_acting, steps.final_value])
    chex.assert_equal_shape([trajectory.last_acting, trajectory.last_value, steps.value[0]])
    zeros = jnp.zeros_like(trajectory.last_value)
    return _Carry(
        next_value=jnp.where(trajectory.last_acting, trajectory.last_value, 0.0),
        next_advantage=zeros,
        pending=zeros,
        valid=trajectory.last_acting,
    )


def _backward(
    carry: _Carry, now: Steps, gamma: jax.Array, gae_lambda: jax.Array, weights: _Weights | None = None
) -> tuple[_Carry, Corrected]:
    """One step back in time for all seats; `now` holds arrays [B, P] and [B]. Without weights all of them are 1."""
    terminated, truncated = now.terminated[:, None], now.truncated[:, None]
    over = terminated | truncated
    cut = truncated & ~terminated & now.final_acting
    next_value = jnp.where(over, jnp.where(cut, now.final_value, 0.0), carry.next_value)
    next_advantage = jnp.where(over, 0.0, carry.next_advantage)
    valid = jnp.where(over, terminated | cut, carry.valid)
    pending = now.rewards + jnp.where(over, 0.0, carry.pending)

    delta = pending + gamma * next_value - now.value
    estimate = jnp.where(valid, delta + gamma * gae_lambda * next_advantage, 0.0)
    value_error = estimate
    if weights is not None:
        weighted = weights.decision * delta + gamma * gae_lambda * weights.trace * next_advantage
        value_error = jnp.where(valid & now.acting, weighted, 0.0)
    before = _Carry(
        next_value=jnp.where(now.acting, now.value, next_value),
        next_advantage=jnp.where(now.acting, value_error, next_advantage),
        pending=jnp.where(now.acting, 0.0, pending),
        valid=valid | now.acting,
    )
    shown = jnp.where(now.acting, estimate, 0.0)
    return before, Corrected(shown, shown if weights is None else value_error, now.acting & valid)
