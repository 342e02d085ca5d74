"""Masked categorical policies: packing of masks, sampling, log-probabilities and entropies.

Illegal logits are filled with a finite `MASK_FILL`, never with -inf: -inf turns into NaN in the entropy and in its
gradient (sb3-contrib issues 81, 195, 247). All functions take logits that are already masked, in float32, and work on
any leading axes. A is the number of actions, W = ceil(A / 32) the number of mask words.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.shared import kernels

MASK_FILL = -1e9
_WORD = 32


def mask_logits(logits: jax.Array, mask: jax.Array) -> jax.Array:
    """Masks logits: any float dtype [..., A] and mask bool[..., A] (True = legal) -> f32[..., A]."""
    chex.assert_equal_shape_suffix([logits, mask], 1)
    chex.assert_type([logits, mask], [float, bool])
    return jnp.where(mask, logits.astype(jnp.float32), MASK_FILL)


def temper(logits: jax.Array, temperature: jax.Array | float) -> jax.Array:
    """Returns logits of the distribution proportional to pi^(1 / temperature), f32[..., A]; exactly `logits` at 1.

    Actor and loss both call this, so that the log-ratio before the first optimizer step is exactly 0. Multiplying by
    1 / temperature would not guarantee that: a compiler may fuse it with a following sum in only one of the programs.
    """
    return logits / temperature


def pack_mask(mask: jax.Array) -> jax.Array:
    """Packs masks bool[..., A] into words u32[..., W]; bit i of word w is action 32 w + i."""
    num_actions = mask.shape[-1]
    words = -(-num_actions // _WORD)
    padding = [(0, 0)] * (mask.ndim - 1) + [(0, words * _WORD - num_actions)]
    bits = jnp.pad(mask, padding).reshape(*mask.shape[:-1], words, _WORD).astype(jnp.uint32)
    return kernels.total(bits << np.arange(_WORD, dtype=np.uint32))


def unpack_mask(words: jax.Array, num_actions: int) -> jax.Array:
    """Unpacks words u32[..., W] into masks bool[..., A]; inverse of `pack_mask`."""
    chex.assert_type(words, jnp.uint32)
    chex.assert_axis_dimension(words, -1, -(-num_actions // _WORD))
    bits = (words[..., None] >> np.arange(_WORD, dtype=np.uint32)) & jnp.uint32(1)
    return (bits != 0).reshape(*words.shape[:-1], words.shape[-1] * _WORD)[..., :num_actions]


def log_prob_and_entropy(logits: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Computes log pi(action) and the entropy of pi in one pass over the actions. `logits`: f32[..., A], masked;
    `action`: i32[...]. Returns f32[...], f32[...]; the entropy is 0 if only one action is legal."""
    chex.assert_shape(action, logits.shape[:-1])
    chex.assert_type([logits, action], [float, int])
    shifted = logits - jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    weights = jnp.exp(shifted)  # exactly 0 at illegal actions
    if kernels.on_gpu():  # one reduction; and the gradient of `take_along_axis` is a scatter
        picked = jnp.where(np.arange(logits.shape[-1]) == action[..., None], shifted, 0.0)
        total, weighted, chosen = jnp.sum(jnp.stack([weights, weights * shifted, picked]), axis=-1)
    else:
        total, weighted = jnp.sum(weights, axis=-1), jnp.sum(weights * shifted, axis=-1)
        chosen = jnp.take_along_axis(shifted, action[..., None], axis=-1)[..., 0]
    log_total = jnp.log(total)
    # An illegal action contributes 0 * -1e9 = -0, which is finite and has a finite gradient.
    return chosen - log_total, log_total - weighted / total


def log_prob(logits: jax.Array, action: jax.Array) -> jax.Array:
    """Returns log pi(action), f32[...]; uses the arithmetic of the loss, so that initial log-ratios are exactly 0."""
    return log_prob_and_entropy(logits, action)[0]


def kl_divergence(logits: jax.Array, other: jax.Array) -> jax.Array:
    """The exact KL(pi || other) over legal actions, f32[...], for masked logits f32[..., A] with the same mask."""
    chex.assert_equal_shape([logits, other])
    policy, others = jax.nn.log_softmax(logits), jax.nn.log_softmax(other)
    weights = jnp.exp(policy)  # exactly 0 at illegal actions, where the difference is finite
    return jnp.sum(weights * (policy - others), axis=-1)


def sample(logits: jax.Array, uniform: jax.Array) -> jax.Array:
    """Samples actions by inverting the cumulative distribution: one uniform number each instead of A Gumbel draws.
    `logits`: f32[..., A], masked; `uniform`: f32[...] in [0, 1). Returns i32[...], always a legal action, regardless of
    rounding."""
    chex.assert_shape(uniform, logits.shape[:-1])
    num_actions = logits.shape[-1]
    index = np.arange(num_actions, dtype=np.int32)
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    # A product with a triangle of ones is the cheapest cumulative sum on CPU and GPU for some hundred actions.
    cumulative = jnp.dot(weights, np.tri(num_actions, dtype=np.float32).T, precision=jax.lax.Precision.HIGHEST)
    possible = weights > 0.0
    beyond = possible & (cumulative > uniform[..., None] * cumulative[..., -1:])
    # The first action beyond, or else the last possible one: a single reduction.
    rank = jnp.where(beyond, index, jnp.where(possible, 2 * num_actions - index, 2 * num_actions))
    least = jnp.min(rank, axis=-1)
    return jnp.where(least < num_actions, least, 2 * num_actions - least)


def greedy(logits: jax.Array) -> jax.Array:
    """Returns the most probable action, i32[...]."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)
