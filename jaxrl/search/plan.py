"""Plans: the action and the improved policy that a search derives from the results of its simulated games."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxrl.networks import distributions

STEEPEST = 2.0**14  # logits per unit of result, scaled to [0, 1]: in effect the maximum
HALVINGS = 40  # of that interval


class SearchPlan(NamedTuple):
    """The result of a search for one decision."""

    action: jax.Array  # i32[]
    policy: jax.Array  # f32[A], an improved policy: the network's, shifted by the results
    value: jax.Array  # f32[], the expected result of `action`
    results: jax.Array  # f32[A], the mean result of every action, `value` where it was not tried


def improve(
    logits: jax.Array, legal: jax.Array, mean: jax.Array, tried: jax.Array, scale: float
) -> tuple[jax.Array, jax.Array]:
    """Improves the network's policy by the results of the search.

    An action that was not tried gets the mean result of the tried ones under the network's policy.

    Args:
      logits: f32[C, A], of the network.
      legal: bool[C, A].
      mean: f32[C, A], the mean result of every action that was tried.
      tried: bool[C, A].
      scale: the shift of a logit for a result that is 1 above that mean.

    Returns:
      The completed results and the improved policy, f32[C, A] each.
    """
    chex.assert_rank(logits, 2)
    chex.assert_equal_shape((logits, legal, mean, tried))
    share = jax.nn.softmax(distributions.mask_logits(logits, tried), axis=1)
    rest = jnp.sum(jnp.where(tried, share * mean, 0.0), axis=1, keepdims=True)
    results = jnp.where(tried, mean, rest)
    return results, jax.nn.softmax(distributions.mask_logits(logits + scale * (results - rest), legal), axis=1)


def near_policy(
    plan: SearchPlan, logits: jax.Array, legal: jax.Array, results: jax.Array, kl: float, chance: jax.Array
) -> SearchPlan:
    """Replaces the plan's action by one drawn from the best policy within a KL ball around the prior policy.

    Of all distributions with a KL divergence of at most `kl` from the policy pi, pi exp(Q / temperature) has the
    highest expected result; the temperature is found by bisection. Results are noisy, and the opponent model
    expects a player close to the policy: Jacob et al. 2022, https://arxiv.org/abs/2112.07544; Sokota et al. 2023,
    https://arxiv.org/abs/2304.13138.

    Args:
      logits: f32[C, A], of the policy.
      legal: bool[C, A].
      results: f32[C, A], Q.
      kl: nats, above 0.
      chance: f32[C], uniform in [0, 1).
    """
    chex.assert_equal_shape((logits, legal, results))
    prior = jax.nn.log_softmax(distributions.mask_logits(logits, legal))
    least = jnp.min(jnp.where(legal, results, jnp.inf), axis=1, keepdims=True)
    most = jnp.max(jnp.where(legal, results, -jnp.inf), axis=1, keepdims=True)
    quality = jnp.where(legal, (results - most) / jnp.maximum(most - least, 1e-6), 0.0)

    def played(steepness: jax.Array) -> jax.Array:
        return jax.nn.log_softmax(distributions.mask_logits(prior + steepness[:, None] * quality, legal))

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        found = played(middle)
        inside = jnp.sum(jnp.where(legal, jnp.exp(found) * (found - prior), 0.0), axis=1) <= kl
        return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

    ends = jnp.zeros_like(chance), jnp.full_like(chance, STEEPEST)
    found = played(jax.lax.fori_loop(0, HALVINGS, halve, ends)[0])
    action = distributions.sample(found, chance)
    value = jnp.take_along_axis(results, action[:, None], axis=1)[:, 0]
    return plan._replace(action=action, policy=jnp.where(legal, jnp.exp(found), 0.0), value=value, results=results)
