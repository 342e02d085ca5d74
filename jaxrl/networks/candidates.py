"""A network for games whose actions are a list of options: it scores every option by its features, not its index.

One small network encodes every entity, one every option, and a third scores an option in the context of the position.
Weights are shared over the list, so the logits are equivariant to permutations of the options. If the game describes
its kinds of things, each kind is encoded once as the sum of its parts, so that an unseen card is represented by its
abilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.networks.mlp import Heads
from jaxrl.networks.transformer import Block
from jaxrl_envs.contract.env import Candidates

CROWD = 5.0  # divisor of the sums over a zone: a typical number of entities
EMBEDDING = 16  # width of the embedding of a kind, of which its features tell the most
HEADS = 4  # attention heads, or as many as divide the width


class CandidateScorer(nn.Module):
    """Pools entities into a context, and passes the context and one vector per option to `make_heads`."""

    num_actions: int
    vocabulary: int  # number of kinds of things
    dim: int = 64  # width of an entity and of an option
    layers: int = 2  # dense layers of each encoder
    attention: int = 0  # self-attention layers over the entities, before pooling
    together: int = 0  # attention layers over entities and options together, after those
    context: int = 0  # width of the context; 0: twice `dim`
    rows: bool = False  # whether the context also reads the entities row by row, so that their order matters
    layer_norm: bool = True  # layer normalisation in dense layers (features differ in scale: life points, flags)
    compute_dtype: str = "float32"  # type of everything but the parameters and the heads
    make_heads: Callable[..., nn.Module] = Heads

    @nn.compact
    def __call__(
        self, view: Candidates, remember: Callable[[jax.Array], jax.Array] | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Maps candidates (leading axes allowed in each field) -> logits f32[..., A], value f32[...]. `remember`: [...,
        H] -> [..., R], recurrent layers applied to the context before options are scored."""
        kinds = None
        if self.vocabulary:  # initialised to 0: an unseen kind is its features alone
            kinds = nn.Embed(self.vocabulary, EMBEDDING, embedding_init=nn.initializers.zeros, name="kinds")
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
        """Returns features of entities [..., E, C'] and options [..., A, O'], extended by those of their kinds."""
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
        """Passes messages between entities [..., E, D] and their partners i32[..., E, M], in both directions."""
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
        """Joint attention over entities [..., E, D] and options [..., A, D], same shapes; activations stay >= 0."""
        if not self.together:
            return entities, options
        dtype = entities.dtype
        if view.option_entity is not None:
            about = nn.Dense(self.dim, use_bias=False, dtype=dtype, name="about")
            options = options + about(_rows(entities, view.option_entity))
        here = jnp.ones(options.shape[:-1], bool) if view.option_mask is None else view.option_mask
        both, mask = jnp.concatenate([entities, options], axis=-2), jnp.concatenate([view.entity_mask, here], axis=-1)
        for index in range(self.together):
            block = Block(math.gcd(HEADS, self.dim), 2 * self.dim, 0.0, self.compute_dtype, name=f"together_{index}")
            both = block(both, True, mask)
        both = nn.relu(nn.LayerNorm(dtype=dtype, name="norm_together")(both))
        count = entities.shape[-2]
        return both[..., :count, :], both[..., count:, :]

    def _attended(self, entities: jax.Array, mask: jax.Array) -> jax.Array:
        """Applies self-attention to entities [..., E, D], same shape; activations stay >= 0."""
        if not self.attention:
            return entities
        for index in range(self.attention):
            block = Block(math.gcd(HEADS, self.dim), 2 * self.dim, 0.0, self.compute_dtype, name=f"attention_{index}")
            entities = block(entities, True, mask)
        return nn.relu(nn.LayerNorm(dtype=jnp.dtype(self.compute_dtype), name="norm_attention")(entities))

    def _around(self, entities: jax.Array, nearness: jax.Array) -> jax.Array:
        """Maps [..., E, D], [..., N, E, K] -> [..., N, D / 2]: a continuous-filter convolution, the sum over entities
        of their features at each distance (SchNet: Schütt et al. 2017, https://arxiv.org/abs/1706.08566).
        """
        ranges, width = nearness.shape[-1], max(1, self.dim // 2)
        meant = nn.Dense(ranges * width, dtype=entities.dtype, name="ranges")(entities)
        meant = meant.reshape(*entities.shape[:-2], -1, width)  # [..., E * K, D / 2]
        near = nearness.reshape(*nearness.shape[:-2], -1)
        return jnp.einsum("...ne,...ed->...nd", near, meant) / CROWD

    def _dense(self, x: jax.Array, width: int, name: str) -> jax.Array:
        """Maps [..., features] -> [..., width]."""
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
    """Appends to features [..., N, F] the embeddings of their kinds i32[..., N]; id 0 is no kind."""
    if kinds is None:
        return features
    known = jnp.where((ids > 0)[..., None], kinds(ids), 0.0)
    return jnp.concatenate([features, known.astype(features.dtype)], axis=-1)


def _pooled(entities: jax.Array, mask: jax.Array, zones: jax.Array | None) -> jax.Array:
    """Maps [..., E, D] -> [..., (Z + 1) D]: sums over each zone (one zone if None) and the maximum of each feature.

    Sums, not means, because the number of entities matters.
    """
    here = mask[..., None] if zones is None else mask[..., None] & (zones > 0.5)  # bool[..., E, Z]
    total = jnp.einsum("...ez,...ed->...zd", here.astype(entities.dtype), entities) / CROWD
    # Activations are >= 0, so 0 is the maximum over no entities.
    largest = jnp.max(jnp.where(mask[..., None], entities, 0.0), axis=-2)
    return jnp.concatenate([total.reshape(*mask.shape[:-1], -1), largest], axis=-1)


def _sums(things: jax.Array, index: jax.Array, count: int) -> jax.Array:
    """Returns segment sums: [..., N, D] with segment numbers i32[..., N] -> [..., count, D]; number -1 is left out."""
    return jnp.einsum("...nr,...nd->...rd", jax.nn.one_hot(index, count, dtype=things.dtype), things)


def _rows(entities: jax.Array, index: jax.Array) -> jax.Array:
    """Maps [..., E, D], i32[..., A] -> [..., A, D]: the named rows, zeros for -1."""
    # A product instead of a look-up: its gradient is a product too, not a scatter.
    named = jax.nn.one_hot(index, entities.shape[-2], dtype=entities.dtype)
    return jnp.einsum("...ae,...ed->...ad", named, entities)
