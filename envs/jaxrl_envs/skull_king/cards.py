"""The 74 cards of Skull King: numbering, slots and classes (specification section 1).

A *play* is a card id 0..73, or 74 for the Tigress declared pirate (id 66 as a play is the Tigress as an escape).
Sets use `jaxrl_envs.shared.cards.CardSet` with every suit aligned to 16 bits: suit s, number m is slot 16*s + m - 1,
and the
specials follow.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.shared.cards import CardSet, small_div

NUM_CARDS = 74
NUM_PLAYS = 75
ROGER = 3
NO_SUIT = 4
ROSIE, BENDT, ROATAN, JADE, HARRY = 61, 62, 63, 64, 65
TIGRESS, KING, KRAKEN, WHALE = 66, 67, 70, 71
MERMAIDS = (68, 69)
LOOTS = (72, 73)
TIGRESS_PIRATE = 74

SUIT_NAMES = ("Parrot", "Chest", "Map", "Roger")
SPECIAL_NAMES = {
    **{card: "Escape" for card in range(56, 61)},
    ROSIE: "Rosie",
    BENDT: "Bendt",
    ROATAN: "Roatan",
    JADE: "Jade",
    HARRY: "Harry",
    TIGRESS: "Tigress",
    KING: "Skull King",
    68: "Mermaid A",
    69: "Mermaid B",
    KRAKEN: "Kraken",
    WHALE: "White Whale",
    72: "Loot A",
    73: "Loot B",
    TIGRESS_PIRATE: "Tigress (pirate)",
}


def slot_of(card: int) -> int:
    """Returns the slot of a card id known when the program is traced."""
    return card + 2 * min(card // 14, 4)


def slot(card: jax.Array) -> jax.Array:
    """Returns the slot of a card id, i32[]."""
    return card + 2 * jnp.minimum(suit_of(card), 4)


def suit_of(card: jax.Array) -> jax.Array:
    """card // 14 for a card or play id, i32[]: the suit of a suit card, at least 4 for the others."""
    return small_div(card, 14)


def card(slot: jax.Array) -> jax.Array:
    """Returns the card id of a slot, i32[]."""
    return slot - 2 * jnp.minimum(slot >> 4, 4)


SLOTS = tuple(slot_of(card_id) for card_id in range(NUM_CARDS))  # slot of each card id


def card_set(cards) -> CardSet:
    """Returns a CardSet of card ids known when the program is traced."""
    return CardSet.constant(slot_of(c) for c in cards)


def deck(expansion: bool) -> CardSet:
    """Returns all cards in play: 74, or 70 without the expansion."""
    return card_set(range(NUM_CARDS if expansion else KRAKEN))


def suit_bits(cards: CardSet, suit: jax.Array) -> jax.Array:
    """u32[]: the numbers of `suit` (i32[], 0..3) in a set, number m as bit m - 1; 0 for NO_SUIT."""
    word = jnp.where(suit < 2, cards.w0, cards.w1)
    half = (word >> ((suit & 1) * 16).astype(jnp.uint32)) & jnp.uint32(0x3FFF)
    return jnp.where(suit < NO_SUIT, half, jnp.uint32(0))


def suit_cards(suit: jax.Array, numbers: jax.Array) -> CardSet:
    """Returns the set of cards of `suit` (i32[], 0..3) with the given number bits (u32[]); empty for NO_SUIT."""
    bits = numbers << ((suit & 1) * 16).astype(jnp.uint32)
    zero = jnp.uint32(0)
    return CardSet(jnp.where(suit < 2, bits, zero), jnp.where((suit == 2) | (suit == 3), bits, zero), zero)


def numbers_above(number: jax.Array) -> jax.Array:
    """u32[]: bits of the numbers greater than `number` (i32[], 0..14)."""
    return (jnp.uint32(0x3FFF) << number.astype(jnp.uint32)) & jnp.uint32(0x3FFF)


def card_bits(words: jax.Array) -> jax.Array:
    """u32[..., 3] sets by slot -> u32[..., 74] flags by card id."""
    bits = (words[..., None] >> np.arange(32, dtype=np.uint32)) & 1  # [..., 3, 32]
    suits = bits[..., :2, :].reshape(*words.shape[:-1], 4, 16)[..., :14]
    return jnp.concatenate([suits.reshape(*words.shape[:-1], 56), bits[..., 2, : NUM_CARDS - 56]], axis=-1)


def card_name(play: int) -> str:
    """Returns the name of a play for people."""
    if play < 56:
        return f"{SUIT_NAMES[play // 14]} {play % 14 + 1}"
    return SPECIAL_NAMES[play]
