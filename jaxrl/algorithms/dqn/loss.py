"""The loss of deep Q-learning: double targets over legal actions, weighted, with a clipped error."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from jaxrl.networks.base import Network


class Transitions(NamedTuple):
    """Transitions to learn from, arrays of the device or of the host; every leaf has the leading axis N."""

    observation: Any  # packed
    mask: Any  # bool[N, A]
    action: Any  # i32[N]
    reward: Any  # f32[N], discounted sum over the steps of the return
    discount: Any  # f32[N], of the value of what follows; 0 where nothing does
    next_observation: Any  # on which the return stands
    next_mask: Any  # bool[N, A]
    priority: Any  # f32[N], with which it was drawn


class LossParts(NamedTuple):
    """What the loss is made of."""

    error: jax.Array  # f32[N], target minus value
    q: jax.Array  # f32[N], values of the actions taken


def importance_weights(priority: jax.Array, beta: jax.Array) -> jax.Array:
    """f32[N]: (N P(i))^-beta, divided by the largest of the batch (Schaul et al. 2016, https://arxiv.org/abs/1511.05952).

    Number and sum of all priorities cancel out in that division, so only the priorities drawn (f32[N], above 0) count.
    """
    chex.assert_rank(priority, 1)
    return (jnp.min(priority) / priority) ** beta


def new_priority(error: jax.Array, alpha: jax.Array, eps: jax.Array) -> jax.Array:
    """f32[N]: (|error| + eps)^alpha."""
    return (jnp.abs(error) + eps) ** alpha


def targets(
    params: Any,
    target_params: Any,
    batch: Transitions,
    network: Network,
    keys: tuple[jax.Array, jax.Array] | None = None,
) -> jax.Array:
    """f32[N]: what the values of the actions taken should be.

    The learning network chooses the next action, the copy judges it (https://arxiv.org/abs/1509.06461).

    Args:
      params, target_params: of the network that learns, and of its older copy.
      batch: transitions.
      network: a Q network, whose illegal actions never have the largest value.
      keys: typed keys [N] of the noise of either network; None: no noise.
    """
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
    """The weighted mean of the Huber loss, whose gradient is the error clipped to [-1, 1] (Mnih et al. 2015).

    Args:
      params, target_params, network: as for `targets`.
      batch: N transitions.
      weight: f32[N].
      keys: typed keys [3, N] of the noise; None: no noise.

    Returns:
      f32[] and its parts.
    """
    chex.assert_equal_shape([weight, batch.action, batch.reward, batch.discount])
    chex.assert_equal_shape([batch.mask, batch.next_mask])
    evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0, 0 if keys is not None else None))
    _, values, _ = evaluate(params, (), batch.observation, batch.mask, None if keys is None else keys[0])
    q = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0]
    wanted = targets(params, target_params, batch, network, None if keys is None else (keys[1], keys[2]))
    loss = jnp.mean(weight * optax.losses.huber_loss(q, wanted, delta=1.0))
    return loss, LossParts(error=jax.lax.stop_gradient(wanted - q), q=jax.lax.stop_gradient(q))
