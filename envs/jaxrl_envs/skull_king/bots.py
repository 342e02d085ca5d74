"""The rule-based bots random, easy, medium and hard (specification section 12) as vectorised pure functions.

Each `choose_*` is a function of the position and of three integers k in 0..999 only. Nothing is simulated or sorted: a
card's worth is summed from bit planes with popcounts, the k-th card of an order is found by radix selection over the
bit planes of that order, and the unseen cards that would beat a play are counted by set formulas.

Plays are held as a `CardSet` whose slot 82 is the Tigress declared pirate, so that slot order is action order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrl_envs.contract.env import Bot, Key
from jaxrl_envs.shared.cards import CardSet, get_field, nth_set_bit, scale
from jaxrl_envs.skull_king import bot_tables as tables
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.deal import Setup, cards_dealt
from jaxrl_envs.skull_king.rules import SkullKingGame
from jaxrl_envs.skull_king.trick import WHALE_LAST, Trick, winning_plays

Legal = tuple[jax.Array, ...]  # the four words of `rules.legal_words`
Choose = Callable[[SkullKingGame, Legal, jax.Array, Setup], jax.Array]

_LOSE, _MID, _WIN = 0, 1, 2


def choose_random(game: SkullKingGame, legal: Legal, k: jax.Array, setup: Setup) -> jax.Array:
    """Returns a uniformly random legal action, i32[]."""
    del game, setup
    count = sum(lax.population_count(word) for word in legal)
    return rules.action_of_bit(nth_set_bit(legal, k[0] * jnp.asarray(count).astype(jnp.int32) // 1000))


def choose_easy(game: SkullKingGame, legal: Legal, k: jax.Array, setup: Setup) -> jax.Array:
    """Ignores the table and loses its head now and then, i32[]."""
    return _choose_simple(game, legal, k, setup, easy=True)


def choose_medium(game: SkullKingGame, legal: Legal, k: jax.Array, setup: Setup) -> jax.Array:
    """Knows which of its plays would win now, i32[]."""
    return _choose_simple(game, legal, k, setup, easy=False)


def choose_hard(game: SkullKingGame, legal: Legal, k: jax.Array, setup: Setup) -> jax.Array:
    """Counts the unseen cards that would beat each of its plays, i32[]; it does not use k."""
    del k
    r = game.round
    need, left, hand_size = _needs(game, setup)
    estimate = weigh(r.hands.of(game.actor), tables.hard_worth(setup.players))
    distance = jnp.abs(estimate - 100 * need)
    wager = jnp.where(distance <= 60, 2, jnp.where(distance <= 100, 1, 0))
    return _by_phase(
        game,
        bid=jnp.clip((estimate + 35) // 100, 0, hand_size),
        card=_hard_card(game, legal, setup, need, left, estimate),
        rosie=rules.FIRST_ROSIE + 1,
        roatan=rules.FIRST_ROATAN + wager,
        harry=rules.FIRST_HARRY + 1 + jnp.clip(-need, -1, 1),
    )


CHOOSE: Mapping[str, Choose] = {
    "random": choose_random,
    "easy": choose_easy,
    "medium": choose_medium,
    "hard": choose_hard,
}


def make_bots(setup: Setup) -> dict[str, Bot]:
    """Returns the bots of a table as `(state, key) -> action`; k is drawn from the key."""

    def play(choose: Choose, state, key: Key) -> jax.Array:
        k = jax.vmap(lambda bits: scale(bits, jnp.int32(1000)))(jax.random.bits(key, (3,)))
        return choose(state.game, state.legal, k, setup)

    return {name: partial(play, choose) for name, choose in CHOOSE.items()}


# ---- what all bots share --------------------------------------------------------------------------------------------


def _needs(game: SkullKingGame, setup: Setup) -> tuple[jax.Array, jax.Array, jax.Array]:
    """i32[] each: bid - won of the actor, tricks left with the current one, cards dealt."""
    r = game.round
    hand_size = cards_dealt(game.number, setup)
    return get_field(r.bids, game.actor) - get_field(r.won, game.actor), hand_size - r.tricks, hand_size


def _by_phase(game: SkullKingGame, *, bid, card, rosie, roatan, harry) -> jax.Array:
    """Returns the answer for the present phase, i32[]; 0 once the game is over."""
    action = jnp.int32(0)
    for phases, answer in (
        ((rules.BID,), bid),
        ((rules.PLAY, rules.BENDT), card),
        ((rules.ROSIE,), rosie),
        ((rules.ROATAN,), roatan),
        ((rules.HARRY,), harry),
    ):
        here = reduce(operator.or_, [game.phase == phase for phase in phases])
        action = jnp.where(here, answer, action)
    return action.astype(jnp.int32)


def _plays(legal: Legal) -> CardSet:
    """Returns the legal plays by slot, slot 82 being the Tigress as pirate."""
    return CardSet(legal[0], legal[1], legal[2] | ((legal[3] & 1) << (tables.SLOT_TIGRESS_PIRATE - 64)))


def _winning(trick: Trick) -> CardSet:
    """Returns the plays that would win if the trick ended with them, by slot."""
    cards, pirate = winning_plays(trick)
    return cards | CardSet.constant([tables.SLOT_TIGRESS_PIRATE]).where(pirate)


def weigh(cards: CardSet, table: np.ndarray) -> jax.Array:
    """i32[]: the sum of a table [83] of numbers 0..127 over a set of slots."""
    total = jnp.int32(0)
    for digit, words in enumerate(tables.planes(table)):
        plane = CardSet(*(jnp.uint32(word) for word in words))
        total = total + ((cards & plane).count() << digit)
    return total


def _select(cards: CardSet, k: jax.Array, first: jax.Array, orders: tuple[np.ndarray, np.ndarray]) -> jax.Array:
    """i32[]: the action of the k-th play (from 0) of a non-empty set in one of two orders.

    Args:
      cards: plays by slot.
      k: i32[], 0 <= k < number of plays.
      first: bool[], the first of the orders.
      orders: u32[7, 3] each, the bit planes of each slot's distinct position in the order, lowest digit first.
    """
    for digit in reversed(range(len(orders[0]))):
        ones = CardSet(*(jnp.where(first, a, b) for a, b in zip(orders[0][digit], orders[1][digit], strict=True)))
        low = cards - ones
        count = low.count()
        beyond = k >= count
        cards = jax.tree.map(lambda a, b, beyond=beyond: jnp.where(beyond, a, b), cards & ones, low)
        k = jnp.where(beyond, k - count, k)
    return rules.FIRST_PLAY + c.card(cards.nth(jnp.int32(0)))


# ---- easy and medium ------------------------------------------------------------------------------------------------


def _choose_simple(game: SkullKingGame, legal: Legal, k: jax.Array, setup: Setup, *, easy: bool) -> jax.Array:
    need, left, hand_size = _needs(game, setup)
    noise = 100 if easy else 50
    x = weigh(game.round.hands.of(game.actor), tables.WORTH) + k[0] * (2 * noise + 1) // 1000 - noise
    return _by_phase(
        game,
        bid=jnp.clip((x + 50) // 100, 0, hand_size),
        card=_simple_card(game, legal, k, need, left, easy),
        rosie=rules.FIRST_ROSIE,
        roatan=rules.FIRST_ROATAN + 1,
        harry=rules.FIRST_HARRY + 1 - jnp.where(jnp.abs(need) <= 1, need, 0),
    )


def _simple_card(
    game: SkullKingGame, legal: Legal, k: jax.Array, need: jax.Array, left: jax.Array, easy: bool
) -> jax.Array:
    """Returns the card to play or, with Bendt, to discard."""
    discarding = game.phase == rules.BENDT
    mode = jnp.where(need <= 0, _LOSE, jnp.where((need >= left) | (need > left // 2), _WIN, _MID))
    if easy:
        third = 3 * k[2] // 1000
        mode = jnp.where(k[1] < 300, jnp.where(third == 0, _WIN, jnp.where(third == 1, _LOSE, _MID)), mode)
    escape, pirate = CardSet.constant([c.slot_of(c.TIGRESS)]), CardSet.constant([tables.SLOT_TIGRESS_PIRATE])
    plays = _plays(legal)
    plays = plays - escape.where((need > 0) & ~discarding) - pirate.where(need <= 0)
    if easy:
        plays, mode = plays, jnp.where(discarding, _LOSE, mode)
        first, other = discarding, tables.BY_ACTION
    else:
        plays, mode = _with_the_table(game, plays, mode, discarding)
        first, other = discarding & (need <= 0), tables.BY_WEAKNESS
    count = plays.count()
    index = jnp.where(mode == _WIN, count - 1, jnp.where(mode == _MID, count // 2, 0))
    return _select(plays, jnp.maximum(index, 0), first, (other, tables.BY_STRENGTH))


def _with_the_table(
    game: SkullKingGame, plays: CardSet, mode: jax.Array, discarding: jax.Array
) -> tuple[CardSet, jax.Array]:
    """Medium: narrows the plays by the current winner; "last of R" is the WIN index of the losing plays."""
    winning = plays & _winning(game.round.trick)
    losing = plays - winning
    looking = (game.round.trick.size > 0) & ~discarding
    lose, win = looking & (mode == _LOSE), looking & (mode == _WIN)
    hopeless = looking & (mode != _LOSE) & ~winning.any()
    from_losing = lose & losing.any()
    from_winning = win & winning.any()
    narrowed = jax.tree.map(
        lambda a, lost, won: jnp.where(from_losing, lost, jnp.where(from_winning, won, a)), plays, losing, winning
    )
    mode = jnp.where(from_losing, _WIN, jnp.where(hopeless | discarding, _LOSE, mode))
    return narrowed, mode


# ---- hard -----------------------------------------------------------------------------------------------------------

_NONE = 1 << 30  # greater than any key of a play


class Threats(NamedTuple):
    """Counts of cards that could still take the trick from a play that wins it now; i32[] unless noted."""

    winning: CardSet  # the plays that win now
    suits: tuple[jax.Array, ...]  # u32[] for each suit, the unseen numbers: number m is bit m - 1
    special: tuple[jax.Array, ...]  # how many unseen cards beat a winning escape, pirate, king, mermaid
    plain: jax.Array  # how many unseen cards outside its suit beat a winning plain card, the Whale aside
    roger: jax.Array  # the same for a Jolly Roger
    whale: jax.Array  # 1 if the Whale is unseen
    kraken: jax.Array  # 1 if the Kraken is unseen
    whale_played: jax.Array  # bool[], the Whale decides the trick: only numbers count
    highest: jax.Array  # the highest number in the trick
    total: jax.Array  # unseen cards
    to_come: jax.Array  # seats to act after this one


class _Best(NamedTuple):
    """The least key (secondary, action) so far among some of the plays; i32[]."""

    rest: CardSet  # plays not looked at yet
    safe: jax.Array  # among plays with P >= 500
    weak: jax.Array  # among plays with P <= 100
    every: jax.Array  # among all plays
    risk: jax.Array  # among all plays, by P first


def _hard_card(
    game: SkullKingGame, legal: Legal, setup: Setup, need: jax.Array, left: jax.Array, estimate: jax.Array
) -> jax.Array:
    """Returns the play, or the discard with Bendt: the candidate with the least key."""
    discarding = game.phase == rules.BENDT
    threats = find_threats(game, setup)
    keep_strong = jnp.where(discarding, (need > 0) & (estimate <= 100 * need + 50), need > 0)
    none = jnp.int32(_NONE)
    start = _Best(rest=_plays(legal), safe=none, weak=none, every=none, risk=none)
    look = partial(_look_at_next, threats, keep_strong, need > 0, setup)
    # One play more than cards, because the Tigress counts twice. Unrolled: on a GPU each round of a loop is a launch.
    best, _ = lax.scan(look, start, None, length=setup.max_hand + 1, unroll=True)
    can_win = (best.risk >> 14) < 1000
    to_win = jnp.where(best.safe < _NONE, best.safe, jnp.where(best.weak < _NONE, best.weak, best.every))
    to_win = jnp.where((need >= left) & can_win, best.risk, to_win)
    last = game.round.trick.size == setup.players - 1
    to_lose = jnp.where(best.weak < _NONE, best.weak, jnp.where(last, best.every, best.risk))
    return jnp.where(discarding, best.every, jnp.where(need > 0, to_win, to_lose)) & 127


def _look_at_next(
    threats: Threats, keep_strong: jax.Array, wants_trick: jax.Array, setup: Setup, best: _Best, _: None
) -> tuple[_Best, None]:
    """Takes the first of the remaining plays into account."""
    single = _first(best.rest)
    slot = _slot_of_first(single)
    chance = jnp.where((single & threats.winning).any(), hold_chance(threats, slot, setup), 0)
    table = jnp.asarray(np.concatenate([127 - tables.DANGER, tables.COST]) << 7)
    secondary = table.at[slot + jnp.where(keep_strong, tables.NUM_SLOTS, 0)].get(mode="clip")
    key = jnp.where(best.rest.any(), secondary | (rules.FIRST_PLAY + c.card(slot)), _NONE)
    risk = jnp.where(wants_trick, 1000 - chance, chance) << 14
    return _Best(
        rest=best.rest - single,
        safe=jnp.minimum(best.safe, jnp.where(chance >= 500, key, _NONE)),
        weak=jnp.minimum(best.weak, jnp.where(chance <= 100, key, _NONE)),
        every=jnp.minimum(best.every, key),
        risk=jnp.minimum(best.risk, risk | key),
    ), None


def hold_chance(threats: Threats, slot: jax.Array, setup: Setup) -> jax.Array:
    """Thousandths, i32[]: the chance P that a play which wins now still wins when the seats to come have played.

    Each of them is taken to play a random unseen card.
    """
    total = threats.total
    open_cards = (total - beaten_by(threats, slot)).astype(jnp.float32)
    inverse = 1.0 / jnp.maximum(total, 1).astype(jnp.float32)
    p = jnp.float32(1000.0)
    for turn in range(setup.players - 1):
        # The exact quotient plus 0.5 / 74 is far enough from the next integer for any rounding of the division.
        p = jnp.where((turn < threats.to_come) & (total > 0), jnp.floor((p * open_cards + 0.5) * inverse), p)
    return p.astype(jnp.int32)


def beaten_by(threats: Threats, slot: jax.Array) -> jax.Array:
    """Returns the number of unseen cards that, played next, would take the trick from a play that wins now; i32[]."""
    suit, number = slot >> 4, (slot & 15) + 1
    shift = number.astype(jnp.uint32)
    higher = [lax.population_count(word >> shift).astype(jnp.int32) for word in threats.suits]
    own_suit = jnp.where(suit == 0, higher[0], jnp.where(suit == 1, higher[1], higher[2]))
    calm = jnp.where(suit == c.ROGER, threats.roger + higher[3], threats.plain + own_suit)
    calm = calm + jnp.where(number > threats.highest, 0, threats.whale)  # the Whale leaves the highest in place
    by_suit = jnp.where(threats.whale_played, threats.kraken + sum(higher), calm)
    escape, pirate, king, mermaid = threats.special
    i = slot - 64
    is_pirate = ((i >= 5) & (i < 10)) | (i == 18)
    by_class = jnp.where(is_pirate, pirate, jnp.where(i == 11, king, jnp.where((i == 12) | (i == 13), mermaid, escape)))
    return jnp.where(i < 0, by_suit, by_class)


def find_threats(game: SkullKingGame, setup: Setup) -> Threats:
    """Counts the unseen cards by class (specification section 12, hold chance)."""
    trick, unseen = game.round.trick, unseen_cards(game, setup)
    suits = (unseen.w0 & 0xFFFF, unseen.w0 >> 16, unseen.w1 & 0xFFFF, unseen.w1 >> 16)
    count = {name: lax.population_count(unseen.w2 & mask).astype(jnp.int32) for name, mask in tables.CLASSES.items()}
    rogers = lax.population_count(suits[3]).astype(jnp.int32)
    cards = (lax.population_count(unseen.w0) + lax.population_count(unseen.w1)).astype(jnp.int32)
    characters = count["pirate"] + count["king"] + count["mermaid"]
    beasts = count["kraken"] + count["whale"]
    return Threats(
        winning=_winning(trick),
        suits=suits,
        special=(
            beasts + characters + cards,
            beasts + count["king"],
            beasts + count["mermaid"],
            beasts + jnp.where(trick.king >= 0, 0, count["pirate"]),
        ),
        plain=count["kraken"] + characters + rogers,
        roger=count["kraken"] + characters,
        whale=count["whale"],
        kraken=count["kraken"],
        whale_played=trick.beast == WHALE_LAST,
        highest=trick.highest,
        total=unseen.count(),
        to_come=setup.players - 1 - trick.size,
    )


def unseen_cards(game: SkullKingGame, setup: Setup) -> CardSet:
    """Returns the cards that the actor cannot place: not in its hand, played, seen with Jade or discarded by it."""
    r, actor = game.round, game.actor
    known = r.hands.of(actor) | r.seen | r.jade_view.where(r.jade == actor) | r.discards.where(r.bendt == actor)
    return c.deck(setup.expansion) - known


def _first(cards: CardSet) -> CardSet:
    """Returns a set with the first card of `cards` alone; the empty set stays empty."""
    w0 = cards.w0 & (jnp.uint32(0) - cards.w0)
    w1 = jnp.where(cards.w0 == 0, cards.w1 & (jnp.uint32(0) - cards.w1), jnp.uint32(0))
    w2 = jnp.where((cards.w0 | cards.w1) == 0, cards.w2 & (jnp.uint32(0) - cards.w2), jnp.uint32(0))
    return CardSet(w0, w1, w2)


def _slot_of_first(single: CardSet) -> jax.Array:
    """i32[]: the slot of a set of one card."""
    word = single.w0 | single.w1 | single.w2
    base = jnp.where(single.w1 != 0, 32, jnp.where(single.w2 != 0, 64, 0))
    return base + lax.population_count(word - 1).astype(jnp.int32)
