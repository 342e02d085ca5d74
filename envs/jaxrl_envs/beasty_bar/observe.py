"""Observations of Beasty Bar (specification section 9), packed into five words and expanded late; hidden cards."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
from jax import lax

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.deal import Pile, deal_all
from jaxrl_envs.beasty_bar.rules import BeastyBarGame, Zones
from jaxrl_envs.contract.env import Tokens

WORDS = 5
_PLACES = c.PLACES - 1


def pack(game: BeastyBarGame, seat: jax.Array) -> jax.Array:
    """u32[5], everything from the point of view of `seat` (i32[]): the own cards have the tokens 1..12.

    Word 0: own hand, own deck (12 bits each). 1: the other's unseen cards, own bar. 2: other bar, own out. 3: other
    out, ply (5 bits), to move, started. 4: the queue (20 bits).
    """
    other = 1 - seat
    table, deck = game.table, rules.decks_left(game)
    unseen = c.of_seat(deck | game.hands, other)
    queue = jnp.where(seat == 0, table.queue, c.swap_owners(table.queue))
    clock = game.ply | (game.seat == seat).astype(jnp.int32) << 5 | (game.start == seat).astype(jnp.int32) << 6
    words = (
        _pair(c.of_seat(game.hands, seat), c.of_seat(deck, seat)),
        _pair(unseen, c.of_seat(table.bar, seat)),
        _pair(c.of_seat(table.bar, other), c.of_seat(table.out, seat)),
        _pair(c.of_seat(table.out, other), clock.astype(jnp.uint32)),
        queue,
    )
    return jnp.stack(words)


def features(observation: jax.Array) -> jax.Array:
    """Returns the compact observation f32[150]."""
    chex.assert_shape(observation, (WORDS,))
    words = [observation[i] for i in range(WORDS)]
    sets = _sets(words)
    species = jnp.arange(c.SPECIES, dtype=jnp.uint32)
    masks = [((cards >> species) & 1).astype(jnp.float32) for cards in sets]
    queue = [_place(words[4], place) for place in range(_PLACES)]
    return jnp.concatenate([*masks, *queue, *(number[None] for number in _numbers(words, sets))])


def view(observation: jax.Array) -> tuple[Zones, jax.Array, jax.Array]:
    """Returns the table with the observer as seat 0, its hand u32[] (species) and the ply i32[]."""
    words = [observation[i] for i in range(WORDS)]
    hand, _, _, own_bar, other_bar, own_out, other_out = _sets(words)
    table = Zones(queue=words[4], bar=_pair(own_bar, other_bar), out=_pair(own_out, other_out))
    return table, hand, (words[3] >> c.SPECIES).astype(jnp.int32) & 31


def tokens(observation: jax.Array) -> Tokens:
    """All 24 cards, own ones first: suit = 0 own, 1 the other's; rank = strength - 1; nine flags of where the card is:
    own hand, own deck, unseen, bar, out, queue places 0..3; context = the ten numbers at the end of the features."""
    words = [observation[i] for i in range(WORDS)]
    hand, deck, unseen, own_bar, other_bar, own_out, other_out = _sets(words)
    none = jnp.uint32(0)
    own = (hand, deck, none, own_bar, own_out)
    other = (none, none, unseen, other_bar, other_out)
    species = jnp.arange(c.SPECIES, dtype=jnp.uint32)
    zones = [
        jnp.concatenate([(mine >> species) & 1, (yours >> species) & 1]) for mine, yours in zip(own, other, strict=True)
    ]
    card = jnp.arange(1, 2 * c.SPECIES + 1)
    places = [(c.field(words[4], place) == card).astype(jnp.uint32) for place in range(_PLACES)]
    number = jnp.arange(2 * c.SPECIES)
    return Tokens(
        suit=(number >= c.SPECIES).astype(jnp.int32),
        rank=jnp.where(number >= c.SPECIES, number - c.SPECIES, number).astype(jnp.int32),
        features=jnp.stack([*zones, *places], axis=-1).astype(jnp.float32),
        context=jnp.stack(_numbers(words, _sets(words))),
    )


def privileged(game: BeastyBarGame, seat: jax.Array) -> jax.Array:
    """u32[3], what `seat` (i32[]) cannot see: the other's hand with the sizes of the own and of the other's deck (12, 4
    and 4 bits), the own deck, the other's deck (see `BeastyBarGame`)."""
    other, left = 1 - seat, rules.decks_left(game)
    sizes = [lax.population_count(c.of_seat(left, whose)) << shift for whose, shift in ((seat, 12), (other, 16))]
    decks = [jnp.where(whose == 0, game.deck0, game.deck1) for whose in (seat, other)]
    return jnp.stack([c.of_seat(game.hands, other) | sizes[0] | sizes[1], *decks])


def privileged_features(words: jax.Array) -> jax.Array:
    """f32[204]: the other's hand, then each card of the own deck and of the other's from the top on, one-hot."""
    place, species = jnp.arange(c.DECK_SIZE, dtype=jnp.uint32), jnp.arange(c.SPECIES, dtype=jnp.uint32)

    def cards(deck: jax.Array, size: jax.Array) -> jax.Array:
        return ((((deck >> (4 * place)) & 15)[:, None] == species) & (place < size)[:, None]).reshape(-1)

    hand = (words[0] >> species) & 1
    decks = [cards(words[1 + i], (words[0] >> (c.SPECIES + 4 * i)) & 15) for i in range(2)]
    return jnp.concatenate([hand, *decks]).astype(jnp.float32)


def redraw_hidden(game: BeastyBarGame, seat: jax.Array, key: jax.Array) -> BeastyBarGame:
    """`game` with everything that `seat` cannot see redrawn, uniformly over all that is possible.

    Hidden are the order of both decks and which of the other's unseen cards are in its hand.
    """
    own_key, other_key = jax.random.split(key)
    other = 1 - seat
    deck = rules.decks_left(game)
    hand = c.of_seat(game.hands, other)
    hand_size = lax.population_count(hand).astype(jnp.int32)
    empty = Pile.full()
    own = deal_all(empty.replace(left=c.of_seat(deck, seat)), 0, 0, own_key)
    theirs = deal_all(empty.replace(left=c.of_seat(deck, other) | hand), 0, hand_size, other_key)
    return with_hidden(game, seat, theirs.hand, own.deck, theirs.deck)


def with_hidden(
    game: BeastyBarGame, seat: jax.Array, hand: jax.Array, own_deck: jax.Array, other_deck: jax.Array
) -> BeastyBarGame:
    """`game` with everything that `seat` cannot see replaced: the other's hand (species) and both decks, u32[] each."""
    return game.replace(
        hands=c.to_seat(c.of_seat(game.hands, seat), seat) | c.to_seat(hand, 1 - seat),
        deck0=jnp.where(seat == 0, own_deck, other_deck),
        deck1=jnp.where(seat == 0, other_deck, own_deck),
    )


# ---- parts ----------------------------------------------------------------------------------------------------------


def _pair(low: jax.Array, high: jax.Array) -> jax.Array:
    return low | high << c.SPECIES


def _sets(words: list[jax.Array]) -> list[jax.Array]:
    """Returns own hand, own deck, unseen, own bar, other bar, own out, other out: u32[] each."""
    low = [words[i] & jnp.uint32(c.ALL_SPECIES) for i in range(4)]
    high = [(words[i] >> c.SPECIES) & jnp.uint32(c.ALL_SPECIES) for i in range(3)]
    return [low[0], high[0], low[1], high[1], low[2], high[2], low[3]]


def _place(queue: jax.Array, place: int) -> jax.Array:
    """f32[14]: species one-hot, own, the other's."""
    token = c.field(queue, place)
    strength = c.strength_of(token)
    own, other = (token != 0) & (token <= c.SPECIES), token > c.SPECIES
    return jnp.concatenate([strength == jnp.arange(1, c.SPECIES + 1), jnp.stack([own, other])]).astype(jnp.float32)


def _numbers(words: list[jax.Array], sets: list[jax.Array]) -> list[jax.Array]:
    """f32[] each: sizes, queue length, ply, points, to move, started."""
    hand, deck, unseen, own_bar, other_bar, _, _ = sets
    clock = (words[3] >> c.SPECIES).astype(jnp.int32)
    ply, to_move, started = clock & 31, (clock >> 5) & 1, (clock >> 6) & 1
    other_plays = (ply + 1 - started) >> 1
    other_deck = jnp.maximum(c.DECK_SIZE - other_plays, 0)
    count = [lax.population_count(cards).astype(jnp.int32) for cards in (hand, unseen, deck)]
    numbers = (
        (count[0], c.HAND_SIZE),
        (count[1] - other_deck, c.HAND_SIZE),
        (count[2], c.DECK_SIZE),
        (other_deck, c.DECK_SIZE),
        (c.length(words[4]), _PLACES),
        (ply, 24),
        (c.species_points(own_bar), sum(c.POINTS)),
        (c.species_points(other_bar), sum(c.POINTS)),
        (to_move, 1),
        (started, 1),
    )
    return [value.astype(jnp.float32) / size for value, size in numbers]


def reconcile(
    particle: BeastyBarGame, actual: BeastyBarGame, seat: jax.Array, key: jax.Array
) -> tuple[BeastyBarGame, jax.Array]:
    """`seat`'s view of `actual`, with the other's hand as `particle` has it; see
    `jaxrl_envs.contract.env.Env.reconcile`.

    The order of both decks is redrawn: no choice has depended on it.

    Args:
      particle, actual: positions after the same actions.
      seat: i32[], the observer.
      key: randomness of the decks.

    Returns:
      The position, and bool[]: whether the other can hold these cards, given what `seat` sees.
    """
    own_key, other_key = jax.random.split(key)
    other, table = 1 - seat, actual.table
    shown = table.bar | table.out | c.cards_in(table.queue, c.PLACES - 1)
    unseen = jnp.uint32(c.ALL_SPECIES) & ~c.of_seat(shown, other)
    hand = c.of_seat(particle.hands, other)
    size = lax.population_count(c.of_seat(actual.hands, other))  # hand sizes are public
    possible = ((hand & ~unseen) == 0) & (lax.population_count(hand) == size)
    empty = Pile.full()
    own_left = c.of_seat(rules.decks_left(actual), seat)
    own = deal_all(empty.replace(left=own_left), 0, 0, own_key).deck
    theirs = deal_all(empty.replace(left=unseen & ~hand), 0, 0, other_key).deck
    return with_hidden(actual, seat, hand, own, theirs), possible
