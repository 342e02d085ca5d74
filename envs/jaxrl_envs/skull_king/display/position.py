"""A position of Skull King as plain Python, as one seat may see it; text and drawings are made from it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxrl_envs.contract.env import State
from jaxrl_envs.shared.cards import CardSet
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.trick import Trick, resolve

PHASES = ("bid", "play a card", "name the next leader", "discard a card", "wager", "change the bid", "game over")


class SkullKingSeat(NamedTuple):
    """One seat. What the observer must not know is None."""

    bid: int | None
    bid_made: bool
    won: int
    captured: int  # points
    wager: int
    score: int
    hand: tuple[int, ...] | None  # card ids
    hand_size: int
    play: int | None  # in the current trick; 74 = the Tigress as pirate
    place: int  # of that play in the trick, from 0
    notes: tuple[str, ...]


class SkullKingPosition(NamedTuple):
    """Everything on the table."""

    observer: int | None  # None sees everything
    seats: tuple[SkullKingSeat, ...]
    number: int  # the round
    tricks: int  # finished in this round
    hand: int  # cards dealt to each seat
    phase: int
    actor: int | None  # None at the end of the game
    leader: int
    follow: int | None  # suit to follow
    free: bool  # no seat has to follow
    winner: int | None  # the seat that would win the trick if it ended now
    legal: frozenset[int]  # cards that the observer (or the acting seat, without an observer) may play or discard now
    out: tuple[int, ...]  # cards that the observer knows to be out: own discards, Jade's look
    stock: int

    @property
    def finished(self) -> bool:
        """The game is over."""
        return self.phase == rules.END

    @property
    def plays(self) -> list[tuple[int, int]]:
        """(seat, play) of the current trick in order of play."""
        made = [(seat.place, number, seat.play) for number, seat in enumerate(self.seats) if seat.play is not None]
        return [(number, play) for _, number, play in sorted(made)]


def look(env, state: State, observer: int | None = None) -> SkullKingPosition:
    """Returns the table from the seat `observer`, or with all cards face up if it is None.

    Args:
      env: the `SkullKing` of the state.
      state: one game, not a batch.
      observer: a seat.
    """
    game: rules.SkullKingGame = state.game
    r, setup = game.round, env.setup
    over = bool(state.terminated) or bool(state.truncated) or int(game.phase) == rules.END
    actor = None if over else int(game.actor)
    size = int(r.trick.size)
    winner = int(resolve(r.trick, r.leader).winner) if size else -1
    asks_cards = int(game.phase) in (rules.PLAY, rules.BENDT) and actor is not None
    sees_legal = asks_cards and observer in (None, actor)
    out = CardSet.empty()
    if observer is not None:
        out = r.discards.where(r.bendt == jnp.int32(observer)) | r.jade_view.where(r.jade == jnp.int32(observer))
    return SkullKingPosition(
        observer=observer,
        seats=tuple(_seat(game, setup.players, seat, observer) for seat in range(setup.players)),
        number=int(game.number),
        tricks=int(r.tricks),
        hand=int(rules.cards_dealt(game.number, setup)),
        phase=rules.END if over else int(game.phase),
        actor=actor,
        leader=int(r.leader),
        follow=int(r.trick.follow) if int(r.trick.follow) < c.NO_SUIT else None,
        free=bool(r.trick.free),
        winner=winner if winner >= 0 else None,
        legal=frozenset(_cards(rules.legal_cards(game))) if sees_legal else frozenset(),
        out=tuple(_cards(out)),
        stock=int(rules.stock(game, setup).count()),
    )


def trick_with(game: rules.SkullKingGame, action: int) -> tuple[int, Trick]:
    """Returns the play that an action of the phase PLAY is, and the trick with it."""
    play = c.TIGRESS_PIRATE if action == rules.PLAY_TIGRESS_PIRATE else action - rules.FIRST_PLAY
    return play, game.round.trick.add(jnp.int32(int(game.actor)), jnp.int32(play))


def trick_order(game: rules.SkullKingGame, players: int) -> list[tuple[int, int]]:
    """Returns (seat, play) of the current trick in order of play."""
    r = game.round
    order = [(int(r.leader) + turn) % players for turn in range(int(r.trick.size))]
    return [(seat, field(r.trick.plays[seat // 4], seat % 4, 8) - 1) for seat in order]


def full_trick(env, before: State, action: int, observer: int | None = None) -> SkullKingPosition | None:
    """Returns the table with the trick that `action` completes, before it is taken; None if it completes none."""
    r = before.game.round
    if int(before.game.phase) != rules.PLAY or int(r.trick.size) != env.num_players - 1:
        return None
    play, trick = trick_with(before.game, action)
    card, table = c.TIGRESS if play == c.TIGRESS_PIRATE else play, look(env, before, observer)
    actor = int(before.game.actor)
    winner = int(resolve(trick, r.leader).winner)
    seats, own = list(table.seats), table.seats[actor]
    hand = own.hand and tuple(each for each in own.hand if each != card)
    seats[actor] = own._replace(play=play, hand=hand, hand_size=own.hand_size - 1)
    return table._replace(
        seats=tuple(seats),
        actor=None,
        legal=frozenset(),
        follow=None,
        free=False,
        winner=winner if winner >= 0 else None,
    )


def reason(plays: list[tuple[int, int]], winner: int | None) -> str:
    """Returns why a seat, or none, wins a full trick of (seat, play): the card that it beats is the one that would win
    without its own."""
    cards = dict(plays)
    beast = next((play for _, play in reversed(plays) if play in (c.KRAKEN, c.WHALE)), None)
    if winner is None:
        return "the Kraken destroys it" if beast == c.KRAKEN else "no number for the White Whale"
    own = cards[winner]
    name = c.card_name(own).partition(" (")[0]
    if beast == c.WHALE:
        return f"the White Whale: {name} is the highest number"
    trick = Trick.empty()
    for seat, play in plays:
        trick = trick.add(jnp.int32(seat), jnp.int32(play)) if seat != winner else trick
    second = cards[int(resolve(trick, jnp.int32(0)).winner)]
    other = c.card_name(second).partition(" (")[0]
    suits = [play // 14 if play < 56 else None for play in (own, second)]
    if suits[0] is None and _kind(own) == _kind(second):
        return f"{name} came before {other}"
    if None not in suits and c.ROGER not in suits and suits[0] != suits[1]:
        return f"{name} beats {other}, which did not follow"
    return f"{name} beats {other}"


def _kind(play: int) -> str:
    """Returns what a special card counts as in a trick."""
    pirate = c.ROSIE <= play <= c.HARRY or play == c.TIGRESS_PIRATE
    return "pirate" if pirate else "mermaid" if play in c.MERMAIDS else "king" if play == c.KING else "escape"


def _cards(cards: CardSet) -> list[int]:
    """Returns card ids in order."""
    words = [int(word) for word in cards.words]
    return [card for card, slot in enumerate(c.SLOTS) if words[slot // 32] >> slot % 32 & 1]


def field(word, index: int, width: int = 4) -> int:
    """Returns the entry `index` of a word of small numbers, as a Python int."""
    return int(word) >> index * width & (1 << width) - 1


def _seat(game: rules.SkullKingGame, players: int, seat: int, observer: int | None) -> SkullKingSeat:
    r = game.round
    bidding = int(game.phase) == rules.BID
    turn = (seat - int(r.leader)) % players
    made = not bidding or turn < (int(game.actor) - int(r.leader)) % players
    hand = _cards(r.hands.of(jnp.int32(seat)))
    play = field(r.trick.plays[seat // 4], seat % 4, 8) - 1
    return SkullKingSeat(
        bid=field(r.bids, seat) if made and (not bidding or observer in (None, seat)) else None,
        bid_made=made,
        won=field(r.won, seat),
        captured=10 * field(r.captured[seat // 4], seat % 4, 8),
        wager=10 * field(r.wagers, seat),
        score=int(game.scores[seat]),
        hand=tuple(hand) if observer in (None, seat) else None,
        hand_size=len(hand),
        play=play if play >= 0 else None,
        place=turn,
        notes=tuple(_notes(game, seat)),
    )


def _notes(game: rules.SkullKingGame, seat: int) -> list[str]:
    """Returns public facts that have no column of their own."""
    r = game.round
    notes = []
    if int(r.harry) == seat:
        notes.append("may change the bid")
    if int(r.bendt) == seat:
        notes.append(f"drew {int(r.bendt_drawn)}")
    if int(r.jade) == seat:
        notes.append("saw the stock")
    for i in range(2):
        looter, partner = field(r.alliances, 2 * i) - 1, field(r.alliances, 2 * i + 1) - 1
        if looter >= 0 and seat in (looter, partner):
            notes.append(f"allied with seat {partner if seat == looter else looter}")
    return notes
