"""Random worlds of Skull King: redraws what a seat cannot see, for search and for tests that nothing leaks.

A world agrees with all that the rules let the seat conclude: its own cards, everything played, the sizes of all hands
and of the stock, the suits that others could not follow, what it saw in the stock with Jade and threw away with Bendt.
The others' bids and plays would tell more, given a model of how they play; that is not used here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.shared.cards import CardSet, Hands, get_field, scale, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import holders, rules
from jaxrl_envs.skull_king.deal import NUM_ROUNDS, Deal, Setup, cards_dealt, deal_card
from jaxrl_envs.skull_king.rules import BID, END, SkullKingGame

MOST_DISCARDS = 2  # with Bendt
# By rounds to come: the lead in points that makes a seat e times as likely to win as another one; a rough guess.
SPREAD = np.array([1, 40, 60, 75, 90, 100, 110, 120, 125, 130, 135], np.float32)


def permute_hidden(game: SkullKingGame, seat: jax.Array, key: jax.Array, setup: Setup) -> SkullKingGame:
    """A position that `seat` (i32[]) cannot tell from `game`: other hands, the stock, hidden bids, Bendt's discards and
    the deals to come are redrawn (specification section 11). Fixed decks are replaced by random deals.

    Hidden cards are uniform over all that is possible while at most one other seat has shown to be void, or where the
    seat with more such suits lacks all of the other's too; else nearly so: the seats most bound are dealt first.
    """
    keys = jax.random.split(key, 5)
    hands, thrown = _deal_hidden(game, seat, keys[1], keys[2], setup)
    return _completed(game, seat, hands, thrown, (keys[0], keys[3], keys[4]), setup)


def world_with(game: SkullKingGame, seat: jax.Array, held_by: jax.Array, key: jax.Array, setup: Setup) -> SkullKingGame:
    """As `permute_hidden`, but the hidden cards are where `held_by` says (i32[74], see `holders`)."""
    hands, thrown = holders.dealt(game, seat, held_by, setup)
    return _completed(game, seat, hands, thrown, jax.random.split(key, 3), setup)


def _completed(
    game: SkullKingGame, seat: jax.Array, hands: Hands, thrown: CardSet, keys, setup: Setup
) -> SkullKingGame:
    """The position with these hands and discards; bids, the top of the stock and the deals to come are redrawn, each
    from one of three keys."""
    n, (bid_key, top_key, deal_key) = setup.players, keys
    guesses = jax.random.randint(bid_key, (n,), 0, cards_dealt(game.number, setup) + 1)
    game = with_bids(game, seat, guesses, setup)
    moved = game.round.replace(hands=hands, discards=thrown)
    free, top = rules.stock(game.replace(round=moved), setup), CardSet.empty()
    # What another seat saw with Jade is the stock of this world; what has been drawn of it since then is left out.
    jade = game.round.jade
    seen = game.round.jade_view.where(jade == seat) | free.where((jade >= 0) & (jade != seat))
    for bits in jax.random.bits(top_key, (2,)):
        top = top | _random(free - top, bits).where(top.count() < moved.top.count())

    def deal_one(deal: Deal, bits: jax.Array) -> tuple[Deal, None]:
        return deal_card(deal, game.next_number, bits, setup), None

    bits = jax.random.bits(deal_key, (n * setup.max_hand + 2,))
    following = jax.lax.scan(deal_one, Deal.empty(n), bits)[0]
    return game.replace(round=moved.replace(top=top, jade_view=seen), next=following, fixed=None)


def with_bids(game: SkullKingGame, seat: jax.Array, bids: jax.Array, setup: Setup) -> SkullKingGame:
    """While bidding: the bids that other seats than `seat` have made are replaced by theirs of i32[P]."""
    n, r = setup.players, game.round
    seats = jnp.arange(n)
    made = small_mod(seats - r.leader + n, n) < small_mod(game.actor - r.leader + n, n)
    change = (game.phase == BID) & made & (seats != seat)
    each = jnp.where(change, bids, get_field(r.bids, seats)).astype(jnp.uint32) << (4 * seats).astype(jnp.uint32)
    return game.replace(round=r.replace(bids=jnp.sum(each, dtype=jnp.uint32)))


# ---- cards ----------------------------------------------------------------------------------------------------------


def _deal_hidden(
    game: SkullKingGame, seat: jax.Array, key: jax.Array, jade_key: jax.Array, setup: Setup
) -> tuple[Hands, CardSet]:
    """Returns all hands, and Bendt's discards."""
    r, n = game.round, setup.players
    own = r.hands.of(seat)
    own_discards = r.discards.where(r.bendt == seat)
    pool = c.deck(setup.expansion) - own - r.seen - own_discards
    pool, drawn = _without_stock(game, seat, pool, jade_key, setup)
    counts = jnp.stack([r.hands.of(jnp.int32(s)).count() for s in range(n)]) * (np.arange(n) != seat)
    discards = jnp.where(r.bendt == seat, 0, r.discards.count())
    shown = jnp.stack([jax.lax.population_count((r.voids >> (4 * s)) & 15).astype(jnp.int32) for s in range(n)])
    bound = jnp.where((np.arange(n) == r.bendt) & drawn.any(), 0, shown + 1)  # who may hold cards of the stock is last

    def place(carry: tuple[CardSet, Hands, CardSet, jax.Array], bits: jax.Array):
        pool, hands, thrown, left = carry
        to = jnp.argmax(jnp.where(left > 0, bound, -1)).astype(jnp.int32)
        in_hand = jnp.any(left > 0)
        to_thrown = ~in_hand & (thrown.count() < discards)
        possible = pool - _of_suits((r.voids >> (4 * to).astype(jnp.uint32)) & 15)
        possible = possible - drawn.where(to != r.bendt)
        # Where earlier seats have left this one nothing that it may hold, it takes what there is.
        choice = jax.tree.map(lambda a, b: jnp.where(in_hand & possible.any(), a, b), possible, pool)
        card = _random(choice, bits).where(in_hand | to_thrown)
        left = left - ((np.arange(n) == to) & in_hand)
        return (pool - card, hands.give(to, card.where(in_hand)), thrown | card.where(to_thrown), left), None

    start = (pool, Hands.empty(n).give(seat, own), CardSet.empty(), counts)
    bits = jax.random.bits(key, ((n - 1) * setup.max_hand + 2 * MOST_DISCARDS,))
    (_, hands, thrown, _), _ = jax.lax.scan(place, start, bits)
    return hands, thrown | own_discards


def _without_stock(
    game: SkullKingGame, seat: jax.Array, pool: CardSet, key: jax.Array, setup: Setup
) -> tuple[CardSet, CardSet]:
    """Returns the cards that may be elsewhere than in the stock, and those of them that `seat` once saw there.

    A seat that looked at the stock with Jade knows all of it, but for the cards drawn with Bendt since then: how
    many of them are still hidden is known, not which.
    """
    r = game.round
    viewed = (r.jade_view & pool).where(r.jade == seat)
    away = jnp.where(viewed.any(), viewed.count() - rules.stock(game, setup).count(), 0)
    drawn = CardSet.empty()
    for bits in jax.random.bits(key, (MOST_DISCARDS,)):
        drawn = drawn | _random(viewed - drawn, bits).where(drawn.count() < away)
    return pool - (viewed - drawn), drawn


def _random(cards: CardSet, bits: jax.Array) -> CardSet:
    """Returns one of some cards, as a set; the empty set of none."""
    size = cards.count()
    return CardSet.single(cards.nth(scale(bits, size))).where(size > 0)


def _of_suits(suits: jax.Array) -> CardSet:
    """Returns the numbered cards of some suits, u32[] with bit = suit: suit s is bits 16 s .. 16 s + 13."""
    halves = [jnp.where((suits >> s) & 1, jnp.uint32(0x3FFF << (16 * (s & 1))), jnp.uint32(0)) for s in range(4)]
    return CardSet(halves[0] | halves[1], halves[2] | halves[3], jnp.uint32(0))


# ---- what a position is worth ---------------------------------------------------------------------------------------


def standing(game: SkullKingGame, setup: Setup) -> jax.Array:
    """f32[P]: about the share of the win that each seat may expect where a round begins or the game is over; of a
    single round its lead over the mean of the others, in hundreds of points."""
    scores = game.scores.astype(jnp.float32)
    if setup.single_round:
        return (scores - jnp.mean(scores)) * (setup.players / (setup.players - 1)) / 100
    over = game.phase == END
    left = jnp.where(over, 0, NUM_ROUNDS + 1 - game.number)
    spread = jnp.asarray(SPREAD)[left]
    return jnp.where(over, rules.ranking(game.scores)[2], jax.nn.softmax(scores / spread))
