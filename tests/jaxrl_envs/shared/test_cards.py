"""Card sets against Python's own sets, and the arithmetic beside them against integers, with and without jit."""

from __future__ import annotations

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.shared import card_beliefs
from jaxrl_envs.shared.cards import CardSet, Hands, nth_set_bit, scale, small_div, small_mod

SETS = [(), (0,), (95,), (3, 31, 32, 33, 63, 64, 95), tuple(range(96))]


@pytest.fixture(params=[jax.jit, lambda function: function], ids=["jit", "no jit"])
def variant(request) -> Callable:
    return request.param


@pytest.mark.parametrize("slots", SETS, ids=len)
def test_a_set_counts_finds_and_lists_its_cards(variant, slots):
    cards = CardSet.constant(slots)
    assert int(variant(CardSet.count)(cards)) == len(slots)
    chex.assert_trees_all_equal(variant(CardSet.bits)(cards), np.isin(np.arange(96), slots))
    found = variant(jax.vmap(cards.nth))(jnp.arange(max(1, len(slots))))
    assert slots == () or found.tolist() == list(slots)


def test_sets_are_joined_met_and_reduced(variant):
    for left in SETS:
        for right in SETS:
            a, b = CardSet.constant(left), CardSet.constant(right)
            joined, met, less = variant(lambda a, b: (a | b, a & b, a - b))(a, b)
            wanted = (set(left) | set(right), set(left) & set(right), set(left) - set(right))
            chex.assert_trees_all_equal((joined, met, less), tuple(map(CardSet.constant, wanted)))


@pytest.mark.parametrize("seats", [2, 3, 8])
def test_hands_hold_what_they_were_given(variant, seats):
    given = [CardSet.constant(range(seat, 96, 11)) for seat in range(seats)]
    hands = Hands.empty(seats)
    for seat, cards in enumerate(given):
        hands = variant(Hands.give)(hands, jnp.int32(seat), cards)
    for seat, cards in enumerate(given):
        chex.assert_trees_all_equal(variant(Hands.of)(hands, jnp.int32(seat)), cards)
    left = variant(Hands.take)(hands, given[0])
    chex.assert_trees_all_equal(left.of(jnp.int32(0)), CardSet.empty())


def test_small_divisions_are_exact(variant):
    for divisor in (3, 5, 7, 14):
        x = np.arange(2048 // divisor, dtype=np.int32)
        chex.assert_trees_all_equal(variant(lambda x, d=divisor: small_div(x, d))(x), x // divisor)
        chex.assert_trees_all_equal(variant(lambda x, d=divisor: small_mod(x, d))(x), x % divisor)


def test_bits_are_scaled_into_their_range(variant):
    ends = jnp.array([0, 2**31, 2**32 - 1], jnp.uint32)
    assert variant(scale)(ends, jnp.int32(10)).tolist() == [0, 5, 9]


def test_wrong_shapes_and_types_are_rejected_at_the_door():
    with pytest.raises(AssertionError):
        nth_set_bit([jnp.zeros(3, jnp.uint32)], jnp.int32(0))
    with pytest.raises(AssertionError):
        nth_set_bit([jnp.int32(3)], jnp.int32(0))
    with pytest.raises(AssertionError):
        card_beliefs.uniform(card_beliefs.CardBeliefs(jnp.ones((6, 3), bool), jnp.array([3, 3])))
