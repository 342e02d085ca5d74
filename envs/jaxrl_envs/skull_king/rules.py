"""The rules of Skull King as pure functions over a few dozen words (specification sections 2 to 8).

`SkullKingGame` is the whole position. `step` executes one legal action: dealing, trick resolution and scoring happen
inside the step that causes them, so exactly one seat acts at every moment. Nothing here knows of learning or of
observations.

Small per-seat numbers (bids, tricks won, wagers ...) are entries of one u32 word, see
`jaxrl_envs.shared.cards.get_field`.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import select
from jaxrl_envs.shared import kernels
from jaxrl_envs.shared.cards import CardSet, Hands, add_field, get_field, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king.deal import NUM_ROUNDS, Deal, Setup, cards_dealt, deal_cards, deal_from_deck
from jaxrl_envs.skull_king.history import History
from jaxrl_envs.skull_king.trick import Outcome, Trick, resolve

BID, PLAY, ROSIE, BENDT, ROATAN, HARRY, END = range(7)
NUM_ACTIONS = 100
FIRST_PLAY, PLAY_TIGRESS_PIRATE, FIRST_ROSIE, FIRST_ROATAN, FIRST_HARRY = 11, 85, 86, 94, 97


@struct.dataclass
class Round:
    """Everything that a new round clears; i32[] unless noted."""

    leader: jax.Array  # leads the current trick; also the seat that bids first
    tricks: jax.Array  # tricks finished
    trick: Trick
    hands: Hands
    top: CardSet  # the two cards on top of the stock, until Bendt draws them
    seen: CardSet  # played this round, the current trick included
    bids: jax.Array  # u32[]: 4 bits a seat, after Harry
    won: jax.Array  # u32[]: 4 bits a seat
    captured: tuple[jax.Array, jax.Array]  # u32[]: captured points / 10, 8 bits a seat, 4 seats a word
    wagers: jax.Array  # u32[]: Roatan's wager / 10, 4 bits a seat
    voids: jax.Array  # u32[]: bit 4 * seat + suit, the seat could not follow that suit
    alliances: jax.Array  # u32[]: 4-bit entries (Loot player + 1, trick winner + 1) for each of the two Loots
    harry: jax.Array  # the seat that may change its bid at the end of the round, -1 = none
    jade: jax.Array  # the seat that saw the stock, -1 = none
    jade_view: CardSet
    bendt: jax.Array  # the seat that drew from the stock, -1 = none
    bendt_drawn: jax.Array  # how many cards
    bendt_left: jax.Array  # discards still to make
    discards: CardSet  # discarded with Bendt
    history: History | None  # only of a table that asks for it

    @classmethod
    def begin(cls, deal: Deal, starter: jax.Array, setup: Setup) -> Round:
        zero, none, word = jnp.int32(0), jnp.int32(-1), jnp.uint32(0)
        return cls(
            leader=starter, tricks=zero, trick=Trick.empty(), hands=deal.hands, top=deal.top, seen=CardSet.empty(),
            bids=word, won=word, captured=(word, word), wagers=word, voids=word, alliances=word, harry=none,
            jade=none, jade_view=CardSet.empty(), bendt=none, bendt_drawn=zero, bendt_left=zero,
            discards=CardSet.empty(), history=History.empty(setup.players) if setup.history else None,
        )  # fmt: skip


@struct.dataclass
class SkullKingGame:
    """A position; i32[] unless noted."""

    number: jax.Array  # the round, 1..10
    first: jax.Array  # the seat that starts round 1
    phase: jax.Array
    actor: jax.Array  # the seat that acts now
    scores: jax.Array  # i32[P], totals
    exact: jax.Array  # u32[]: rounds with an exact bid, 4 bits a seat
    round: Round
    next_number: jax.Array  # the round that `next` is being dealt for
    next: Deal
    fixed: Deal | None  # all ten deals with a leading axis 10, when the decks are given


class RoundResult(NamedTuple):
    """The round that a step has scored, if any."""

    scored: jax.Array  # bool[]: a round was scored
    points: jax.Array  # i32[P]: the points of that round
    round: Round  # as it was scored


# ---- new games ------------------------------------------------------------------------------------------------------


def begin_game(number: jax.Array, deal: Deal, first: jax.Array, setup: Setup) -> SkullKingGame:
    """Returns a game before the first bid of round `number` (i32[]); `first` (i32[]) started round 1."""
    leads = small_mod(first + number - 1, setup.players)
    return SkullKingGame(
        number=number,
        first=first,
        phase=jnp.int32(BID),
        actor=leads,
        scores=jnp.zeros(setup.players, jnp.int32),
        exact=jnp.uint32(0),
        round=Round.begin(deal, leads, setup),
        next_number=jnp.minimum(number + 1, NUM_ROUNDS),
        next=Deal.empty(setup.players),
        fixed=None,
    )


def game_from_decks(decks: jax.Array, first: jax.Array, setup: Setup) -> SkullKingGame:
    """Returns a whole game from given deck orders.

    Args:
      decks: integers [10, 74] (70 without the expansion; further columns are ignored), the deck of each round.
      first: i32[], the seat that starts round 1.
      setup: the table.
    """
    fixed = jax.vmap(lambda deck, number: deal_from_deck(deck, number, setup))(decks, jnp.arange(1, NUM_ROUNDS + 1))
    deal = jax.tree.map(lambda leaf: leaf[0], fixed)
    return begin_game(jnp.int32(1), deal, jnp.asarray(first).astype(jnp.int32), setup).replace(fixed=fixed)


# ---- questions about a position -------------------------------------------------------------------------------------


def starter(game: SkullKingGame, setup: Setup) -> jax.Array:
    """Returns the seat that bids first and leads the first trick of the current round."""
    return small_mod(game.first + game.number - 1, setup.players)


def stock(game: SkullKingGame, setup: Setup) -> CardSet:
    """Returns the undealt cards of the current round."""
    r = game.round
    return c.deck(setup.expansion) - r.hands.held - r.seen - r.discards


def legal_cards(game: SkullKingGame) -> CardSet:
    """Returns the acting seat's legal cards in PLAY (specification section 4) or BENDT."""
    hand = game.round.hands.of(game.actor)
    follow = game.round.trick.follow
    suit = c.suit_cards(follow, c.suit_bits(hand, follow))
    must = suit.any() & (game.phase == PLAY)
    other_suits = (c.card_set(range(56)) - suit).where(must)
    return hand - other_suits


def legal_words(game: SkullKingGame, setup: Setup) -> tuple[jax.Array, ...]:
    """Returns the legal actions as four u32 words.

    Words 0..2 are the legal cards by slot; word 3 has bit 0 = action 85, bits 1..14 = actions 86..99 and bits
    15..25 = bids 0..10. Within a phase the bit order is the action order.
    """
    phase, r = game.phase, game.round
    playing = phase == PLAY
    cards = legal_cards(game).where(playing | (phase == BENDT))
    pirate = (playing & ((cards.w2 >> (c.slot_of(c.TIGRESS) - 64)) & 1).astype(bool)).astype(jnp.uint32)
    hand = cards_dealt(game.number, setup)
    bids = ((jnp.uint32(2) << hand.astype(jnp.uint32)) - 1) << 15
    bid = get_field(r.bids, game.actor)
    harry = (2 + (bid > 0) + 4 * (bid < hand)).astype(jnp.uint32) << 12
    seats = jnp.uint32(((1 << setup.players) - 1) << 1)
    zero = jnp.uint32(0)
    other = pirate
    for when, bits in ((BID, bids), (ROSIE, seats), (ROATAN, jnp.uint32(7 << 9)), (HARRY, harry)):
        other = other | jnp.where(phase == when, bits, zero)
    return (*cards.words, other)


def action_of_bit(bit: jax.Array) -> jax.Array:
    """Returns the action of a bit index 0..127 of `legal_words`, i32[]."""
    special = jnp.where(bit < 111, bit - 96 + PLAY_TIGRESS_PIRATE, bit - 111)
    return jnp.where(bit < 96, FIRST_PLAY + c.card(bit), special)


def bit_of_action(action: jax.Array) -> jax.Array:
    """Returns the bit index of an action, i32[]."""
    other = jnp.where(action < FIRST_PLAY, action + 111, action - PLAY_TIGRESS_PIRATE + 96)
    card = (action >= FIRST_PLAY) & (action < PLAY_TIGRESS_PIRATE)
    return jnp.where(card, c.slot(action - FIRST_PLAY), other)


# i32[100], `bit_of_action` of every action: a table in NumPy, because jnp would start a backend where none is needed.
BITS = np.array([
    *(action + 111 for action in range(FIRST_PLAY)),
    *(c.slot_of(card) for card in range(c.NUM_CARDS)),
    *(action - PLAY_TIGRESS_PIRATE + 96 for action in range(PLAY_TIGRESS_PIRATE, NUM_ACTIONS)),
], np.int32)  # fmt: skip


# ---- one step -------------------------------------------------------------------------------------------------------


def step(game: SkullKingGame, action: jax.Array, bits: jax.Array, setup: Setup) -> tuple[SkullKingGame, RoundResult]:
    """Executes a legal action.

    Args:
      game: a running position.
      action: i32[], specification section 6.
      bits: u32[draws], randomness for dealing ahead.
      setup: the table.
    """
    chex.assert_rank(action, 0)
    phase, actor = game.phase, game.actor
    if game.fixed is None:
        game = game.replace(next=deal_cards(game.next, game.next_number, bits, setup))
    game = _use_card(game, action, setup)
    game, outcome, trick_done = _finish_trick(game, phase == PLAY, setup)
    game = _use_ability(game, action, phase, setup)
    game, round_done = _next_phase(game, phase, trick_done, outcome, actor, setup)
    return _finish_round(game, round_done, setup)


def _use_card(game: SkullKingGame, action: jax.Array, setup: Setup) -> SkullKingGame:
    """Bids, plays a card to the trick or discards one."""
    r, phase, actor = game.round, game.phase, game.actor
    playing = phase == PLAY
    discarding = phase == BENDT
    card = jnp.where(action == PLAY_TIGRESS_PIRATE, c.TIGRESS, action - FIRST_PLAY)
    play = jnp.where(action == PLAY_TIGRESS_PIRATE, c.TIGRESS_PIRATE, card)
    single = CardSet.single(c.slot(card)).where(playing | discarding)
    follow = r.trick.follow
    suit = jnp.where(play < 56, c.suit_of(play), follow)
    shown_void = playing & (follow < c.NO_SUIT) & (suit != follow)
    history = r.history
    if history is not None:
        pirate = playing & (action == PLAY_TIGRESS_PIRATE)
        history = history.add(single.where(playing), actor, r.tricks, r.trick.size == 0, pirate)
    void_bit = jnp.uint32(1) << ((actor * 4 + jnp.minimum(follow, 3)).astype(jnp.uint32))
    r = r.replace(
        bids=add_field(r.bids, actor, jnp.where(phase == BID, action, 0)),
        trick=select(playing, r.trick.add(actor, play), r.trick),
        hands=r.hands.take(single),
        seen=r.seen | single.where(playing),
        discards=r.discards | single.where(discarding),
        voids=r.voids | jnp.where(shown_void, void_bit, jnp.uint32(0)),
        bendt_left=r.bendt_left - discarding,
        history=history,
    )
    return game.replace(round=r)


def _finish_trick(game: SkullKingGame, playing: jax.Array, setup: Setup) -> tuple[SkullKingGame, Outcome, jax.Array]:
    """Resolves a complete trick: tricks won, captures and Loot alliances."""
    r = game.round
    done = playing & (r.trick.size == setup.players)
    outcome = resolve(r.trick, r.leader)
    winner = outcome.winner
    taken = done & (winner >= 0)
    seat = jnp.maximum(winner, 0)
    bonus = jnp.where(taken, outcome.bonus, 0)
    low = seat < 4
    alliances = r.alliances
    for i, looter in enumerate(r.trick.loots):
        allied = taken & (looter >= 0) & (looter != winner)
        alliances = add_field(alliances, jnp.int32(i), jnp.where(allied, (looter + 1) + 16 * (winner + 1), 0), 8)
    r = r.replace(
        tricks=r.tricks + done,
        won=add_field(r.won, seat, taken),
        captured=(
            add_field(r.captured[0], seat & 3, jnp.where(low, bonus, 0), 8),
            add_field(r.captured[1], seat & 3, jnp.where(low, 0, bonus), 8),
        ),
        alliances=alliances,
        leader=jnp.where(done, outcome.next_leader, r.leader),
        trick=select(done, Trick.empty(), r.trick),
    )
    pirate = jnp.where(taken, outcome.pirate, 0)
    return game.replace(round=r), outcome._replace(pirate=pirate), done


def _use_ability(game: SkullKingGame, action: jax.Array, phase: jax.Array, setup: Setup) -> SkullKingGame:
    """Applies the decisions of Rosie, Roatan and Harry (Bendt's discards are in `_use_card`)."""
    if not setup.abilities:
        return game
    r, actor = game.round, game.actor
    r = r.replace(
        leader=jnp.where(phase == ROSIE, small_mod(actor + action - FIRST_ROSIE, setup.players), r.leader),
        wagers=add_field(r.wagers, actor, jnp.where(phase == ROATAN, action - FIRST_ROATAN, 0)),
        bids=add_field(r.bids, actor, jnp.where(phase == HARRY, action - FIRST_HARRY - 1, 0)),
    )
    return game.replace(round=r)


def _next_phase(
    game: SkullKingGame, phase: jax.Array, trick_done: jax.Array, outcome: Outcome, actor: jax.Array, setup: Setup
) -> tuple[SkullKingGame, jax.Array]:
    """Returns the next seat and phase; bool[] whether the round is over. A Pirate's ability begins here."""
    r = game.round
    next_seat = small_mod(actor + 1, setup.players)
    last_bid = (phase == BID) & (next_seat == r.leader)
    last_trick = trick_done & (r.tricks == cards_dealt(game.number, setup))
    same = (phase == BID) & ~last_bid
    between = (phase == PLAY) & ~trick_done
    next_phase = jnp.where(same, BID, PLAY)
    next_actor = jnp.where(same | between, next_seat, r.leader)
    round_done = last_trick
    if setup.abilities:
        r, ability = _begin_ability(game, trick_done & ~last_trick, outcome, setup)
        r = r.replace(harry=jnp.where(trick_done & (outcome.pirate == c.HARRY), outcome.winner, r.harry))
        discarding = (phase == BENDT) & (r.bendt_left > 0)
        harry_now = last_trick & (r.harry >= 0)
        next_phase = jnp.where(ability > 0, ability, jnp.where(discarding, BENDT, next_phase))
        next_phase = jnp.where(harry_now, HARRY, next_phase)
        next_actor = jnp.where(ability > 0, outcome.winner, jnp.where(discarding, actor, next_actor))
        next_actor = jnp.where(harry_now, r.harry, next_actor)
        round_done = (last_trick & ~harry_now) | (phase == HARRY)
    return game.replace(round=r, phase=next_phase, actor=next_actor), round_done


def _begin_ability(game: SkullKingGame, fires: jax.Array, outcome: Outcome, setup: Setup) -> tuple[Round, jax.Array]:
    """Jade's look and Bendt's draw; the phase that follows, 0 = none (specification section 7)."""
    r = game.round
    pirate = jnp.where(fires, outcome.pirate, 0)
    winner = outcome.winner
    draws = (pirate == c.BENDT) & r.top.any()
    drawn = r.top.where(draws)
    looks = pirate == c.JADE
    view = stock(game, setup).where(looks)
    clear = ~(jnp.uint32(15) << (jnp.maximum(winner, 0) * 4).astype(jnp.uint32))
    amount = jnp.where(draws, r.top.count(), 0)
    r = r.replace(
        hands=r.hands.give(jnp.maximum(winner, 0), drawn),
        top=r.top - drawn,
        voids=jnp.where(draws, r.voids & clear, r.voids),
        bendt=jnp.where(draws, winner, r.bendt),
        bendt_drawn=r.bendt_drawn + amount,
        bendt_left=r.bendt_left + amount,
        jade=jnp.where(looks, winner, r.jade),
        jade_view=r.jade_view | view,
    )
    phase = jnp.where(pirate == c.ROSIE, ROSIE, jnp.where(draws, BENDT, jnp.where(pirate == c.ROATAN, ROATAN, 0)))
    return r, phase


def score_round(r: Round, number: jax.Array, setup: Setup) -> tuple[jax.Array, jax.Array]:
    """Points of each seat for a finished round, i32[P], and bool[P] who bid exactly (specification section 8)."""
    seats = np.arange(setup.players, dtype=np.int32)
    hand = cards_dealt(number, setup)
    bid, won = get_field(r.bids, seats), get_field(r.won, seats)
    captured = get_field(jnp.where(seats < 4, r.captured[0], r.captured[1]), seats & 3, 8)
    exact = bid == won
    zero_bid = 10 * hand
    hit = jnp.where(bid == 0, zero_bid, 20 * bid + 10 * captured)
    miss = jnp.where(bid == 0, -zero_bid, -10 * jnp.abs(won - bid))
    wager = 10 * get_field(r.wagers, seats)
    points = jnp.where(exact, hit + wager, miss - wager)
    matches = ((r.bids ^ r.won) >> (4 * seats).astype(jnp.uint32)) & 15
    for i in range(2):
        pair = get_field(r.alliances, 2 * i) - 1, get_field(r.alliances, 2 * i + 1) - 1
        member = (seats == pair[0]) | (seats == pair[1])
        both = (pair[0] >= 0) & (kernels.total(member & (matches != 0)) == 0)
        points = points + jnp.where(both & member, 20, 0)
    return points, exact


def _finish_round(game: SkullKingGame, done: jax.Array, setup: Setup) -> tuple[SkullKingGame, RoundResult]:
    """Scores a finished round and deals the next one, or ends the game."""
    points, exact = score_round(game.round, game.number, setup)
    points = jnp.where(done, points, 0)
    ends = done if setup.single_round else done & (game.number == NUM_ROUNDS)
    onward = done & ~ends
    exact_bits = kernels.total(exact.astype(jnp.uint32) << (4 * np.arange(setup.players, dtype=np.uint32)))
    scored = game.replace(scores=game.scores + points, exact=game.exact + jnp.where(done, exact_bits, jnp.uint32(0)))
    result, ended = RoundResult(done, points, game.round), scored.replace(phase=jnp.where(ends, END, game.phase))
    if setup.single_round:
        return ended, result
    number = scored.number + 1
    deal = scored.next if game.fixed is None else _fixed_deal(game.fixed, number)
    leads = small_mod(game.first + number - 1, setup.players)
    following = scored.replace(
        number=number,
        phase=jnp.int32(BID),
        actor=leads,
        round=Round.begin(deal, leads, setup),
        next_number=jnp.where(number == NUM_ROUNDS, 1, number + 1),
        next=Deal.empty(setup.players) if game.fixed is None else scored.next,
    )
    return select(onward, following, ended), result


def _fixed_deal(fixed: Deal, number: jax.Array) -> Deal:
    """Row `number` - 1 of the given deals."""
    row = jnp.arange(NUM_ROUNDS) == number - 1
    return jax.tree.map(lambda x: jnp.sum(jnp.where(row, x, 0), dtype=x.dtype), fixed)


# ---- ranking --------------------------------------------------------------------------------------------------------


def ranking(scores: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the competition ranking with ties (specification section 9).

    Returns:
      rank i32[P] (1 = best), rank return f32[P] (+1 to -1 from the mean of shared places), win share f32[P].
    """
    better = kernels.total(scores[None, :] > scores[:, None])
    equal = kernels.total(scores[None, :] == scores[:, None])  # the seat itself included
    place = better + (equal + 1) / 2
    rank_return = 1.0 - 2.0 * (place - 1.0) / (scores.shape[0] - 1)
    win_share = jnp.where(better == 0, 1.0 / equal, 0.0)
    return better + 1, rank_return.astype(jnp.float32), win_share.astype(jnp.float32)
