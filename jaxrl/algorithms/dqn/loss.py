"""The DQN loss: importance-weighted Huber loss with double Q-learning targets over legal actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from jaxrl.networks.base import Network


class Transitions(NamedTuple):
    """A batch of n-step transitions, device or host arrays; every leaf has the leading axis N."""

    observation: Any  # packed
    mask: Any  # bool[N, A]
    action: Any  # i32[N]
    reward: Any  # f32[N], discounted n-step reward
    discount: Any  # f32[N], of the bootstrapped value; 0 if the game has ended
    next_observation: Any  # from which the target bootstraps
    next_mask: Any  # bool[N, A]
    priority: Any  # f32[N], at the time of sampling


class LossParts(NamedTuple):
    """Intermediate results of the loss."""

    error: jax.Array  # f32[N], TD error: target minus value
    q: jax.Array  # f32[N], values of the actions taken


def importance_weights(priority: jax.Array, beta: jax.Array) -> jax.Array:
    """Returns importance weights f32[N]: (N P(i))^-beta, normalised by their maximum in the batch (prioritised
    experience replay, Schaul et al. 2016, https://arxiv.org/abs/1511.05952).

    The normalisation cancels the number and sum of all priorities, so only those sampled (f32[N], above 0) are needed.
    """
    chex.assert_rank(priority, 1)
    return (jnp.min(priority) / priority) ** beta


def new_priority(error: jax.Array, alpha: jax.Array, eps: jax.Array) -> jax.Array:
    """Returns the priorities f32[N] of transitions with these TD errors: (|error| + eps)^alpha."""
    return (jnp.abs(error) + eps) ** alpha


def targets(
    params: Any,
    target_params: Any,
    batch: Transitions,
    network: Network,
    keys: tuple[jax.Array, jax.Array] | None = None,
) -> jax.Array:
    """Returns double Q-learning targets f32[N]: the online network selects the next action, the target network
    evaluates it (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461). `params`, `target_params`: parameters of
    the online and the target network. `keys`: typed keys [N] for noisy layers of both networks; None: no noise."""
    chooser, judge = keys if keys is not None else (None, None)
    evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0, 0 if keys is not None else None))
    _, judged, _ = evaluate(target_params, (), batch.next_observation, batch.next_mask, judge)
    _, chosen, _ = evaluate(params, (), batch.next_observation, batch.next_mask, chooser)
    best = jnp.take_along_axis(judged, jnp.argmax(chosen, axis=-1)[:, None], axis=-1)[:, 0]
    return jax.lax.stop_gradient(batch.reward + batch.discount * best)


def dqn_loss(
    params: Any,
    target_params: Any,
    batch: Transitions,
    weight: jax.Array,
    network: Network,
    keys: jax.Array | None = None,
) -> tuple[jax.Array, LossParts]:
    """Returns the weighted mean Huber loss, whose gradient is the TD error clipped to [-1, 1] (Mnih et al. 2015).

    Args:
      params, target_params, network: arguments as for `targets`.
      weight: f32[N], importance weights.
      keys: typed keys [3, N] for noisy layers; None: no noise.

    Returns:
      The loss f32[] and its parts.
    """
    chex.assert_equal_shape([weight, batch.action, batch.reward, batch.discount])
    chex.assert_equal_shape([batch.mask, batch.next_mask])
    evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0, 0 if keys is not None else None))
    _, values, _ = evaluate(params, (), batch.observation, batch.mask, None if keys is None else keys[0])
    q = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0]
    wanted = targets(params, target_params, batch, network, None if keys is None else (keys[1], keys[2]))
    loss = jnp.mean(weight * optax.losses.huber_loss(q, wanted, delta=1.0))
    return loss, LossParts(error=jax.lax.stop_gradient(wanted - q), q=jax.lax.stop_gradient(q))
