"""The table of Skull King for a screen that is taller than wide: opponents above, the trick in the middle, the hand
in large cards below."""

from __future__ import annotations

from jaxrl_envs.contract.env import ClickArea
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.seats import who
from jaxrl_envs.skull_king.display import drawing
from jaxrl_envs.skull_king.display.drawing import CARD, DIM, GOLD, PALE
from jaxrl_envs.skull_king.display.position import SkullKingPosition

WIDTH = 400
CHIP = (124, 58)  # of an opponent, three a row
IN_ROW = 5  # cards of the hand
FRONT, STEP, RAISED = 1.1, (78, 118), 9  # scale of the hand, distances between its cards, and of those that are legal
OWN = 44  # height of the line about the own seat
_text = drawing._text


def draw(table: SkullKingPosition) -> str:
    """Returns the SVG of a table, seen from its observer."""
    first, count = table.observer or 0, len(table.seats)
    others = [(first + turn) % count for turn in range(1, count)]
    top = _top(table)
    parts = [
        "<defs>" + svg.gradient("felt", "#2f7478", "#174347", radial=True) + "</defs>",
        svg.rect(0, 0, WIDTH, _height(table), 0, "#101a25"),
        svg.rect(
            5, top, WIDTH - 10, _hand_top(table) - OWN - top - 6, 26, "url(#felt)", 'stroke="#6b4522" stroke-width="5"'
        ),
    ]
    parts += [_chip(table, seat, i) for i, seat in enumerate(others)]
    parts += [_text(WIDTH / 2, top + 25 + 20 * i, *line) for i, line in enumerate(drawing.headlines(table))]
    for turn, (seat, play) in enumerate(table.plays):
        scale = 1.12 if count <= 4 else 0.86
        in_row = min(len(table.plays) - 4 * (turn // 4), 4)
        x = WIDTH / 2 + 96 * (turn % 4 - (in_row - 1) / 2)
        y = top + (158 if count <= 4 else 142) + 112 * (turn // 4)
        won = seat == table.winner
        parts.append(drawing.draw_card(play, x, y, scale=scale, glow=won))
        name = who(seat, table.observer)
        parts.append(
            _text(x, y + CARD[1] / 2 * scale + 19, name, 14, GOLD if won else PALE, 'font-weight="bold"' * won)
        )
    parts.append(_own(table, first))
    asked = bool(table.legal) and table.actor == first
    for card, x, y in _places(table):
        legal = asked and card in table.legal
        parts.append(drawing.draw_card(card, x, y - RAISED * legal, scale=FRONT, dim=asked and not legal))
    return svg.document(WIDTH, _height(table), parts)


def click_areas(table: SkullKingPosition, seat: int) -> list[ClickArea]:
    """Returns the cards that `seat`, in front, may play or discard now."""
    width, height = FRONT * CARD[0], FRONT * CARD[1]
    return [
        ClickArea(x - width / 2, y - RAISED - height / 2, width, height, drawing.actions_of(table, card))
        for card, x, y in _places(table)
        if card in table.legal
    ]


def _top(table: SkullKingPosition) -> float:
    """Returns the upper edge of the felt, below the opponents."""
    return 8 + (CHIP[1] + 6) * -(-(len(table.seats) - 1) // 3)


def _hand_top(table: SkullKingPosition) -> float:
    return _top(table) + (258 if len(table.seats) <= 4 else 330) + OWN


def _height(table: SkullKingPosition) -> float:
    return _hand_top(table) + RAISED + STEP[1] * -(-table.hand // IN_ROW)  # one round keeps its rows


def _places(table: SkullKingPosition) -> list[tuple[int, float, float]]:
    """Returns the cards of the hand in front with the middle of each."""
    cards, found = table.seats[table.observer or 0].hand or (), []
    for i, card in enumerate(cards):
        in_row = min(len(cards) - IN_ROW * (i // IN_ROW), IN_ROW)
        x = WIDTH / 2 + STEP[0] * (i % IN_ROW - (in_row - 1) / 2)
        found.append((card, x, _hand_top(table) + RAISED + STEP[1] * (i // IN_ROW + 0.5) - 4))
    return found


def _chip(table: SkullKingPosition, number: int, index: int) -> str:
    """Returns name, score, bid, tricks won and captures of an opponent."""
    seat, (width, height) = table.seats[number], CHIP
    row = min(len(table.seats) - 1 - 3 * (index // 3), 3)
    left = WIDTH / 2 + (width + 7) * (index % 3 - row / 2) + 3.5
    top = 5 + (height + 6) * (index // 3)
    acting = number == table.actor
    frame = f'stroke="{GOLD}" stroke-width="3"' if acting else 'stroke="#5d7a80" stroke-width="1.2"'
    bold = 'text-anchor="start" font-weight="bold"'
    notes = ", ".join(each for each in drawing.remarks(table, number) if each != "leads")
    return (
        svg.rect(left, top, width, height, 11, "#10212b", frame)
        + _text(left + 10, top + 23, who(number, table.observer), 16, GOLD if acting else PALE, bold)
        + _text(left + width - 10, top + 23, str(seat.score), 16, PALE, 'text-anchor="end"')
        + drawing._pips(seat, left + 8, top + 41, room=48)
        + _text(left + width - 10, top + 46, notes, 13, DIM, 'text-anchor="end"')
    )


def _own(table: SkullKingPosition, number: int) -> str:
    """Returns the line about the seat in front, above its hand."""
    seat, y = table.seats[number], _hand_top(table) - OWN / 2
    acting = number == table.actor
    frame = f'stroke="{GOLD}" stroke-width="3"' if acting else 'stroke="#5d7a80" stroke-width="1.2"'
    notes = [*drawing.remarks(table, number), *seat.notes]
    return (
        svg.rect(5, y - 19, WIDTH - 10, 36, 11, "#10212b", frame)
        + _text(17, y + 5, who(number, table.observer), 16, PALE, 'text-anchor="start" font-weight="bold"')
        + drawing._pips(seat, 62, y)
        + _text(286, y + 5, ", ".join(notes), 13, DIM, 'text-anchor="end"')
        + _text(WIDTH - 17, y + 5, f"{seat.score} points", 16, PALE, 'text-anchor="end"')
    )
