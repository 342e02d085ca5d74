"""A position of Beasty Bar as plain Python, as one seat may see it; text and drawings are made from it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.contract.env import State, is_over
from jaxrl_envs.shared.display.seats import whom

BAR, OUT = "into the bar", "thrown out"  # where cards leave the queue to


class BeastyBarSeat(NamedTuple):
    """One seat. Species are strengths 1..12, in ascending order."""

    bar: tuple[int, ...]
    out: tuple[int, ...]
    points: int
    hand: tuple[int, ...] | None  # None: the observer must not know
    hand_size: int
    deck: tuple[int, ...] | None  # the next card first if everything is face up; else the own ones, ascending
    deck_size: int
    unseen: tuple[int, ...] | None  # hand and deck together, for the other seat


class BeastyBarPosition(NamedTuple):
    """Everything on the table."""

    observer: int | None  # None sees everything
    queue: tuple[int, ...]  # card codes, front first
    seats: tuple[BeastyBarSeat, BeastyBarSeat]
    ply: int  # turns played
    start: int
    actor: int | None  # None at the end of the game
    said: str = ""  # above the queue, instead of the seat to move
    leaving: tuple[str, ...] = ()  # of the queue, where each card is about to go: BAR, OUT or ""

    def name(self, seat: int) -> str:
        """Returns the name of a seat in the middle of a sentence."""
        return whom(seat, self.observer)

    @property
    def leader(self) -> int | None:
        """The seat with more points, None if they are equal."""
        first, second = (seat.points for seat in self.seats)
        return None if first == second else int(second > first)


def look(state: State, observer: int | None = None) -> BeastyBarPosition:
    """Returns the table from the seat `observer`, or with all cards face up if it is None.

    Args:
      state: state of `BeastyBar`, one game, not a batch.
      observer: a seat.
    """
    game = state.game
    return BeastyBarPosition(
        observer=observer,
        queue=tuple(queue_codes(game.table.queue)),
        seats=(_seat(game, 0, observer), _seat(game, 1, observer)),
        ply=int(game.ply),
        start=int(game.start),
        actor=None if bool(is_over(state)) else int(game.seat),
    )


def settled(before: State, action: int, after: State, observer: int | None = None) -> BeastyBarPosition | None:
    """The queue of a turn with the card that is played at its back, before the cards that the turn removes are gone;
    None if it removes none.

    Args:
      before, after: the states around the turn.
      action: action taken in that state.
      observer: a seat.
    """
    old, new = before.game, after.game
    entered, thrown = (int(n) & ~int(o) for n, o in ((new.table.bar, old.table.bar), (new.table.out, old.table.out)))
    if bool(after.illegal_action) or not entered | thrown:
        return None
    table, actor = look(before, observer), int(before.current_player)
    strength = int(rules.decode(old.table.queue, jnp.int32(action)).strength)
    queue = (*table.queue, c.SPECIES * actor + strength - 1)
    seats, own = list(table.seats), table.seats[actor]

    def without(cards: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return cards and tuple(each for each in cards if each != strength)

    seats[actor] = own._replace(hand=without(own.hand), hand_size=own.hand_size - 1, unseen=without(own.unseen))
    leaving = tuple(BAR if entered >> code & 1 else OUT if thrown >> code & 1 else "" for code in queue)
    verb = "play" if actor == observer else "plays"
    said = f"{table.name(actor).capitalize()} {verb} the {c.NAMES[strength - 1]}"
    return table._replace(seats=(seats[0], seats[1]), queue=queue, actor=None, said=said, leaving=leaving)


def queue_codes(queue) -> list[int]:
    """Returns the card codes of a queue word, front first."""
    tokens = [int(queue) >> c.FIELD * place & c.FIELD_MASK for place in range(c.PLACES)]
    return [token - 1 for token in tokens if token]


def seat_mask(cards, seat: int) -> int:
    """Returns the 12-bit mask of a seat's species in a set of cards."""
    return int(cards) >> c.SPECIES * seat & c.ALL_SPECIES


def species(cards, seat: int) -> tuple[int, ...]:
    """Returns the strengths of a seat's cards in a set of cards, ascending."""
    return tuple(s for s in range(1, c.SPECIES + 1) if seat_mask(cards, seat) >> s - 1 & 1)


def _seat(game, seat: int, observer: int | None) -> BeastyBarSeat:
    hand = species(game.hands, seat)
    played = (int(game.ply) + (seat == int(game.start))) // 2
    word = int(game.deck1 if seat else game.deck0)
    size = max(c.DECK_SIZE - played, 0)
    deck = tuple((word >> 4 * i & 15) + 1 for i in range(size))
    bar = species(game.table.bar, seat)
    return BeastyBarSeat(
        bar=bar,
        out=species(game.table.out, seat),
        points=sum(c.POINTS[s - 1] for s in bar),
        hand=hand if observer in (None, seat) else None,
        hand_size=len(hand),
        deck=deck if observer is None else tuple(sorted(deck)) if observer == seat else None,
        deck_size=size,
        unseen=None if observer in (None, seat) else tuple(sorted(hand + deck)),
    )
