"""Seat-wise generalized advantage estimation for any number of seats.

GAE (Schulman et al. 2016, https://arxiv.org/abs/1506.02438) assumes that one agent
acts in every step. Here a seat acts only in some steps and also receives rewards in the others. Each seat therefore has
its own sequence of decisions: the rewards between one decision and the seat's next are credited to the former, and the
discount is applied once per own decision.

Time indices (two seats; `v` is the value estimate of the acting seat, `r` the rewards of both seats):

    t            0        1        2        3        4 = T
    acts       seat 0   seat 1   seat 0   seat 1   seat 0
    value       v[0]     v[1]     v[2]     v[3]    last_value, of the observation after the last step
    rewards          r[0]     r[1]     r[2]     r[3]
    over             e[0]     e[1]     e[2]     e[3]       e[t]: the game ended by step t; t+1 is a new game

    seat 0:  delta[0] = (r[0] + r[1]) + gamma v[2]       - v[0]
             delta[2] = (r[2] + r[3]) + gamma last_value - v[2]
    seat 1:  delta[1] = (r[1] + r[2]) + gamma v[3]       - v[1]
             t = 3: its successor is unknown, so it is not valid; only its value is used, by t = 1

At a termination the bootstrapped value is 0. At a truncation the seat of the final observation bootstraps from the
value of that observation; the last decisions of the other seats are not valid.

For off-policy rollouts, V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561) weights every decision k of a
seat by its importance ratio w[k] (learning policy over behaviour policy), truncated at rho or 1:

    value_error[k] = min(w[k], rho) delta[k] + gamma lambda min(w[k], 1) value_error[k + 1]
    advantage[k]   =                delta[k] + gamma lambda              value_error[k + 1]

The value target is value + value_error. The advantage does not include the weight of the decision itself, because the
ratio in the PPO loss does. With all w = 1 both equal those of GAE.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Steps(NamedTuple):
    """Inputs of the estimator for each step, one column per seat."""

    acting: jax.Array  # bool[T, B, P], the seat acts in this step
    value: jax.Array  # f32[T, B, P], value estimate; ignored where the seat does not act
    rewards: jax.Array  # f32[T, B, P]
    terminated: jax.Array  # bool[T, B]
    truncated: jax.Array  # bool[T, B]
    final_acting: jax.Array  # bool[T, B, P], the seat of the final observation; read where truncated
    final_value: jax.Array  # f32[T, B, P], value of the final observation; read where truncated


class Trajectory(NamedTuple):
    """The steps of a rollout and the values to bootstrap from at its end."""

    steps: Steps
    last_acting: jax.Array  # bool[B, P], the seat to act after the last step
    last_value: jax.Array  # f32[B, P], its value


class _Carry(NamedTuple):
    """Carry of the backward scan, per seat."""

    next_value: jax.Array  # f32[B, P], value of the seat's next decision, or bootstrapped value at the cut
    next_advantage: jax.Array  # f32[B, P]
    pending: jax.Array  # f32[B, P], rewards from the current step until that decision
    valid: jax.Array  # bool[B, P], whether that decision, a bootstrapped value or the end of the game is known


def gae(trajectory: Trajectory, gamma: jax.Array, gae_lambda: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Computes the advantages of all decisions (GAE).

    Args:
      gamma: f32[], discount per own decision.
      gae_lambda: f32[].

    Returns:
      advantage f32[T, B, P] and valid bool[T, B, P]: True where a seat acts and its successor is known. The
      advantage is 0 elsewhere. ``advantage + value`` is the value target.
    """

    def step(carry: _Carry, now: Steps) -> tuple[_Carry, tuple[jax.Array, jax.Array]]:
        before, corrected = _backward(carry, now, gamma, gae_lambda)
        return before, (corrected.advantage, corrected.valid)

    _, (advantage, valid) = jax.lax.scan(step, _after(trajectory), trajectory.steps, reverse=True)
    return advantage, valid


class Corrected(NamedTuple):
    """Results of V-trace; 0 or False where a seat does not act."""

    advantage: jax.Array  # f32[T, B, P], for the policy
    value_error: jax.Array  # f32[T, B, P]; value + value_error is the value target
    valid: jax.Array  # bool[T, B, P], the seat acts and its successor is known


def vtrace(
    trajectory: Trajectory, ratio: jax.Array, rho_clip: jax.Array | float, gamma: jax.Array, gae_lambda: jax.Array
) -> Corrected:
    """Computes off-policy advantages and value targets of all decisions (V-trace).

    Args:
      ratio: f32[T, B, P], importance ratios, learning over behaviour policy; not read where the seat does not act.
      rho_clip: f32[], truncation of the importance weights; trace coefficients are truncated at 1.
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
    """Returns the carry after the last step."""
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
    """Takes one backward step for all seats; `now` holds arrays [B, P] and [B]. Without weights, all weights are 1."""
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
