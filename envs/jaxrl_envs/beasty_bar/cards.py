"""Cards of Beasty Bar: the twelve species, and the codes of cards, sets of cards and the queue.

A species is named by its strength 1..12. A *code* is 12 * seat + strength - 1 (0..23), a *token* is code + 1 (1..24, 0
= no card). A set of cards is a u32 whose bit is the code; a set of one seat's species a u32 whose bit is strength - 1.
The *queue* is a u32 of five fields of five bits, field 0 = Heaven's Gate; each holds a token.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

SKUNK, PARROT, KANGAROO, MONKEY, CHAMELEON, SEAL = 1, 2, 3, 4, 5, 6
ZEBRA, GIRAFFE, SNAKE, CROCODILE, HIPPO, LION = 7, 8, 9, 10, 11, 12
NAMES = (
    "skunk", "parrot", "kangaroo", "monkey", "chameleon", "seal",
    "zebra", "giraffe", "snake", "crocodile", "hippo", "lion",
)  # fmt: skip
POINTS = (4, 4, 4, 3, 3, 2, 4, 3, 2, 3, 2, 2)  # by strength - 1; they sum to 36
SPECIES = 12
HAND_SIZE, DECK_SIZE = 4, 8
ALL_SPECIES = (1 << SPECIES) - 1
ALL_CARDS = (1 << 2 * SPECIES) - 1
FIELD = 5  # bits of a queue field
PLACES = 5  # queue fields
FIELD_MASK = (1 << FIELD) - 1
EVERY_FIELD = sum(1 << FIELD * i for i in range(PLACES))  # the lowest bit of each field

_THREE = sum(1 << i for i, points in enumerate(POINTS) if points == 3)
_FOUR = sum(1 << i for i, points in enumerate(POINTS) if points == 4)


def card_name(code: int) -> str:
    """Returns the species of a card code in words."""
    return NAMES[code % SPECIES]


def tokens_of(*strengths: int) -> int:
    """Returns the tokens of both seats with these strengths, as bits of one word: `(word >> token) & 1` is a test."""
    return sum(1 << (s + SPECIES * seat) for s in strengths for seat in range(2))


def strength_of(token: jax.Array) -> jax.Array:
    """i32[]: strength of a token, 0 for no card."""
    return token - jnp.where(token > SPECIES, SPECIES, 0)


def species_points(species: jax.Array) -> jax.Array:
    """i32[]: the points of a set of one seat's species (every card has two, some one or two more)."""
    extra = _count(species & jnp.uint32(_THREE)) + 2 * _count(species & jnp.uint32(_FOUR))
    return 2 * _count(species) + extra


def token_points(token: jax.Array) -> jax.Array:
    """i32[]: the points of one card, 0 for no card."""
    table = sum(points << 3 * i for i, points in enumerate(POINTS[:10]))  # ten of them in one word
    shift = 3 * jnp.maximum(strength_of(token) - 1, 0)
    points = ((jnp.uint32(table) >> jnp.minimum(shift, 27).astype(jnp.uint32)) & 7).astype(jnp.int32)
    return jnp.where(token == 0, 0, jnp.where(shift >= 30, POINTS[HIPPO - 1], points))


def of_seat(cards: jax.Array, seat: jax.Array) -> jax.Array:
    """Returns the species of `seat` in a set of cards, u32[]."""
    return (cards >> (SPECIES * seat).astype(jnp.uint32)) & jnp.uint32(ALL_SPECIES)


def to_seat(species: jax.Array, seat: jax.Array) -> jax.Array:
    """Returns a set of species as cards of `seat`, u32[]."""
    return species << (SPECIES * seat).astype(jnp.uint32)


def field(queue: jax.Array, place: jax.Array | int) -> jax.Array:
    """i32[]: the token at a place of the queue."""
    shift = jnp.asarray(FIELD * place).astype(jnp.uint32)
    return ((queue >> shift) & jnp.uint32(FIELD_MASK)).astype(jnp.int32)


def length(queue: jax.Array) -> jax.Array:
    """i32[]: cards in a queue, which has no gaps."""
    return sum(((queue >> jnp.uint32(FIELD * i)) != 0).astype(jnp.int32) for i in range(PLACES))


def cards_in(queue: jax.Array, places: int = PLACES) -> jax.Array:
    """u32[]: the set of the cards at the first `places` places."""
    cards = jnp.uint32(0)
    for place in range(places):
        cards |= (jnp.uint32(1) << field(queue, place).astype(jnp.uint32)) >> 1
    return cards


def swap_owners(queue: jax.Array) -> jax.Array:
    """Returns the queue with the two seats exchanged."""
    swapped = jnp.uint32(0)
    for place in range(PLACES):
        token = field(queue, place)
        token = jnp.where(token == 0, 0, jnp.where(token > SPECIES, token - SPECIES, token + SPECIES))
        swapped |= token.astype(jnp.uint32) << jnp.uint32(FIELD * place)
    return swapped


def _count(word: jax.Array) -> jax.Array:
    return jax.lax.population_count(word).astype(jnp.int32)
