"""Text of a Beasty Bar table for the terminal; its drawing is in `drawing.py`."""

from __future__ import annotations

from collections.abc import Iterable

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display.position import BeastyBarPosition, BeastyBarSeat, look
from jaxrl_envs.contract.env import Env, State


def render_text(env: Env, state: State, seat: int | None = None) -> str:
    """Returns the table as text; with a `seat` only what that seat may see, else all hands and decks."""
    del env
    table = look(state, seat)
    lines = [_headline(table), "", *_queue(table), ""]
    lines.append(f"{'':10}{'points':>6}   {'bar':34} THAT'S IT")
    order = (0, 1) if seat is None else (seat, 1 - seat)
    lines += [_seat_line(table, number, table.seats[number]) for number in order]
    lines.append("")
    for number in order:
        lines += _cards(table, number, table.seats[number])
    return "\n".join(lines)


def _headline(table: BeastyBarPosition) -> str:
    if table.actor is not None:
        return f"Beasty Bar, turn {table.ply + 1}: {table.name(table.actor)} to move"
    points = " to ".join(str(points) for points in sorted((seat.points for seat in table.seats), reverse=True))
    if table.leader is None:
        return f"Beasty Bar: the game is over after {table.ply} turns, a draw, {points}"
    verb = "win" if table.leader == table.observer else "wins"
    return f"Beasty Bar: the game is over after {table.ply} turns, {table.name(table.leader)} {verb} {points}"


def _queue(table: BeastyBarPosition) -> list[str]:
    if not table.queue:
        return ["the queue is empty"]
    lines = ["queue, from Heaven's Gate to the back:"]
    for place, code in enumerate(table.queue, 1):
        lines.append(f"  {place}  {_name(code % c.SPECIES + 1):16}{table.name(code // c.SPECIES)}")
    return lines


def _seat_line(table: BeastyBarPosition, number: int, seat: BeastyBarSeat) -> str:
    arrow = ">" if number == table.actor else " "
    bar, out = (", ".join(c.NAMES[s - 1] for s in zone) or "-" for zone in (seat.bar, seat.out))
    return f"{arrow} {table.name(number):8}{seat.points:6}   {bar:34} {out}"


def _cards(table: BeastyBarPosition, number: int, seat: BeastyBarSeat) -> list[str]:
    if seat.hand is None:
        cards = f"{seat.hand_size} card{'s' * (seat.hand_size != 1)} in the hand and {seat.deck_size} in the deck"
        return [f"{table.name(number)} has {cards}, of: {_list(seat.unseen or ())}"]
    own = "your" if number == table.observer else f"seat {number}:"
    order = "next card first" if table.observer is None else "in some order"
    lines = [f"{own} hand: {_list(seat.hand)}"]
    if seat.deck:
        lines.append(f"{own} deck, {seat.deck_size} card{'s' * (seat.deck_size != 1)}, {order}: {_list(seat.deck)}")
    return lines


def _list(strengths: Iterable[int]) -> str:
    return ", ".join(map(_name, strengths)) or "nothing"


def _name(strength: int) -> str:
    return f"{c.NAMES[strength - 1]} ({strength})"
