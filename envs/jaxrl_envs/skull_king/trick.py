"""One trick of Skull King: a running summary with the current winner at every moment (specification sections 4, 5).

Instead of keeping the list of plays and resolving it at the end, every play updates "the first Mermaid so far", "the
best suit card so far" and so on. Seats are i32, -1 = none.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.shared.cards import CardSet, add_field
from jaxrl_envs.skull_king import cards as c

NO_BEAST, KRAKEN_LAST, WHALE_LAST = 0, 1, 2


@struct.dataclass
class Trick:
    """The plays so far; all leaves are i32[] unless noted."""

    size: jax.Array  # number of plays
    plays: tuple[jax.Array, jax.Array]  # u32[]: play + 1 of each seat (0 = none), 8 bits a seat, 4 seats a word
    suit: jax.Array  # suit of the first suit card, NO_SUIT without one
    free: jax.Array  # bool[]: the first card was a character or a beast, so no seat has to follow
    beast: jax.Array  # the last beast: NO_BEAST, KRAKEN_LAST, WHALE_LAST
    king: jax.Array  # seat of the Skull King
    mermaid: jax.Array  # seat of the earliest Mermaid
    pirate: jax.Array  # seat of the earliest pirate-like card
    pirate_card: jax.Array  # that card: 61..65, or TIGRESS_PIRATE
    escape: jax.Array  # seat of the earliest escape-like card
    best: jax.Array  # 16 + number of the best Jolly Roger, else number of the best card of the suit, else 0
    best_seat: jax.Array
    highest: jax.Array  # the highest number of any suit card, 0 without one
    highest_seat: jax.Array
    mermaids: jax.Array  # how many Mermaids
    pirates: jax.Array  # how many pirate-like cards
    fourteens: jax.Array  # points / 10 for captured fourteens: 1 a plain one, 2 the Jolly Roger
    loots: tuple[jax.Array, jax.Array]  # seats that played each Loot

    @classmethod
    def empty(cls) -> Trick:
        zero, none = jnp.int32(0), jnp.int32(-1)
        word = jnp.uint32(0)
        return cls(
            size=zero, plays=(word, word), suit=jnp.int32(c.NO_SUIT), free=jnp.bool_(False), beast=zero, king=none,
            mermaid=none, pirate=none, pirate_card=zero, escape=none, best=zero, best_seat=none, highest=zero,
            highest_seat=none, mermaids=zero, pirates=zero, fourteens=zero, loots=(none, none),
        )  # fmt: skip

    @property
    def follow(self) -> jax.Array:
        """i32[]: the suit that must be followed, or NO_SUIT."""
        return jnp.where(self.free, c.NO_SUIT, self.suit)

    def add(self, seat: jax.Array, play: jax.Array) -> Trick:
        """Returns the trick after `seat` plays `play` (i32[], 0..74)."""
        is_suit = play < 56
        suit = jnp.where(is_suit, c.suit_of(play), c.NO_SUIT)
        number = play - 14 * suit + 1
        is_mermaid = (play == 68) | (play == 69)
        is_pirate = ((play >= c.ROSIE) & (play <= c.HARRY)) | (play == c.TIGRESS_PIRATE)
        is_beast = (play == c.KRAKEN) | (play == c.WHALE)
        is_king = play == c.KING
        is_escape = ~(is_suit | is_mermaid | is_pirate | is_beast | is_king)
        first_suit = jnp.where(self.suit == c.NO_SUIT, suit, self.suit)
        rank = jnp.where(suit == c.ROGER, 16 + number, jnp.where(is_suit & (suit == first_suit), number, 0))
        better = rank > self.best
        higher = is_suit & (number > self.highest)
        return Trick(
            size=self.size + 1,
            plays=_write_play(self.plays, seat, play),
            suit=first_suit,
            free=self.free | ((self.size == 0) & (is_mermaid | is_pirate | is_beast | is_king)),
            beast=jnp.where(is_beast, jnp.where(play == c.KRAKEN, KRAKEN_LAST, WHALE_LAST), self.beast),
            king=jnp.where(is_king, seat, self.king),
            mermaid=_earliest(self.mermaid, is_mermaid, seat),
            pirate=_earliest(self.pirate, is_pirate, seat),
            pirate_card=jnp.where(is_pirate & (self.pirate < 0), play, self.pirate_card),
            escape=_earliest(self.escape, is_escape, seat),
            best=jnp.where(better, rank, self.best),
            best_seat=jnp.where(better, seat, self.best_seat),
            highest=jnp.where(higher, number, self.highest),
            highest_seat=jnp.where(higher, seat, self.highest_seat),
            mermaids=self.mermaids + is_mermaid,
            pirates=self.pirates + is_pirate,
            fourteens=self.fourteens + jnp.where(is_suit & (number == 14), 1 + (suit == c.ROGER), 0),
            loots=(
                jnp.where(play == c.LOOTS[0], seat, self.loots[0]),
                jnp.where(play == c.LOOTS[1], seat, self.loots[1]),
            ),
        )


class Outcome(NamedTuple):
    """The result of a trick; i32[] unless noted."""

    winner: jax.Array  # seat, -1 = VOID
    next_leader: jax.Array  # seat that leads the next trick, abilities aside
    bonus: jax.Array  # captured points / 10, for the winner
    pirate: jax.Array  # the Pirate card 61..65 that won, TIGRESS_PIRATE, or 0


def resolve(trick: Trick, leader: jax.Array) -> Outcome:
    """Returns the outcome if the trick ended now (specification section 5, lines 1 to 10)."""
    has_king, has_mermaid, has_pirate = trick.king >= 0, trick.mermaid >= 0, trick.pirate >= 0
    mermaid_wins = has_mermaid & (has_king | ~has_pirate)
    king_wins = has_king & ~has_mermaid
    pirate_wins = has_pirate & ~has_king
    ranked = jnp.where(trick.best > 0, trick.best_seat, trick.escape)
    character = jnp.where(king_wins, trick.king, jnp.where(mermaid_wins, trick.mermaid, trick.pirate))
    no_beasts = jnp.where(has_king | has_mermaid | has_pirate, character, ranked)  # lines 4..10
    calm = trick.beast == NO_BEAST
    by_whale = jnp.where(trick.beast == WHALE_LAST, trick.highest_seat, -1)
    winner = jnp.where(calm, no_beasts, by_whale)
    fallback = jnp.where(no_beasts >= 0, no_beasts, leader)
    capture = (
        jnp.where(pirate_wins, 2 * trick.mermaids, 0)
        + jnp.where(king_wins, 3 * trick.pirates, 0)
        + jnp.where(mermaid_wins & has_king, 4, 0)
    )
    return Outcome(
        winner=winner,
        next_leader=jnp.where(winner >= 0, winner, fallback),
        bonus=jnp.where(winner >= 0, trick.fourteens + jnp.where(calm, capture, 0), 0),
        pirate=jnp.where(calm & pirate_wins, trick.pirate_card, 0),
    )


def winning_plays(trick: Trick) -> tuple[CardSet, jax.Array]:
    """Returns the plays that would win if the trick ended with them.

    Returns:
      (the set of winning card ids with the Tigress as an escape, bool[] whether the Tigress as pirate would win).
    """
    has_king, has_mermaid, has_pirate = trick.king >= 0, trick.mermaid >= 0, trick.pirate >= 0
    calm = trick.beast == NO_BEAST
    no_character = ~(has_king | has_mermaid | has_pirate)
    no_roger = trick.best < 16
    above_roger = c.numbers_above(jnp.maximum(trick.best - 16, 0))
    above_suit = jnp.where(no_roger, c.numbers_above(jnp.where(no_roger, trick.best, 0)), jnp.uint32(0))
    first = trick.suit == c.NO_SUIT
    plain = c.suit_cards(jnp.where(trick.suit == c.ROGER, c.NO_SUIT, trick.suit), above_suit)
    any_plain = c.card_set(range(42)).where(first)
    suits = (plain | any_plain | c.suit_cards(jnp.int32(c.ROGER), above_roger)).where(calm & no_character)
    above_all = c.numbers_above(trick.highest)
    both = above_all | (above_all << 16)
    by_whale = CardSet(both, both, jnp.uint32(0)).where(trick.beast == WHALE_LAST)
    king = c.card_set([c.KING]).where(calm & ~has_mermaid)
    mermaids = c.card_set(c.MERMAIDS).where(calm & ~has_mermaid & (has_king | ~has_pirate))
    pirate_wins = calm & ~has_king & ~has_pirate
    pirates = c.card_set(range(c.ROSIE, c.HARRY + 1)).where(pirate_wins)
    escapes = c.card_set([*range(56, 61), c.TIGRESS, *c.LOOTS]).where(trick.size == 0)
    return suits | by_whale | king | mermaids | pirates | escapes, pirate_wins


def play_of(plays: tuple[jax.Array, jax.Array], seat: jax.Array) -> jax.Array:
    """i32[]: the play of `seat` plus one, 0 = none."""
    word = jnp.where(seat < 4, plays[0], plays[1])
    return ((word >> ((seat & 3) * 8).astype(jnp.uint32)) & 0xFF).astype(jnp.int32)


def _write_play(plays: tuple[jax.Array, jax.Array], seat: jax.Array, play: jax.Array) -> tuple[jax.Array, jax.Array]:
    low = seat < 4
    return (
        add_field(plays[0], seat & 3, jnp.where(low, play + 1, 0), 8),
        add_field(plays[1], seat & 3, jnp.where(low, 0, play + 1), 8),
    )


def _earliest(current: jax.Array, matches: jax.Array, seat: jax.Array) -> jax.Array:
    return jnp.where(matches & (current < 0), seat, current)
