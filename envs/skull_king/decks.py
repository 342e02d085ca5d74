"""Whole games from given deck orders: tests, recorded games and duplicate deals."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from envs.cards import CardSet, Hands
from envs.skull_king import cards as c
from envs.skull_king import rules
from envs.skull_king.rules import Deal, Game, Round, Setup


def deal_from_deck(deck: jax.Array, number: jax.Array, setup: Setup) -> Deal:
    """The deal of round `number` (i32[], 1..10) from a deck order: seat i gets deck[i*h : (i+1)*h].

    Args:
      deck: integers [74], top first; without the expansion only the first 70 count.
      number: the round.
      setup: the table.
    """
    size = rules.hand_size(number, setup)
    position = jnp.arange(c.NUM_CARDS if setup.expansion else c.KRAKEN)
    owner = position // size
    in_hand = owner < setup.players
    on_top = ~in_hand & (position < size * setup.players + 2)
    slot = c.slot(deck[: position.size].astype(jnp.int32))
    bit = jnp.uint32(1) << (slot & 31).astype(jnp.uint32)

    def collect(mask: jax.Array) -> CardSet:
        words = [jnp.sum(jnp.where(mask & (slot >> 5 == w), bit, jnp.uint32(0)), dtype=jnp.uint32) for w in range(3)]
        return CardSet(*words)

    planes = len(Hands.empty(setup.players).planes)
    owners = tuple(collect(in_hand & ((owner >> digit) & 1).astype(bool)) for digit in range(planes))
    return Deal(Hands(collect(in_hand), owners), collect(on_top))


def game_from_decks(decks: jax.Array, first: jax.Array, setup: Setup) -> Game:
    """A game before its first bid.

    Args:
      decks: integers [10, 74], the deck order of each round.
      first: i32[], the seat that starts round 1.
      setup: the table.
    """
    numbers = jnp.arange(1, rules.NUM_ROUNDS + 1)
    fixed = jax.vmap(lambda deck, number: deal_from_deck(deck, number, setup))(decks, numbers)
    first = jnp.asarray(first).astype(jnp.int32)
    return Game(
        number=jnp.int32(1),
        first=first,
        phase=jnp.int32(rules.BID),
        actor=first,
        scores=jnp.zeros(setup.players, jnp.int32),
        exact=jnp.uint32(0),
        round=Round.begin(jax.tree.map(lambda leaf: leaf[0], fixed), first),
        next_number=jnp.int32(2),
        next=Deal.empty(setup.players),
        fixed=fixed,
    )
