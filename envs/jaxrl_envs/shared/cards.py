"""Sets of cards as a few 32-bit words: the data structure behind fast card games.

A set of up to 96 card *slots* is three scalar u32 words. Under `vmap` each word becomes one contiguous u32[B] array, so
that every set operation is a handful of full-width vector instructions; bool[96] arrays would be an order of magnitude
slower. Nothing here sorts, scatters or loops over data.
"""

from __future__ import annotations

from collections.abc import Iterable

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

WORD = 32


@struct.dataclass
class CardSet:
    """A set of slots 0..95; slot s is bit s % 32 of word s // 32. Each word is u32[]."""

    w0: jax.Array
    w1: jax.Array
    w2: jax.Array

    @classmethod
    def empty(cls) -> CardSet:
        return cls(jnp.uint32(0), jnp.uint32(0), jnp.uint32(0))

    @classmethod
    def constant(cls, slots: Iterable[int]) -> CardSet:
        """Returns a set whose slots are known when the program is traced."""
        words = [0, 0, 0]
        for slot in slots:
            words[slot // WORD] |= 1 << (slot % WORD)
        return cls(*(jnp.uint32(word) for word in words))

    @classmethod
    def single(cls, slot: jax.Array) -> CardSet:
        """{slot}; the empty set for a slot outside 0..95."""
        bit = jnp.uint32(1) << (slot & (WORD - 1)).astype(jnp.uint32)
        word = slot >> 5
        zero = jnp.uint32(0)
        return cls(*(jnp.where(word == i, bit, zero) for i in range(3)))

    @property
    def words(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        return self.w0, self.w1, self.w2

    def __and__(self, other: CardSet) -> CardSet:
        return CardSet(self.w0 & other.w0, self.w1 & other.w1, self.w2 & other.w2)

    def __or__(self, other: CardSet) -> CardSet:
        return CardSet(self.w0 | other.w0, self.w1 | other.w1, self.w2 | other.w2)

    def __sub__(self, other: CardSet) -> CardSet:
        return CardSet(self.w0 & ~other.w0, self.w1 & ~other.w1, self.w2 & ~other.w2)

    def where(self, condition: jax.Array) -> CardSet:
        """Returns this set if `condition` (bool[]), else the empty set."""
        keep = jnp.uint32(0) - condition.astype(jnp.uint32)
        return CardSet(self.w0 & keep, self.w1 & keep, self.w2 & keep)

    def count(self) -> jax.Array:
        """i32[]: the number of cards."""
        total = sum(lax.population_count(word) for word in self.words)
        return jnp.asarray(total).astype(jnp.int32)

    def any(self) -> jax.Array:
        return (self.w0 | self.w1 | self.w2) != 0

    def has(self, slot: jax.Array) -> jax.Array:
        return (self & CardSet.single(slot)).any()

    def nth(self, k: jax.Array) -> jax.Array:
        """i32[]: the slot of the k-th card (from 0) in slot order; meaningless unless k < count."""
        return nth_set_bit(self.words, k)

    def bits(self) -> jax.Array:
        """bool[96]: one flag per slot."""
        shifts = jnp.arange(WORD, dtype=jnp.uint32)
        return jnp.concatenate([(word >> shifts) & 1 for word in self.words]).astype(bool)


def nth_set_bit(words: Iterable[jax.Array], k: jax.Array) -> jax.Array:
    """Returns the index of the k-th set bit (from 0) over several u32 words, i32[]; more than k bits must be set.

    Args:
      words: u32[] each.
      k: i32[] or u32[].
    """
    words = tuple(words)
    chex.assert_rank([*words, k], 0)
    chex.assert_type(words, jnp.uint32)
    remaining = k.astype(jnp.int32)
    chosen, base, rank = jnp.uint32(0), jnp.int32(0), jnp.int32(0)
    found = jnp.bool_(False)
    for index, word in enumerate(words):
        size = lax.population_count(word).astype(jnp.int32)
        here = ~found & (remaining < size)
        chosen = jnp.where(here, word, chosen)
        base = jnp.where(here, jnp.int32(WORD * index), base)
        rank = jnp.where(here, remaining, rank)
        found = found | here
        remaining = remaining - size
    return base + _nth_bit(chosen, rank)


def _nth_bit(word: jax.Array, k: jax.Array) -> jax.Array:
    """Returns the k-th set bit of one u32 word: binary search over the partial popcounts of the word."""
    pairs = word - ((word >> 1) & jnp.uint32(0x55555555))
    nibbles = (pairs & jnp.uint32(0x33333333)) + ((pairs >> 2) & jnp.uint32(0x33333333))
    octets = (nibbles + (nibbles >> 4)) & jnp.uint32(0x0F0F0F0F)
    halves = (octets + (octets >> 8)) & jnp.uint32(0x00FF00FF)
    k = k.astype(jnp.uint32)
    position = jnp.uint32(0)
    for counts, width, mask in ((halves, 16, 31), (octets, 8, 15), (nibbles, 4, 7), (pairs, 2, 3), (word, 1, 1)):
        below = (counts >> position) & jnp.uint32(mask)
        beyond = k >= below
        k = jnp.where(beyond, k - below, k)
        position = jnp.where(beyond, position + width, position)
    return position.astype(jnp.int32)


def small_div(x: jax.Array, divisor: int) -> jax.Array:
    """x // divisor for 0 <= x with x * divisor < 2048, by a multiplication.

    XLA's CPU backend turns an integer division, even one by a constant, into scalar code; it would cost a quarter of a
    whole game step.
    """
    return (x * -(-2048 // divisor)) >> 11


def small_mod(x: jax.Array, divisor: int) -> jax.Array:
    """x % divisor for 0 <= x with x * divisor < 2048."""
    return x - divisor * small_div(x, divisor)


def scale(bits: jax.Array, bound: jax.Array) -> jax.Array:
    """Scales random u32 bits to an integer in 0..bound-1 (bound < 2^16), i32[]; bias below bound / 2^32."""
    chex.assert_type(bits, jnp.uint32)
    bound = bound.astype(jnp.uint32)
    low = ((bits & jnp.uint32(0xFFFF)) * bound) >> 16
    return (((bits >> 16) * bound + low) >> 16).astype(jnp.int32)


@struct.dataclass
class Hands:
    """The hands of up to 8 seats: the binary digits of each held card's owner, as bit planes.

    `planes` has one CardSet per digit (1 for 2 seats, 2 for 3-4, 3 for 5-8); it takes fewer words than a set per seat
    and its cost does not grow with the number of seats.
    """

    held: CardSet
    planes: tuple[CardSet, ...]

    @classmethod
    def empty(cls, seats: int) -> Hands:
        digits = max(1, (seats - 1).bit_length())
        return cls(CardSet.empty(), tuple(CardSet.empty() for _ in range(digits)))

    def of(self, seat: jax.Array) -> CardSet:
        """Returns the hand of `seat`, i32[]."""
        hand = self.held
        for digit, plane in enumerate(self.planes):
            flip = ((seat >> digit) & 1).astype(jnp.uint32) - 1  # all ones where the digit is 0
            hand = hand & CardSet(plane.w0 ^ flip, plane.w1 ^ flip, plane.w2 ^ flip)
        return hand

    def give(self, seat: jax.Array, cards: CardSet) -> Hands:
        """Adds cards that are in no hand to the hand of `seat`."""
        planes = tuple(
            (plane - cards) | cards.where(((seat >> digit) & 1) != 0) for digit, plane in enumerate(self.planes)
        )
        return Hands(self.held | cards, planes)

    def take(self, cards: CardSet) -> Hands:
        """Removes cards from all hands."""
        return self.replace(held=self.held - cards)


def get_field(word: jax.Array, index: jax.Array | np.ndarray | int, width: int = 4) -> jax.Array:
    """Returns the entry `index` of a u32 word seen as an array of `width`-bit numbers, as i32."""
    shift = (jnp.asarray(index) * width).astype(jnp.uint32)
    return ((word >> shift) & jnp.uint32((1 << width) - 1)).astype(jnp.int32)


def add_field(word: jax.Array, index: jax.Array, amount: jax.Array, width: int = 4) -> jax.Array:
    """Adds `amount` (any integer or bool, may be negative) to entry `index`; the entry must not overflow."""
    shift = (jnp.asarray(index) * width).astype(jnp.uint32)
    return word + (jnp.asarray(amount).astype(jnp.int32).astype(jnp.uint32) << shift)


def rotate_fields(word: jax.Array, seat: jax.Array, seats: int, width: int = 4) -> jax.Array:
    """Returns the same array as `seat` sees it: entry 0 is the seat's own, entry 1 the next seat's, and so on."""
    down = (seat * width).astype(jnp.uint32)
    up = ((seats - seat) * width).astype(jnp.uint32)
    whole = jnp.uint32((1 << (seats * width)) - 1)
    wrapped = jnp.where(seat == 0, jnp.uint32(0), word << up)
    return ((word >> down) | wrapped) & whole
