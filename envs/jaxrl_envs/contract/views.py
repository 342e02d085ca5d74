"""What networks read: of an observation `Env.features`, `tokens` or `candidates`, of all of a state `privileged`."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

PyTree = Any

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

    A game that can tell what its kinds are gives the fields from `kinds` on too: K kinds with D features, and the P
    parts with H features that they are made of (a card's abilities). Ids of entities and options then are 1 + rows of
    `kinds`.
    """

    context: jax.Array  # f32[G], the situation and the kind of question
    entities: jax.Array  # f32[E, C], what there is
    entity_ids: jax.Array  # i32[E]
    entity_mask: jax.Array  # bool[E], rows that stand for something
    options: jax.Array  # f32[A, O], what can be chosen: row a is action a
    option_ids: jax.Array  # i32[A]
    zones: jax.Array | None = None  # f32[E, Z], 1 in the column of the zone that an entity is in
    option_entity: jax.Array | None = None  # i32[A], the row of the entity that an option is about, -1: of none
    nearness: jax.Array | None = None  # f32[N, E, K], how near each entity is after option 0 .. N - 1, N <= A
    option_mask: jax.Array | None = None  # bool[A], options that there are, legal or not; None: all
    partners: jax.Array | None = None  # i32[E, M], the entity that each is tied to in M ways, -1: none
    kinds: jax.Array | None = None  # f32[K, D]
    kind_ids: jax.Array | None = None  # i32[K]
    parts: jax.Array | None = None  # f32[P, H]
    part_rows: jax.Array | None = None  # i32[P, 2], its kind, and the part that it belongs to (or itself); -1: none
    entity_part: jax.Array | None = None  # i32[E], the part that an entity is (an ability on the stack), -1: none
    option_part: jax.Array | None = None  # i32[A], the part that an option uses, -1: none


class Views:
    """The part of `jaxrl_envs.contract.env.Env` that describes positions to networks; a game refines what it can say
    better."""

    id: ClassVar[str]

    def features(self, observation: PyTree) -> jax.Array:
        """One observation as f32[F] for a dense network. Observations are stored packed and expanded here, late."""
        return _flat(observation)

    def tokens(self, observation: PyTree) -> Tokens:
        """One observation as a set of cards, for attention encoders."""
        raise NotImplementedError(f"{self.id} has no card tokens: use the mlp network")

    def candidates(self, observation: PyTree) -> Candidates:
        """One observation as things and options, for networks that score every option by its description."""
        raise NotImplementedError(f"{self.id} does not describe its options: use the mlp network")

    def privileged(self, state: Any, seat: jax.Array) -> PyTree | None:
        """What `seat` (i32[]) cannot see of `state`, from its place at the table: the others' cards in the order of
        play after it, the deck. None if the game does not say.

        Packed like an observation, beside which it is read. For a critic in training (`ppo.critic`), never for players.
        """
        return None

    def privileged_features(self, privileged: PyTree) -> jax.Array:
        """`privileged` as f32[G] for a dense network."""
        return _flat(privileged)


def _flat(tree: PyTree) -> jax.Array:
    """All numbers of a pytree, f32[F]."""
    return jnp.concatenate([jnp.ravel(jnp.asarray(leaf)).astype(jnp.float32) for leaf in jax.tree.leaves(tree)])
