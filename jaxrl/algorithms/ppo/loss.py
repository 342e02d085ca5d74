"""The clipped surrogate loss of PPO over weighted decisions (Schulman et al. 2017,
https://arxiv.org/abs/1707.06347)."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import memory_of, remember
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.networks import distributions
from jaxrl.networks.base import Memory, Network
from jaxrl_envs.shared import kernels


class PPOCoefs(NamedTuple):
    """Coefficients of one update: the numbers and schedules of the section `ppo`, f32[] each."""

    learning_rate: jax.Array
    entropy_coef: jax.Array
    magnet_coef: jax.Array
    anchor: jax.Array
    ema: jax.Array
    temperature: jax.Array
    clip: jax.Array
    value_clip: jax.Array  # 0: no clipping
    value_coef: jax.Array
    gamma: jax.Array
    gae_lambda: jax.Array
    max_grad_norm: jax.Array
    target_kl: jax.Array  # 0: no early stop


class RecurrentInputs(NamedTuple):
    """Inputs for re-evaluating N chunks of q steps with a recurrent network. P seats, S decisions per step."""

    memory: Memory  # [N, P, ...], stored state at the start of each chunk
    seat: jax.Array  # i32[N, q, S], acting
    over: jax.Array  # bool[N, q], the step ended the game


class Batch(NamedTuple):
    """A batch of decisions; every leaf has the leading axis N, or the axes [N, q, S] for chunks."""

    observation: Any  # packed
    mask: jax.Array  # u32[N, W]
    action: jax.Array  # i32[N]
    log_prob: jax.Array  # f32[N], under the behaviour policy
    value: jax.Array  # f32[N], estimate at the time of the decision
    advantage: jax.Array  # f32[N]
    target: jax.Array  # f32[N], value target
    weight: jax.Array  # f32[N], 1 = the learner's decision with a valid return, 0 = ignored
    recurrent: RecurrentInputs | None = None  # for chunks
    magnet: jax.Array | None = None  # f32[N, A], masked logits of the magnet, if it is a policy
    anchor: jax.Array | None = None  # f32[N, A], masked logits of the anchor


class LossSums(NamedTuple):
    """Weighted sums over decisions, f32[]; divide by `weight` for means."""

    policy: jax.Array
    value: jax.Array
    entropy: jax.Array
    approx_kl: jax.Array
    clip_fraction: jax.Array
    magnet_kl: jax.Array  # 0 without a magnet
    anchor_kl: jax.Array  # 0 without an anchor
    weight: jax.Array


def ppo_loss(
    params: Any,
    batch: Batch,
    network: Network,
    settings: PPOConfig,
    coefs: PPOCoefs,
    dropout_keys: jax.Array | None = None,
) -> tuple[jax.Array, LossSums]:
    """Returns the *sum* of the loss over a batch; callers divide by the total weight of all portions of a minibatch.

    Args:
      dropout_keys: typed keys [N] (or [N, q, S]); None: no dropout. With dropout the initial ratio is not exactly 1,
        because actors do not use dropout.

    Returns:
      The summed loss f32[] and its parts.
    """
    chex.assert_equal_shape([batch.action, batch.log_prob, batch.value, batch.advantage, batch.target, batch.weight])
    chex.assert_type([batch.action, batch.advantage, batch.target, batch.weight], [int, float, float, float])
    mask = distributions.unpack_mask(batch.mask, network.num_actions)
    if batch.recurrent is None:
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0, 0))
        _, logits, value = evaluate(params, (), batch.observation, mask, dropout_keys)
    else:
        logits, value = _unroll(params, batch, batch.recurrent, mask, network, dropout_keys)
    # Ratio and entropy bonus refer to the tempered distribution that actions are sampled from.
    logits = distributions.temper(logits, coefs.temperature)
    log_prob, entropy = distributions.log_prob_and_entropy(logits, batch.action)
    magnet_kl, anchor_kl = _divergences(logits, mask, batch, settings, coefs)

    # A bot's action may have nearly zero probability under the network; with weight 0, avoid 0 * inf.
    log_ratio = jnp.where(batch.weight > 0.0, log_prob - batch.log_prob, 0.0)
    ratio = jnp.exp(log_ratio)
    ratio_clipped = jnp.clip(ratio, 1.0 - coefs.clip, 1.0 + coefs.clip)
    surrogate = jnp.minimum(ratio * batch.advantage, ratio_clipped * batch.advantage)

    clip_range = jnp.where(coefs.value_clip > 0.0, coefs.value_clip, jnp.inf)
    value_clipped = batch.value + jnp.clip(value - batch.value, -clip_range, clip_range)
    value_error = jnp.maximum(jnp.square(value - batch.target), jnp.square(value_clipped - batch.target))

    parts = LossSums(
        policy=-surrogate,
        value=value_error,
        entropy=entropy,
        # Low-variance estimator, http://joschu.net/blog/kl-approx.html.
        approx_kl=jax.lax.stop_gradient(ratio - 1.0 - log_ratio),
        clip_fraction=(jnp.abs(ratio - 1.0) > coefs.clip).astype(jnp.float32),
        magnet_kl=magnet_kl,
        anchor_kl=anchor_kl,
        weight=jnp.ones_like(batch.weight),
    )
    sums = LossSums(*kernels.sums([batch.weight * part for part in parts]))
    sums = sums._replace(value=0.5 * sums.value)
    return combine(sums, settings, coefs), sums


def _divergences(
    logits: jax.Array, mask: jax.Array, batch: Batch, settings: PPOConfig, coefs: PPOCoefs
) -> tuple[jax.Array, jax.Array]:
    """Returns KL(policy || magnet) and KL(anchor || policy), f32[N], of tempered logits; 0 for those not configured."""
    magnet_kl = anchor_kl = jnp.zeros(logits.shape[:-1])
    if settings.magnet != "none":
        magnet = distributions.mask_logits(jnp.zeros_like(logits), mask) if batch.magnet is None else batch.magnet
        magnet_kl = distributions.kl_divergence(logits, distributions.temper(magnet, coefs.temperature))
    if batch.anchor is not None:
        anchor_kl = distributions.kl_divergence(distributions.temper(batch.anchor, coefs.temperature), logits)
    return magnet_kl, anchor_kl


def combine(sums: LossSums, settings: PPOConfig, coefs: PPOCoefs) -> jax.Array:
    """Returns the loss from its parts (either sums or means)."""
    loss = sums.policy + coefs.value_coef * sums.value - coefs.entropy_coef * sums.entropy
    if settings.magnet != "none":
        loss = loss + coefs.magnet_coef * sums.magnet_kl
    return loss + coefs.anchor * sums.anchor_kl if settings.anchor.on else loss


def _unroll(
    params: Any, batch: Batch, inputs: RecurrentInputs, mask: jax.Array, network: Network, keys: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Returns logits f32[N, q, S, A] and values f32[N, q, S] of chunks, unrolled from their stored recurrent states
    (truncated backpropagation through time)."""

    def chunk(memory: Memory, seat: jax.Array, over: jax.Array, observation: Any, mask: jax.Array, keys: Any) -> Any:
        def step(memory: Memory, now: Any) -> tuple[Memory, tuple[jax.Array, jax.Array]]:
            seat, over, observation, mask, keys = now
            held = memory_of(memory, seat)
            new, logits, value = jax.vmap(network.evaluate, in_axes=(None, 0, 0, 0, 0))(
                params, held, observation, mask, keys
            )
            return remember(memory, seat, new, over), (logits, value)

        return jax.lax.scan(step, memory, (seat, over, observation, mask, keys))[1]

    return jax.vmap(chunk)(inputs.memory, inputs.seat, inputs.over, batch.observation, mask, keys)
