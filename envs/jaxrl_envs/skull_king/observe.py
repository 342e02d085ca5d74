"""Observations of Skull King (specification section 11), packed into a few words and expanded late.

`pack` writes one observation as u32[NUM_WORDS], and the words of `history` behind them where the table asks for it.
That is cheap enough to run in every step and small enough to store whole rollouts. `features` (for dense networks) and
`tokens` (for attention encoders) expand it inside the network call.
Seats are relative: entry 0 is the observing seat, entry 1 the next one, and so on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import Tokens
from jaxrl_envs.shared.cards import get_field, rotate_fields, small_mod
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import history, rules
from jaxrl_envs.skull_king.deal import MOST_SEATS, Setup, max_hand
from jaxrl_envs.skull_king.rules import BID, PLAY, SkullKingGame
from jaxrl_envs.skull_king.trick import play_of, resolve, winning_plays

NUM_WORDS = 28
_CLASSES = np.zeros((c.NUM_PLAYS + 1, 6), np.float32)  # class of a play + 1; row 0 = no play
for _play in range(56, c.NUM_PLAYS):
    if _play <= 60 or _play in (*c.LOOTS, c.TIGRESS):
        _CLASSES[_play + 1, 0] = 1  # escape-like
    elif _play <= c.HARRY or _play == c.TIGRESS_PIRATE:
        _CLASSES[_play + 1, 1] = 1  # pirate-like
    else:
        _CLASSES[_play + 1, {c.KING: 2, 68: 3, 69: 3, c.KRAKEN: 4, c.WHALE: 5}[_play]] = 1


class Unpacked(NamedTuple):
    """An unpacked observation; i32[] unless noted. Seats are relative, -1 = no seat."""

    hand: jax.Array  # u32[3], own cards by slot
    winners: jax.Array  # u32[3], cards that would win the trick if it ended with them
    seen: jax.Array  # u32[3], cards played this round
    out: jax.Array  # u32[3], own Bendt discards and own Jade view
    plays: jax.Array  # i32[P], play + 1 of each seat in the current trick, 0 = none
    bids: jax.Array  # i32[P], 0 where unknown
    bid_known: jax.Array  # bool[P]
    won: jax.Array  # i32[P], tricks won
    captured: jax.Array  # i32[P], captured points / 10
    wagers: jax.Array  # i32[P], Roatan's wager / 10
    voids: jax.Array  # i32[P], bit s = the seat has shown to be void in suit s
    allies: jax.Array  # i32[P], Loot alliances with the observing seat
    score_gap: jax.Array  # i32[P], total points minus the observing seat's
    phase: jax.Array
    actor: jax.Array
    leader: jax.Array
    winner: jax.Array  # the seat that would win the trick if it ended now
    trick_size: jax.Array
    tricks: jax.Array  # tricks finished
    number: jax.Array  # the round
    follow: jax.Array  # the suit to follow, 4 = none yet, 5 = the trick is free
    harry: jax.Array  # the seat with Harry's pending change
    bendt: jax.Array  # the seat that drew with Bendt
    bendt_drawn: jax.Array
    bendt_left: jax.Array
    beast: jax.Array
    tigress_wins: jax.Array  # the Tigress as pirate would win the trick if it ended with her
    stock: jax.Array  # cards in the stock
    players: Any  # of the table, i32[] or int
    expansion: Any  # i32[] or bool
    abilities: jax.Array


_MISC = (  # (field, bits, offset): small numbers packed into the last words; stored value = field + offset
    (("phase", 3, 0), ("actor", 3, 0), ("leader", 3, 0), ("winner", 4, 1), ("trick_size", 4, 0), ("tricks", 4, 0),
     ("number", 4, 0), ("follow", 3, 0), ("harry", 4, 1)),
    (("bendt", 4, 1), ("bendt_drawn", 2, 0), ("bendt_left", 2, 0), ("beast", 2, 0), ("tigress_wins", 1, 0),
     ("stock", 7, 0), ("players", 4, 0), ("expansion", 1, 0), ("abilities", 1, 0)),
)  # fmt: skip


# ---- packing --------------------------------------------------------------------------------------------------------


def pack(game: SkullKingGame, seat: jax.Array, setup: Setup) -> jax.Array:
    """Returns the observation of `seat` (i32[]), u32[NUM_WORDS], and more with a history."""
    n, r = setup.players, game.round
    seat = jnp.asarray(seat).astype(jnp.int32)
    winners, tigress_wins = winning_plays(r.trick)
    out = r.discards.where(r.bendt == seat) | r.jade_view.where(r.jade == seat)
    sets = [word for cards in (r.hands.of(seat), winners, r.seen, out) for word in cards.words]
    order = small_mod(seat + np.arange(n), n)  # i32[P], absolute seat of each relative seat
    bids, known = _visible_bids(game, seat, setup)
    small = {
        "phase": game.phase,
        "actor": small_mod(game.actor - seat + n, n),
        "leader": small_mod(r.leader - seat + n, n),
        "winner": _relative(jnp.where(r.trick.size > 0, resolve(r.trick, r.leader).winner, -1), seat, n),
        "trick_size": r.trick.size,
        "tricks": r.tricks,
        "number": game.number,
        "follow": jnp.where(r.trick.free, 5, r.trick.suit),
        "harry": _relative(r.harry, seat, n),
        "bendt": _relative(r.bendt, seat, n),
        "bendt_drawn": r.bendt_drawn,
        "bendt_left": r.bendt_left,
        "beast": r.trick.beast,
        "tigress_wins": tigress_wins,
        "stock": rules.stock(game, setup).count(),
        **{name: jnp.int32(getattr(setup, name)) for name in ("players", "expansion", "abilities")},
    }
    gaps = game.scores[order] - game.scores[seat]
    words = [
        *sets,
        *_pack_bytes([play_of(r.trick.plays, order[i]) for i in range(n)]),
        rotate_fields(bids, seat, n),
        rotate_fields(known, seat, n),
        rotate_fields(r.won, seat, n),
        *_pack_bytes([_captured(r, order[i]) for i in range(n)]),
        rotate_fields(r.wagers, seat, n),
        rotate_fields(r.voids, seat, n),
        _allies(r.alliances, seat, n),
        *_pack_halves(gaps, n),
        *(_pack_small(small, fields) for fields in _MISC),
        *(r.history.pack(seat) if r.history is not None else ()),
    ]
    return jnp.stack(words)


def unpack(observation: jax.Array, setup: Setup) -> Unpacked:
    """Inverts `pack`."""
    chex.assert_rank(observation, 1)
    w, n = observation, setup.players
    seats = np.arange(n)
    nibbles = 4 * seats
    octet = np.where(seats < 4, 0, 1)

    def per_seat(word):
        return ((word >> nibbles.astype(np.uint32)) & 15).astype(jnp.int32)

    def per_byte(first):
        pair = jnp.where(octet == 0, w[first], w[first + 1])
        return ((pair >> (8 * (seats & 3)).astype(np.uint32)) & 255).astype(jnp.int32)

    halves = jnp.stack([w[22 + i // 2] for i in range(n)])
    gaps = ((halves >> (16 * (seats & 1)).astype(np.uint32)) & 0xFFFF).astype(jnp.int32) - 0x8000
    small = {}
    for word, fields in zip((w[26], w[27]), _MISC, strict=True):
        shift = 0
        for name, bits, offset in fields:
            small[name] = ((word >> shift) & ((1 << bits) - 1)).astype(jnp.int32) - offset
            shift += bits
    return Unpacked(
        hand=w[0:3], winners=w[3:6], seen=w[6:9], out=w[9:12], plays=per_byte(12), bids=per_seat(w[14]),
        bid_known=per_seat(w[15]) > 0, won=per_seat(w[16]), captured=per_byte(17), wagers=per_seat(w[19]),
        voids=per_seat(w[20]), allies=per_seat(w[21]), score_gap=gaps, **small,
    )  # fmt: skip


def _read(observation: jax.Array, setup: Setup) -> Unpacked:
    """Unpacks what a network reads: in the padded form eight seats, empty ones with zeros, of any table; else of that
    of `setup`."""
    if not setup.padded:
        return unpack(observation, setup)._replace(players=setup.players, expansion=setup.expansion)
    v = unpack(observation, setup._replace(players=MOST_SEATS))
    return v._replace(score_gap=jnp.where(np.arange(MOST_SEATS) < v.players, v.score_gap, 0))


def _visible_bids(game: SkullKingGame, seat: jax.Array, setup: Setup) -> tuple[jax.Array, jax.Array]:
    """The bids that `seat` may see, and which they are: its own, or all once all are made. 4 bits a seat each."""
    n, r = setup.players, game.round
    bidding = game.phase == BID
    own_made = ~bidding | (small_mod(seat - r.leader + n, n) < small_mod(game.actor - r.leader + n, n))
    own = jnp.uint32(15) << (seat * 4).astype(jnp.uint32)
    everybody = jnp.uint32((1 << (4 * n)) - 1)
    mask = jnp.where(bidding, jnp.where(own_made, own, jnp.uint32(0)), everybody)
    return r.bids & mask, mask & jnp.uint32(0x11111111)


def _relative(seat: jax.Array, observer: jax.Array, n: int) -> jax.Array:
    return jnp.where(seat >= 0, small_mod(seat - observer + n, n), -1)


def _captured(r: rules.Round, seat: jax.Array) -> jax.Array:
    return get_field(jnp.where(seat < 4, r.captured[0], r.captured[1]), seat & 3, 8)


def _allies(alliances: jax.Array, seat: jax.Array, n: int) -> jax.Array:
    """u32[]: how many alliances the observer has with each relative seat, 4 bits each."""
    word = jnp.uint32(0)
    for i in range(2):
        looter, partner = get_field(alliances, 2 * i) - 1, get_field(alliances, 2 * i + 1) - 1
        other = jnp.where(looter == seat, partner, looter)
        mine = (looter >= 0) & ((looter == seat) | (partner == seat))
        shift = 4 * jnp.maximum(_relative(other, seat, n), 0)
        word = word + (mine.astype(jnp.uint32) << shift.astype(jnp.uint32))
    return word


def _pack_bytes(values: list[jax.Array]) -> list[jax.Array]:
    """Returns up to eight numbers below 256 as two words."""
    words = [jnp.uint32(0), jnp.uint32(0)]
    for i, value in enumerate(values):
        words[i // 4] = words[i // 4] | (value.astype(jnp.uint32) << (8 * (i % 4)))
    return words


def _pack_halves(values: jax.Array, n: int) -> list[jax.Array]:
    """Returns up to eight numbers in -32768..32767 as four words."""
    words = [jnp.uint32(0)] * 4
    for i in range(n):
        half = (jnp.clip(values[i], -0x8000, 0x7FFF) + 0x8000).astype(jnp.uint32)
        words[i // 2] = words[i // 2] | (half << (16 * (i % 2)))
    return words


def _pack_small(values: dict[str, jax.Array], fields) -> jax.Array:
    word, shift = jnp.uint32(0), 0
    for name, bits, offset in fields:
        word = word | ((values[name].astype(jnp.int32) + offset).astype(jnp.uint32) << shift)
        shift += bits
    return word


# ---- suits by their role --------------------------------------------------------------------------------------------

_PLAIN = 3  # suits that only differ by name; the fourth is trump
_FOLLOW = sum(bits for _, bits, _ in _MISC[0][:7])  # where `follow` begins in its word


def canonical(words: jax.Array, setup: Setup) -> tuple[jax.Array, jax.Array]:
    """The same observation as of `pack`, with the plain suits named by their role instead of their name: first the
    one to follow, then by own cards, the most first; and the new name of each, i32[3].

    Exchanging the three suits exchanges equal games, so a network has to learn one of six.
    """
    v = _read(words, setup)
    hand, seen = (jnp.stack(_suits(sets)) for sets in (v.hand, v.seen))
    count = jax.lax.population_count
    names = np.arange(_PLAIN)
    rank = (count(hand) << 18) | (hand << 4) | count(seen)  # equal: two suits of which no card is held
    rank = rank | ((v.follow == names).astype(jnp.uint32) << 22)
    before = (rank[None] > rank[:, None]) | ((rank[None] == rank[:, None]) & (names[None] < names[:, None]))
    place = before.sum(axis=1, dtype=jnp.int32)
    found = list(words)
    for first in (*range(0, 12, 3), *range(NUM_WORDS, len(words) - 1, 3)):  # the card sets, also of a history
        one, two, three = _moved(_suits(words[first : first + 3]), place)
        found[first], found[first + 1] = one | (two << 16), three | (words[first + 1] & np.uint32(0xFFFF0000))
    plays, suit = v.plays, c.suit_of(jnp.maximum(v.plays - 1, 0))
    moved = 14 * (sum(jnp.where(suit == s, place[s], 0) for s in names) - suit)
    found[12:14] = _pack_bytes(list(jnp.where((plays > 0) & (suit < _PLAIN), plays + moved, plays)))
    bit = np.uint32(0x11111111)
    shown = _moved([(words[20] >> s) & bit for s in range(_PLAIN)], place)
    found[20] = sum((each << s for s, each in enumerate(shown)), words[20] & (bit << _PLAIN))
    follow = sum((jnp.where(v.follow == s, place[s] - s, 0) for s in names), jnp.int32(0)).astype(jnp.uint32)
    found[26] = words[26] + (follow << _FOLLOW)
    return jax.lax.optimization_barrier((jnp.stack(found), place))  # XLA would compute it again for every feature


def from_canonical(logits: jax.Array, place: jax.Array) -> jax.Array:
    """f32[..., 100], a number for each action in the game's names, from one in those of `canonical`."""
    first = rules.FIRST_PLAY
    roles = [logits[..., first + 14 * s : first + 14 * (s + 1)] for s in range(_PLAIN)]
    place = place[..., None]
    suits = [
        jnp.where(place[..., s, :] == 0, roles[0], jnp.where(place[..., s, :] == 1, roles[1], roles[2]))
        for s in range(_PLAIN)
    ]
    return jnp.concatenate([logits[..., :first], *suits, logits[..., first + 14 * _PLAIN :]], axis=-1)


def _suits(sets: jax.Array) -> list[jax.Array]:
    """u32[] each, the cards of the plain suits in a card set u32[3]."""
    return [sets[0] & 0xFFFF, sets[0] >> 16, sets[1] & 0xFFFF]


def _moved(suits: list[jax.Array], place: jax.Array) -> list[jax.Array]:
    """Returns one word for each plain suit, in the order of their places."""
    none = jnp.uint32(0)
    return [sum((jnp.where(place[s] == p, suits[s], none) for s in range(_PLAIN)), none) for p in range(_PLAIN)]


# ---- expanding ------------------------------------------------------------------------------------------------------


# u32[4, 100], the bit of each action in each word of `rules.legal_words`
_WORD, _BIT = rules.BITS >> 5, (rules.BITS & 31).astype(np.uint32)
_ACTION_BITS = np.where(np.arange(4)[:, None] == _WORD, np.uint32(1) << _BIT, np.uint32(0))


def expand_legal(legal: tuple[jax.Array, ...]) -> jax.Array:
    """bool[100]: the legal actions from `rules.legal_words`."""
    hit = jnp.uint32(0)
    for word, bits in zip(legal, _ACTION_BITS, strict=True):  # elementwise over the actions: three times faster
        hit = hit | (word & bits)  # than shifting out bits and joining them (measured on CPU)
    return hit != 0


def _one_hot(index: jax.Array, size: int) -> jax.Array:
    return (index[..., None] == np.arange(size)).astype(jnp.float32)


def features(observation: jax.Array, setup: Setup) -> jax.Array:
    """Returns one observation as f32[F]; F = 354 + 41 * P, and 149 + 74 * P more with a history. In the padded form P
    is 8, and 9 features tell the table: its players, and its rules."""
    v = _read(observation, setup)
    cards = c.card_bits(jnp.stack([v.hand, v.winners & v.hand, v.seen, v.out])).astype(jnp.float32).reshape(-1)
    parts = [cards, _context(v, setup)]
    if setup.history:
        played, pirate = history.expand(observation[NUM_WORDS:], v.seen, v.tricks, setup)
        parts += [played.reshape(-1), pirate[None]]
    return jnp.concatenate(parts)


def _context(v: Unpacked, setup: Setup) -> jax.Array:
    """Everything that is not a card set, f32[58 + 41 * P], and 9 more in the padded form."""
    n = v.players
    hand_size = jnp.minimum(v.number, max_hand(n))
    left = (hand_size - v.tricks).astype(jnp.float32)
    need = jnp.where(v.bid_known, v.bids - v.won, 0).astype(jnp.float32)
    seats = np.arange(len(v.plays))
    suit = jnp.where((v.plays > 0) & (v.plays <= 56), c.suit_of(v.plays - 1), c.NO_SUIT)
    number = jnp.where(suit < c.NO_SUIT, v.plays - 14 * suit, 0)
    playing = v.phase == PLAY
    per_seat = jnp.concatenate(
        [
            _one_hot(suit, 4),
            (number / 14.0)[:, None],
            jnp.asarray(_CLASSES)[v.plays],
            _one_hot(jnp.where(v.bid_known, v.bids, -1), 11),
            ((v.voids[:, None] >> np.arange(4)) & 1).astype(jnp.float32),
            jnp.stack(
                [
                    v.plays > 0, seats == v.winner, seats == v.actor, seats == v.leader, v.bid_known, v.won / 5.0,
                    need / 5.0, (need <= left) & (need > 0), v.bid_known & (need == 0), v.captured / 5.0,
                    v.wagers / 2.0, seats == v.harry, v.allies / 1.0, v.score_gap / 100.0,
                ],
                axis=-1,
            ).astype(jnp.float32),
        ],
        axis=-1,
    )  # fmt: skip
    shared = jnp.stack(
        [
            (n - v.trick_size) * playing / n, left / 10.0, (need[0] - left) / 10.0, v.number / 10.0, v.stock / 74.0,
            v.tigress_wins * 1.0, v.bendt_left / 2.0, v.beast == 1, v.beast == 2, v.winner < 0, v.bendt_drawn / 2.0,
            v.bendt == 0,
        ]
    ).astype(jnp.float32)  # fmt: skip
    table = [_one_hot(v.players - 2, 7), jnp.stack([v.expansion, v.abilities])] if setup.padded else []
    return jnp.concatenate(
        [
            per_seat.reshape(-1),
            _one_hot(v.follow, 6),
            _one_hot(hand_size - 1, 10),
            _one_hot(v.phase, 6),
            _one_hot(v.trick_size, len(seats)),
            _one_hot(jnp.clip(need[0] + 3, 0, 13), 14),
            _one_hot(v.tricks, 10),
            shared,
            *table,
        ]
    )


def tokens(observation: jax.Array, setup: Setup) -> Tokens:
    """One token per card id, N = 74: suit 0..3 or 4 = special; rank = number - 1, or 14.. for each kind of special."""
    v = _read(observation, setup)
    flags = c.card_bits(jnp.stack([v.hand, v.winners, v.seen, v.out])).astype(jnp.float32)  # [4, 74]
    by_seat = (v.plays[:, None] == 1 + np.arange(c.NUM_CARDS)).astype(jnp.float32)  # [P, 74]
    tigress = (v.plays == 1 + c.TIGRESS_PIRATE)[:, None] * (np.arange(c.NUM_CARDS) == c.TIGRESS)
    ids = np.arange(c.NUM_CARDS)
    suit = np.minimum(ids // 14, 4)
    kinds = {56: 14, c.ROSIE: 15, c.BENDT: 16, c.ROATAN: 17, c.JADE: 18, c.HARRY: 19, c.TIGRESS: 20, c.KING: 21,
             68: 22, c.KRAKEN: 23, c.WHALE: 24, 72: 25}  # fmt: skip
    rank = [i % 14 if i < 56 else kinds[max(k for k in kinds if k <= i)] for i in ids]
    if setup.padded or not setup.expansion:
        flags = flags * ((ids < c.KRAKEN) | v.expansion)
    cards, context = [flags.T, (by_seat + tigress).T], _context(v, setup)
    if setup.history:
        played, pirate = history.expand(observation[NUM_WORDS:], v.seen, v.tricks, setup)
        cards, context = [*cards, played], jnp.append(context, pirate)
    return Tokens(
        suit=jnp.asarray(suit, jnp.int32),
        rank=jnp.asarray(np.array(rank), jnp.int32),
        features=jnp.concatenate(cards, axis=-1),
        context=context,
    )


# ---- what a seat cannot see: for a critic in training, never for players --------------------------------------------


def privileged(game: SkullKingGame, seat: jax.Array, setup: Setup) -> jax.Array:
    """u32[3 * P + 5], what `seat` (i32[]) cannot see: the hands of the seats after it in turn, the stock, its top, all
    bids (4 bits each, by relative seat) and which are made (likewise)."""
    n, r = setup.players, game.round
    order = [small_mod(seat + i, n) for i in range(1, n)]
    sets = [*(r.hands.of(other) for other in order), rules.stock(game, setup), r.top]
    bidding, turn = game.phase == BID, small_mod(game.actor - r.leader + n, n)
    made = jnp.uint32(0)
    for i in range(n):
        has = ~bidding | (small_mod(jnp.int32(i) - r.leader + n, n) < turn)
        made = made | (has.astype(jnp.uint32) << (4 * i))
    words = [word for cards in sets for word in cards.words]
    return jnp.stack([*words, rotate_fields(r.bids, seat, n), rotate_fields(made, seat, n)])


def privileged_features(words: jax.Array, setup: Setup) -> jax.Array:
    """f32[85 * P + 63]: 74 flags for each hand, the stock and its top; each other's bid, one-hot, 0 if not made."""
    n = setup.players
    cards = c.card_bits(words[:-2].reshape(n + 1, 3)).astype(jnp.float32)
    seats = jnp.arange(1, n)
    bids = jnp.where(get_field(words[-1], seats) > 0, get_field(words[-2], seats), -1)
    return jnp.concatenate([cards.reshape(-1), (bids[:, None] == np.arange(11)).astype(jnp.float32).reshape(-1)])
