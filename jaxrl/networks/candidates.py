"""A network for games whose actions are a list of things: every option is scored by what it is, not by its number.

One small network reads every entity, one every option, and one more says of an option in this situation how good it is.
What is learnt about an option in one place of the list so holds in all places, and mixing the options mixes the logits
in the same way. Where a game tells what its kinds of things are, a kind is read once, as the sum of its parts: a card
that was never met is what its abilities do.
"""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.networks.mlp import Heads
from jaxrl.networks.transformer import Block
from jaxrl_envs.contract.env import Candidates

CROWD = 5.0  # divides the sum over a zone: at this many entities it has ordinary size


class CandidateScorer(nn.Module):
    """Entities are pooled into the context, and `make_heads` gets the context and one vector for each option.

    Attributes:
      num_actions: A.
      vocabulary: numbers of kinds of things.
      dim: width of an entity and of an option.
      layers: dense layers of every part.
      embedding: width of what is learnt about a kind beyond its features; it begins at 0, so that a kind that was never
        met is just its features. 0: nothing is.
      attention: layers in which the entities look at each other before anything is made of them.
      together: layers in which entities and options look at each other after that.
      heads: of attention; divides `dim`.
      context: width of the context; 0: twice `dim`.
      rows: whether the context also reads the entities in their rows, which then are no longer a set.
      layer_norm: whether dense layers are normalised (features may be of all sizes: points of life, flags).
      compute_dtype: of everything but the parameters and the heads.
      make_heads: makes the module that ends it.
    """

    num_actions: int
    vocabulary: int
    dim: int = 64
    layers: int = 2
    embedding: int = 16
    attention: int = 0
    together: int = 0
    heads: int = 4
    context: int = 0
    rows: bool = False
    layer_norm: bool = True
    compute_dtype: str = "float32"
    make_heads: Callable[..., nn.Module] = Heads

    @nn.compact
    def __call__(
        self, view: Candidates, remember: Callable[[jax.Array], jax.Array] | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Candidates (leading axes allowed in each field) -> logits f32[..., A], value f32[...].

        Args:
          view: what is seen.
          remember: [..., H] -> [..., R], what recurrent layers make of the context before options are scored in it.
        """
        kinds = None
        if self.embedding and self.vocabulary:
            kinds = nn.Embed(self.vocabulary, self.embedding, embedding_init=nn.initializers.zeros, name="kinds")
        things, choices = self._described(view, kinds)
        entities = self._dense(things, self.dim, "entity")
        entities = self._tied(entities, view.partners)
        entities = self._attended(entities, view.entity_mask)
        options = self._dense(choices, self.dim, "option")
        entities, options = self._mingled(entities, options, view)
        pooled = _pooled(entities, view.entity_mask, view.zones)
        context = [view.context.astype(pooled.dtype), pooled]
        if self.rows:
            context.append(view.entities.reshape(*pooled.shape[:-1], -1).astype(pooled.dtype))
        torso = self._dense(jnp.concatenate(context, axis=-1), self.context or 2 * self.dim, "context")
        torso = torso if remember is None else remember(torso)
        # What an option does depends on the situation: a sum of two products is the product of both side by side.
        dtype = jnp.dtype(self.compute_dtype)
        mixed = nn.Dense(self.dim, dtype=dtype, name="mix_option")(options)
        mixed += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="mix_context")(torso)[..., None, :]
        if view.option_entity is not None:
            about = _rows(entities, view.option_entity)
            mixed += nn.Dense(self.dim, use_bias=False, dtype=dtype, name="mix_entity")(about)
        if view.nearness is not None:
            around = self._around(entities, view.nearness.astype(dtype))
            around = nn.Dense(self.dim, use_bias=False, dtype=dtype, name="mix_around")(around)
            mixed = mixed.at[..., : around.shape[-2], :].add(around)
        mixed = self._active(mixed, "norm_mix")
        mixed = nn.relu(nn.Dense(self.dim, dtype=dtype, name="mix")(mixed))
        return self.make_heads(self.num_actions, name="heads")(torso, mixed)

    def _described(self, view: Candidates, kinds: nn.Embed | None) -> tuple[jax.Array, jax.Array]:
        """The features of entities [..., E, C'] and options [..., A, O'] with what is known of their kinds."""
        if view.kinds is None:
            things = _with_kinds(view.entities, view.entity_ids, kinds)
            return things, _with_kinds(view.options, view.option_ids, kinds)
        assert view.parts is not None and view.part_rows is not None and view.kind_ids is not None
        width = max(1, self.dim // 2)
        parts = self._dense(view.parts, width, "part")  # [..., P, W]
        wholes = _sums(parts, view.part_rows[..., 1], parts.shape[-2])  # [..., P, W]: a part with those that follow it
        made_of = _sums(parts, view.part_rows[..., 0], view.kinds.shape[-2])
        known = _with_kinds(view.kinds, view.kind_ids, kinds)
        known = self._dense(jnp.concatenate([known.astype(parts.dtype), made_of], axis=-1), width, "kind")

        def described(features: jax.Array, ids: jax.Array, part: jax.Array | None) -> jax.Array:
            told = [features.astype(parts.dtype), _rows(known, ids - 1)]
            return jnp.concatenate(told + ([] if part is None else [_rows(wholes, part)]), axis=-1)

        return described(view.entities, view.entity_ids, view.entity_part), described(
            view.options, view.option_ids, view.option_part
        )

    def _tied(self, entities: jax.Array, partners: jax.Array | None) -> jax.Array:
        """[..., E, D], i32[..., E, M] -> the entities after each has heard from those that it is tied to, both ways."""
        if partners is None:
            return entities
        ways, width = partners.shape[-1], max(1, self.dim // 8)
        said = nn.Dense(2 * ways * width, use_bias=False, dtype=entities.dtype, name="ties")(entities)
        to, back = jnp.split(said.reshape(*said.shape[:-1], 2 * ways, width), 2, axis=-2)  # [..., E, M, W]
        tie = jax.nn.one_hot(partners, entities.shape[-2], dtype=entities.dtype)  # [..., E, M, E]
        heard = jnp.concatenate(
            [jnp.einsum("...imj,...jmw->...imw", tie, to), jnp.einsum("...jmi,...jmw->...imw", tie, back)], axis=-2
        )
        heard = heard.reshape(*entities.shape[:-1], -1)
        return nn.relu(entities + nn.Dense(self.dim, use_bias=False, dtype=entities.dtype, name="tied")(heard))

    def _mingled(self, entities: jax.Array, options: jax.Array, view: Candidates) -> tuple[jax.Array, jax.Array]:
        """[..., E, D], [..., A, D] -> the same, after all have looked at each other; activations stay 0 or more."""
        if not self.together:
            return entities, options
        dtype = entities.dtype
        if view.option_entity is not None:
            about = nn.Dense(self.dim, use_bias=False, dtype=dtype, name="about")
            options = options + about(_rows(entities, view.option_entity))
        here = jnp.ones(options.shape[:-1], bool) if view.option_mask is None else view.option_mask
        both, mask = jnp.concatenate([entities, options], axis=-2), jnp.concatenate([view.entity_mask, here], axis=-1)
        for index in range(self.together):
            block = Block(self.heads, 2 * self.dim, 0.0, self.compute_dtype, name=f"together_{index}")
            both = block(both, True, mask)
        both = nn.relu(nn.LayerNorm(dtype=dtype, name="norm_together")(both))
        count = entities.shape[-2]
        return both[..., :count, :], both[..., count:, :]

    def _attended(self, entities: jax.Array, mask: jax.Array) -> jax.Array:
        """[..., E, D] -> the same, after they have looked at each other; activations stay 0 or more."""
        if not self.attention:
            return entities
        for index in range(self.attention):
            block = Block(self.heads, 2 * self.dim, 0.0, self.compute_dtype, name=f"attention_{index}")
            entities = block(entities, True, mask)
        return nn.relu(nn.LayerNorm(dtype=jnp.dtype(self.compute_dtype), name="norm_attention")(entities))

    def _around(self, entities: jax.Array, nearness: jax.Array) -> jax.Array:
        """[..., E, D], [..., N, E, K] -> [..., N, D / 2]: what every entity means at each range, summed up over all; a
        convolution over places on a continuous board (SchNet: Schütt et al. 2017, https://arxiv.org/abs/1706.08566).
        """
        ranges, width = nearness.shape[-1], max(1, self.dim // 2)
        meant = nn.Dense(ranges * width, dtype=entities.dtype, name="ranges")(entities)
        meant = meant.reshape(*entities.shape[:-2], -1, width)  # [..., E * K, D / 2]
        near = nearness.reshape(*nearness.shape[:-2], -1)
        return jnp.einsum("...ne,...ed->...nd", near, meant) / CROWD

    def _dense(self, x: jax.Array, width: int, name: str) -> jax.Array:
        """[..., features] -> [..., width]."""
        dtype = jnp.dtype(self.compute_dtype)
        x = x.astype(dtype)
        for index in range(self.layers):
            init = nn.initializers.orthogonal(2.0**0.5)
            x = nn.Dense(width, dtype=dtype, kernel_init=init, name=f"{name}_{index}")(x)
            x = self._active(x, f"norm_{name}_{index}")
        return x

    def _active(self, x: jax.Array, norm: str) -> jax.Array:
        return nn.relu(nn.LayerNorm(dtype=x.dtype, name=norm)(x) if self.layer_norm else x)


def _with_kinds(features: jax.Array, ids: jax.Array, kinds: nn.Embed | None) -> jax.Array:
    """[..., N, features] and ids i32[..., N] -> the features, then the embedding of each kind (zeros for id 0)."""
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


def _sums(things: jax.Array, index: jax.Array, count: int) -> jax.Array:
    """[..., N, D], i32[..., N] -> [..., count, D]: row r sums the things with index r; -1: in no row."""
    return jnp.einsum("...nr,...nd->...rd", jax.nn.one_hot(index, count, dtype=things.dtype), things)


def _rows(entities: jax.Array, index: jax.Array) -> jax.Array:
    """[..., E, D], i32[..., A] -> [..., A, D]: the named rows, zeros for -1."""
    # A product instead of a look-up: its gradient is a product too, not a scatter.
    named = jax.nn.one_hot(index, entities.shape[-2], dtype=entities.dtype)
    return jnp.einsum("...ae,...ed->...ad", named, entities)
