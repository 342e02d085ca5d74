"""Text of a Skull King table for the terminal; its drawing is in `drawing.py`."""

from __future__ import annotations

from jaxrl_envs.contract.env import State
from jaxrl_envs.shared.display.seats import whom
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display.position import PHASES, SkullKingPosition, SkullKingSeat, look


def render_text(env, state: State, seat: int | None = None) -> str:
    """Returns the table as text; with a `seat` only what that seat may see, else all hands."""
    table = look(env, state, seat)
    lines = [_headline(table), ""]
    lines.append(f"{'':9}{'score':>6}{'bid':>5}{'won':>5}{'bonus':>7}   notes")
    lines += [_seat_line(table, number, entry) for number, entry in enumerate(table.seats)]
    lines += ["", *_trick_lines(table)]
    for number, entry in enumerate(table.seats):
        if entry.hand:
            owner = "your hand" if number == seat else f"hand of seat {number}"
            marked = table.legal if number == table.actor else frozenset()
            lines.append(f"{owner}: " + ", ".join(c.card_name(card) + "*" * (card in marked) for card in entry.hand))
    if table.out:
        lines.append("you know to be out: " + ", ".join(map(c.card_name, table.out)))
    return "\n".join(lines)


def _headline(table: SkullKingPosition) -> str:
    if table.finished:
        return "Skull King: the game is over"
    trick = f"trick {min(table.tricks + 1, table.hand)} of {table.hand}"
    asked = f"{whom(table.actor, table.observer)} to {PHASES[table.phase]}"
    return f"Skull King, round {table.number} of {rules.NUM_ROUNDS}, {trick}, {table.stock} cards in the stock: {asked}"


def _seat_line(table: SkullKingPosition, number: int, seat: SkullKingSeat) -> str:
    bid = "?" if seat.bid is None and seat.bid_made else "-" if seat.bid is None else str(seat.bid)
    notes = list(seat.notes)
    if seat.wager:
        notes.insert(0, f"wagers {seat.wager}")
    if number == table.leader and not table.finished:
        notes.insert(0, "leads")
    arrow = ">" if number == table.actor else " "
    name = whom(number, table.observer)
    line = f"{arrow} {name:7}{seat.score:6}{bid:>5}{seat.won:5}{seat.captured:7}   {', '.join(notes)}"
    return line.rstrip()


def _trick_lines(table: SkullKingPosition) -> list[str]:
    if table.finished or table.phase == rules.BID:
        return []
    if not table.plays:
        return ["the trick is empty"]
    played = []
    for number, play in table.plays:
        won = " (winning)" if number == table.winner else ""
        played.append(f"{whom(number, table.observer)} {c.card_name(play)}{won}")
    lines = ["trick: " + ", ".join(played)]
    if table.free:
        lines.append("no seat has to follow suit")
    elif table.follow is not None:
        lines.append(f"to follow: {c.SUIT_NAMES[table.follow]}")
    if table.winner is None:
        lines.append("as it stands no seat wins this trick")
    return lines
