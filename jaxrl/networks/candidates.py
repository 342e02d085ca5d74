"""A network for games whose actions are a list of things: every option is scored by what it is, not by its number.

One small network reads every entity, one every option, and one more says of an option in this situation how good it is.
What is learnt about an option in one place of the list so holds in all places, and mixing the options mixes the logits
in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.envs.core import Candidates
from jaxrl.networks.mlp import Heads

CROWD = 5.0  # so many entities of a zone make a sum of ordinary size


class CandidateScorer(nn.Module):
    """Entities are pooled into the context, and `make_heads` gets the context and one vector for each option.

    Attributes:
      num_actions: A.
      vocabulary: numbers of kinds of things.
      dim: width of an entity and of an option; the context is twice as wide.
      layers: dense layers of every part.
      embedding: width of what is learnt about a kind beyond its features; it begins at 0, so that a kind that was never
        met is just its features. 0: nothing is.
      compute_dtype: of everything but the parameters and the heads.
      make_heads: makes the module that ends it.
    """

    num_actions: int
    vocabulary: int
    dim: int = 64
    layers: int = 2
    embedding: int = 16
    compute_dtype: str = "float32"
    make_heads: Callable[..., nn.Module] = Heads

    @nn.compact
    def __call__(self, view: Candidates) -> tuple[jax.Array, jax.Array]:
        """Candidates (leading axes allowed in each field) -> logits f32[..., A], value f32[...]."""
        kinds = None
        if self.embedding and self.vocabulary:
            kinds = nn.Embed(self.vocabulary, self.embedding, embedding_init=nn.initializers.zeros, name="kinds")
        entities = self._dense(_with_kinds(view.entities, view.entity_ids, kinds), self.dim, "entity")
        pooled = _pooled(entities, view.entity_mask, view.zones)
        context = jnp.concatenate([view.context.astype(pooled.dtype), pooled], axis=-1)
        torso = self._dense(context, 2 * self.dim, "context")
        options = self._dense(_with_kinds(view.options, view.option_ids, kinds), self.dim, "option")
        # What an option does depends on the situation: a sum of two products is the product of both side by side.
        dtype = jnp.dtype(self.compute_dtype)
        mixed = nn.Dense(self.dim, dtype=dtype, name="mix_option")(options)
        mixed += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="mix_context")(torso)[..., None, :]
        if view.option_entity is not None:
            about = _rows(entities, view.option_entity)
            mixed += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="mix_entity")(about)
        mixed = nn.relu(nn.LayerNorm(dtype=dtype, name="norm_mix")(mixed))
        mixed = nn.relu(nn.Dense(self.dim, dtype=dtype, name="mix")(mixed))
        return self.make_heads(self.num_actions, name="heads")(torso, mixed)

    def _dense(self, x: jax.Array, width: int, name: str) -> jax.Array:
        """[..., features] -> [..., width]. Normalised, because features are of all sizes: points of life, flags."""
        dtype = jnp.dtype(self.compute_dtype)
        x = x.astype(dtype)
        for index in range(self.layers):
            init = nn.initializers.orthogonal(2.0**0.5)
            x = nn.Dense(width, dtype=dtype, kernel_init=init, name=f"{name}_{index}")(x)
            x = nn.relu(nn.LayerNorm(dtype=dtype, name=f"norm_{name}_{index}")(x))
        return x


def _with_kinds(features: jax.Array, ids: jax.Array, kinds: nn.Embed | None) -> jax.Array:
    """[..., N, features] and ids i32[..., N] -> the features with what is known of the kinds; 0 is nobody."""
    if kinds is None:
        return features
    known = jnp.where((ids > 0)[..., None], kinds(ids), 0.0)
    return jnp.concatenate([features, known.astype(features.dtype)], axis=-1)


def _pooled(entities: jax.Array, mask: jax.Array, zones: jax.Array | None) -> jax.Array:
    """[..., E, D] -> [..., (Z + 1) D]: the sums of each zone (one without zones) and the largest value of each feature.

    Sums, not means: how many there are matters.
    """
    here = mask[..., None] if zones is None else mask[..., None] & (zones > 0.5)  # bool[..., E, Z]
    total = jnp.einsum("...ez,...ed->...zd", here.astype(entities.dtype), entities) / CROWD
    # Activations are 0 or more: 0 is the largest value of no entity.
    largest = jnp.max(jnp.where(mask[..., None], entities, 0.0), axis=-2)
    return jnp.concatenate([total.reshape(*mask.shape[:-1], -1), largest], axis=-1)


def _rows(entities: jax.Array, index: jax.Array) -> jax.Array:
    """[..., E, D], i32[..., A] -> [..., A, D]: the named rows, zeros for -1."""
    rows = jnp.take_along_axis(entities, jnp.maximum(index, 0)[..., None], axis=-2)
    return jnp.where((index >= 0)[..., None], rows, 0.0)
