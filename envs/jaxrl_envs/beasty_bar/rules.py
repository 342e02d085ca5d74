"""The rules of Beasty Bar as pure functions of a few packed words; section numbers are the specification's.

Nothing here knows of learning. A turn is a fixed number of word operations: the own action is one rearrangement of at
most four cards plus the place where the played card goes, the recurring phase four passes that each move one card.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.cards import FIELD, PLACES, field, length, strength_of, tokens_of

NUM_ACTIONS = 31
FIRST_KANGAROO, FIRST_PARROT, FIRST_CHAMELEON = 9, 11, 15
END_CARDS = 20  # number of cards in the bars and out that ends the game


@struct.dataclass
class Zones:
    """The cards on the table, u32[] each."""

    queue: jax.Array  # five fields of five bits
    bar: jax.Array  # set of cards
    out: jax.Array  # set of cards: THAT'S IT


@struct.dataclass
class BeastyBarGame:
    """A position. The deck of each seat is a u32 of eight fields of four bits, strength - 1, the top one lowest."""

    table: Zones
    hands: jax.Array  # u32[], set of cards
    deck0: jax.Array  # u32[]
    deck1: jax.Array  # u32[]
    ply: jax.Array  # i32[], turns played
    start: jax.Array  # i32[], the seat that began

    @property
    def seat(self) -> jax.Array:
        """i32[]: the seat to move."""
        return (self.start + self.ply) & 1


class Play(NamedTuple):
    """An action taken apart, i32[] each; places refer to the queue before the card is placed."""

    strength: jax.Array  # of the card that leaves the hand
    acts_as: jax.Array  # the species it counts as in its own action
    copied: jax.Array  # place of the card that a chameleon copies; PLACES = none
    victim: jax.Array  # place of the card that a parrot throws out; PLACES = none
    hop: jax.Array  # cards that a kangaroo hops over


# ---- actions, section 8 ---------------------------------------------------------------------------------------------


def legal_word(table: Zones, hand: jax.Array) -> jax.Array:
    """Returns the legal actions as one word, u32[], bit = action id.

    Args:
      table: the position.
      hand: u32[], the species in the hand of the seat to move.
    """
    n = length(table.queue)
    first, two = jnp.uint32(1), (n >= 2).astype(jnp.uint32)
    any_place = (jnp.uint32(1) << n.astype(jnp.uint32)) - 1
    # ids 0, 1: skunk, monkey; 2..8: seal to lion in the order of strength
    plain = (hand & 1) | ((hand >> 3) & 1) << 1 | ((hand >> 5) & 0x7F) << 2
    hops = first | two << 1
    copies = jnp.uint32(0)
    for place in range(PLACES - 1):
        strength = strength_of(field(table.queue, place))
        choice = jnp.where(strength == c.PARROT, any_place, jnp.where(strength == c.KANGAROO, hops, first))
        possible = (strength != 0) & (strength != c.CHAMELEON)
        copies |= jnp.where(possible, choice, 0) << jnp.uint32(4 * place)
    copies = jnp.maximum(copies, first)
    hops, victims = _if(hand >> 2, hops), _if(hand >> 1, jnp.maximum(any_place, first))
    copies = _if(hand >> 4, copies)
    return plain | hops << FIRST_KANGAROO | victims << FIRST_PARROT | copies << FIRST_CHAMELEON


def decode(queue: jax.Array, action: jax.Array) -> Play:
    """Returns an action id (i32[], legal) taken apart."""
    n = length(queue)
    is_kangaroo = (action >= FIRST_KANGAROO) & (action < FIRST_PARROT)
    is_parrot = (action >= FIRST_PARROT) & (action < FIRST_CHAMELEON)
    is_chameleon = action >= FIRST_CHAMELEON
    strength = jnp.where(action == 0, c.SKUNK, jnp.where(action == 1, c.MONKEY, action + 4))
    strength = jnp.where(is_kangaroo, c.KANGAROO, jnp.where(is_parrot, c.PARROT, strength))
    strength = jnp.where(is_chameleon, c.CHAMELEON, strength)

    place, choice = (action - FIRST_CHAMELEON) >> 2, (action - FIRST_CHAMELEON) & 3
    target = strength_of(field(queue, jnp.maximum(place, 0)))
    copies = is_chameleon & (target != 0) & (target != c.CHAMELEON)
    acts_as = jnp.where(copies, target, strength)
    victim = jnp.where(is_parrot, action - FIRST_PARROT, choice)
    hop = jnp.where(is_kangaroo, action - FIRST_KANGAROO + 1, choice + 1)
    return Play(
        strength=strength,
        acts_as=acts_as,
        copied=jnp.where(copies, place, PLACES),
        victim=jnp.where((acts_as == c.PARROT) & (victim < n), victim, PLACES),
        hop=jnp.where(acts_as == c.KANGAROO, jnp.minimum(hop, n), 0),
    )


# ---- a turn, sections 3 to 6 ----------------------------------------------------------------------------------------


def play_turn(table: Zones, seat: jax.Array, play: Play) -> Zones:
    """Returns the table after one complete turn (without the draw) of `seat`, i32[]."""
    card = play.strength + c.SPECIES * seat  # token
    before = c.cards_in(table.queue, PLACES - 1) | (jnp.uint32(1) << (card - 1).astype(jnp.uint32))
    others, queue = _own_action(table.queue, card, play)
    for place in range(PLACES - 1):
        queue = _recur(queue, field(others, place))
    enters = _if(field(queue, 4) != 0, c.cards_in(queue, 2))
    queue = jnp.where(field(queue, 4) != 0, (queue >> 2 * FIELD) & ((1 << 2 * FIELD) - 1), queue)
    thrown = before & ~enters & ~c.cards_in(queue, PLACES - 1)
    return Zones(queue=queue, bar=table.bar | enters, out=table.out | thrown)


def _own_action(queue: jax.Array, card: jax.Array, play: Play) -> tuple[jax.Array, jax.Array]:
    """Section 4: the played card acts.

    Args:
      queue: u32[], before.
      card: i32[], the token of the played card.
      play: the action.

    Returns:
      The other cards left in the queue, in order, and the whole queue with the played card, u32[] each.
    """
    kind, n = play.acts_as, length(queue)
    strengths = [strength_of(field(queue, place)) for place in range(PLACES - 1)]
    lions = any_of(s == c.LION for s in strengths)
    monkeys = (kind == c.MONKEY) & any_of(s == c.MONKEY for s in strengths)
    to_field = _fields(_place_ahead(queue, FIELD * n, kind))

    top = largest(strengths, jnp.int32(c.LION + 1))
    second = largest(strengths, top)
    thrown, keys = [], []
    for place, strength in enumerate(strengths):
        hit = jnp.where(kind == c.LION, ~lions & (strength == c.MONKEY), False)
        hit |= (kind == c.CROCODILE) & (place >= to_field)
        hit |= monkeys & ((strength == c.HIPPO) | (strength == c.CROCODILE))
        hit |= place == play.victim
        hit |= (kind == c.SKUNK) & (strength > c.SKUNK) & (strength >= second)
        thrown.append(hit | (strength == 0))
        key = jnp.where(kind == c.SEAL, PLACES - place, jnp.int32(place))
        key = jnp.where(kind == c.SNAKE, 8 * (c.LION - strength) + place, key)
        first = jnp.where(strength == c.MONKEY, PLACES - place, 8 + place)
        keys.append(jnp.where(monkeys, first, key))
    others, kept = _arranged(queue, thrown, keys)

    not_weaker = sum((s >= c.SNAKE).astype(jnp.int32) for s in strengths)
    ahead = (kind == c.HIPPO) | (kind == c.CROCODILE) | (kind == c.GIRAFFE)
    mine = jnp.where(ahead, to_field, jnp.where(kind == c.KANGAROO, n - play.hop, kept))
    mine = jnp.where((kind == c.LION) | (kind == c.SEAL) | monkeys, 0, jnp.where(kind == c.SNAKE, not_weaker, mine))
    inserted = _insert(others, FIELD * mine, card)
    return others, jnp.where((kind == c.LION) & lions, others, inserted)


def _arranged(queue: jax.Array, thrown: list[jax.Array], keys: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns the cards that are not thrown out in ascending order of their keys, and their number i32[]."""
    ranks = [jnp.int32(0)] * len(keys)
    for i in range(len(keys)):
        for j in range(i):
            before = keys[j] < keys[i]
            ranks[i] += (before & ~thrown[j]).astype(jnp.int32)
            ranks[j] += (~before & ~thrown[i]).astype(jnp.int32)
    arranged, kept = jnp.uint32(0), jnp.int32(0)
    for place, (rank, gone) in enumerate(zip(ranks, thrown, strict=True)):
        token = jnp.where(gone, 0, field(queue, place)).astype(jnp.uint32)
        arranged |= token << (FIELD * rank).astype(jnp.uint32)
        kept += (~gone).astype(jnp.int32)
    return arranged, kept


def _recur(queue: jax.Array, token: jax.Array) -> jax.Array:
    """Section 5: the card `token` (i32[]) acts again if it is a hippo, a crocodile or a giraffe."""
    offset = _offset_of(queue, token)
    strength = strength_of(token)
    to = _place_ahead(queue, offset, strength)
    card = token.astype(jnp.uint32) << to.astype(jnp.uint32)
    front = queue & _below(to)
    passed = queue & _below(offset) & ~_below(to)
    moved = front | card | passed << FIELD | (queue & ~_below(offset + FIELD))
    behind = (queue >> (offset + FIELD).astype(jnp.uint32)) << (to + FIELD).astype(jnp.uint32)
    eaten = front | card | behind
    acts = (strength == c.HIPPO) | (strength == c.GIRAFFE)
    return jnp.where(strength == c.CROCODILE, eaten, jnp.where(acts, moved, queue))


def _place_ahead(queue: jax.Array, offset: jax.Array, strength: jax.Array) -> jax.Array:
    """Target of a hippo, crocodile or giraffe at bit `offset` of the queue, as a bit offset, i32[]."""
    stops = jnp.where(
        strength == c.HIPPO,
        jnp.uint32(tokens_of(c.ZEBRA, c.HIPPO, c.LION)),
        jnp.where(
            strength == c.CROCODILE,
            jnp.uint32(tokens_of(c.ZEBRA, c.CROCODILE, c.HIPPO, c.LION)),
            jnp.uint32(tokens_of(c.GIRAFFE, c.SNAKE, c.CROCODILE, c.HIPPO, c.LION)),
        ),
    )
    blocked = jnp.uint32(0)  # the lowest bit of every field whose card stops this one
    for place in range(PLACES):
        blocked |= ((stops >> field(queue, place).astype(jnp.uint32)) & 1) << jnp.uint32(FIELD * place)
    # A giraffe makes one hop: all but the card directly ahead stop it.
    beyond = (_below(offset) >> FIELD) & jnp.uint32(c.EVERY_FIELD)
    blocked = (blocked | jnp.where(strength == c.GIRAFFE, beyond, 0)) & _below(offset)
    last = 31 - lax.clz(blocked).astype(jnp.int32)  # bit of the last card that stops it, -1 = none
    return jnp.where(blocked == 0, 0, last + FIELD)


def _offset_of(queue: jax.Array, token: jax.Array) -> jax.Array:
    """Returns the bit offset of a card in the queue, i32[]; meaningless if it is not there.

    The field that equals the token becomes 0, and the classic borrow trick finds the lowest zero field.
    """
    different = queue ^ (token.astype(jnp.uint32) * jnp.uint32(c.EVERY_FIELD))
    highest = jnp.uint32(c.EVERY_FIELD << (FIELD - 1))
    zero = (different - jnp.uint32(c.EVERY_FIELD)) & ~different & highest
    lowest = zero & (jnp.uint32(0) - zero)
    return jnp.where(zero == 0, 0, (31 - lax.clz(lowest).astype(jnp.int32)) - (FIELD - 1))


# ---- the game -------------------------------------------------------------------------------------------------------


def step(game: BeastyBarGame, action: jax.Array) -> BeastyBarGame:
    """Plays one turn with the draw; `action` is i32[], legal."""
    chex.assert_rank(action, 0)
    seat = game.seat
    play = decode(game.table.queue, action)
    table = play_turn(game.table, seat, play)
    draws = (game.ply >> 1) < c.DECK_SIZE
    top = jnp.where(seat == 0, game.deck0, game.deck1) & 15
    drawn = _if(draws, jnp.uint32(1) << top)
    played = jnp.uint32(1) << (play.strength - 1).astype(jnp.uint32)
    hands = (game.hands & ~c.to_seat(played, seat)) | c.to_seat(drawn, seat)
    return BeastyBarGame(
        table=table,
        hands=hands,
        deck0=jnp.where(draws & (seat == 0), game.deck0 >> 4, game.deck0),
        deck1=jnp.where(draws & (seat == 1), game.deck1 >> 4, game.deck1),
        ply=game.ply + 1,
        start=game.start,
    )


def is_over(table: Zones) -> jax.Array:
    """bool[]: fewer than five cards are outside bar and THAT'S IT (section 6)."""
    return lax.population_count(table.bar | table.out) >= END_CARDS


def scores(table: Zones) -> jax.Array:
    """i32[2]: the points of each seat's cards in the bar."""
    return jnp.stack([c.species_points(c.of_seat(table.bar, jnp.int32(seat))) for seat in range(2)])


def decks_left(game: BeastyBarGame) -> jax.Array:
    """u32[]: the set of the cards that are still in the decks."""
    seen = game.table.bar | game.table.out | game.hands | c.cards_in(game.table.queue, PLACES - 1)
    return jnp.uint32(c.ALL_CARDS) & ~seen


# ---- small helpers --------------------------------------------------------------------------------------------------


def _if(condition: jax.Array, word: jax.Array) -> jax.Array:
    """`word` where the lowest bit of the condition is set, else 0."""
    return word & (jnp.uint32(0) - (condition.astype(jnp.uint32) & 1))


def _below(offset: jax.Array) -> jax.Array:
    """u32[]: all bits below a bit offset (i32[], at most 30)."""
    return (jnp.uint32(1) << offset.astype(jnp.uint32)) - 1


def _fields(offset: jax.Array) -> jax.Array:
    """Returns a bit offset as a number of fields, without a division (offset <= 25)."""
    return (offset * 13) >> 6


def _insert(queue: jax.Array, offset: jax.Array, token: jax.Array) -> jax.Array:
    """Returns the queue with a card at a bit offset, the cards behind it moved back."""
    card = token.astype(jnp.uint32) << offset.astype(jnp.uint32)
    return (queue & _below(offset)) | card | (queue & ~_below(offset)) << FIELD


def largest(strengths: list[jax.Array], limit: jax.Array) -> jax.Array:
    """i32[]: the largest strength below `limit`, skunks excepted; 0 if no strength qualifies."""
    best = jnp.int32(0)
    for strength in strengths:
        best = jnp.maximum(best, jnp.where((strength > c.SKUNK) & (strength < limit), strength, 0))
    return best


def any_of(flags) -> jax.Array:
    """bool[]: any of an iterable of bool[]."""
    result = jnp.bool_(False)
    for flag in flags:
        result = result | flag
    return result
