"""What networks that attend or score options read of an observation: `Env.tokens` and `Env.candidates` make it."""

from __future__ import annotations

from typing import NamedTuple

import jax

MAX_SUITS, MAX_RANKS = 16, 32


class Tokens(NamedTuple):
    """A set-of-cards view of an observation, for attention encoders. N tokens with D flags each, C global features."""

    suit: jax.Array  # i32[N], 0 .. MAX_SUITS - 1
    rank: jax.Array  # i32[N], 0 .. MAX_RANKS - 1
    features: jax.Array  # f32[N, D], where the card is now
    context: jax.Array  # f32[C], everything that is not a card


class Candidates(NamedTuple):
    """A view of an observation for games whose actions are a list of things, each described by itself.

    What an action's number means changes from decision to decision ("the third card in the hand"): what it does is told
    by its row of `options`. E entities with C features, A options with O features, G global features; ids are numbers
    of kinds of things (card names), 0 .. `Env.vocabulary` - 1, and 0 is nobody.
    """

    context: jax.Array  # f32[G], the situation and the kind of question
    entities: jax.Array  # f32[E, C], what there is
    entity_ids: jax.Array  # i32[E]
    entity_mask: jax.Array  # bool[E], rows that stand for something
    options: jax.Array  # f32[A, O], what can be chosen: row a is action a
    option_ids: jax.Array  # i32[A]
    zones: jax.Array | None = None  # f32[E, Z], 1 in the column of the zone that an entity is in
    option_entity: jax.Array | None = None  # i32[A], the row of the entity that an option is about, -1: of none
