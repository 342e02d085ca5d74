"""The table of Beasty Bar for a screen that is taller than wide: the other seat and both rooms above, the queue in the
middle, the hand in large cards below."""

from __future__ import annotations

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display import drawing
from jaxrl_envs.beasty_bar.display.drawing import CARD, DIM, GOLD, OWNERS, PALE
from jaxrl_envs.beasty_bar.display.position import BAR, OUT, BeastyBarPosition, BeastyBarSeat
from jaxrl_envs.contract.env import ClickArea
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.seats import who

WIDTH, HEIGHT = 400, 640
ROOMS = ((5, "BEASTY BAR", GOLD, "#3a1b46"), (203, "THAT’S IT", "#ef6a5a", "#1b1d24"))  # left edge, sign, neon, wall
ROOM = (192, 66, 206)  # width, top and height
QUEUE_Y, QUEUE_SCALE = 364, 0.7
FRONT, STEP = (567, 0.9), 97  # height and scale of the hand in front, distance of its cards
_text, _rect = drawing._text, drawing._rect


def draw(table: BeastyBarPosition) -> str:
    """Returns the SVG of a table, seen from its observer."""
    first = table.observer or 0
    night = svg.gradient("night", "#2a2052", "#141027") + svg.gradient("carpet", "#a8283a", "#7c1a2c")
    parts = [f"<defs>{night}</defs>", _rect(0, 0, WIDTH, HEIGHT, 0, "url(#night)")]
    width, top, height = ROOM
    for (left, sign, neon, wall), zone in zip(ROOMS, (BAR, OUT), strict=True):
        parts.append(_rect(left, top, width, height, 14, wall, f'stroke="{neon}" stroke-width="2"'))
        parts.append(_text(left + width / 2, top + 21, sign, 15, neon, 'font-weight="bold" letter-spacing="2"'))
        for row, seat in enumerate((1 - first, first)):
            parts.append(_zone(table.seats[seat], seat, zone == BAR, left, top + 58 + 86 * row))
    parts += [_line(table, 1 - first, 5), _queue(table), _line(table, first, 438)]
    y, scale = FRONT
    for i, strength in enumerate(table.seats[first].hand or ()):
        parts.append(drawing.draw_card(c.SPECIES * first + strength - 1, _place(i), y, scale=scale))
    return svg.document(WIDTH, HEIGHT, parts)


def click_areas(table: BeastyBarPosition, seat: int, legal: list[int]) -> list[ClickArea]:
    """Returns the cards of `seat`, in front, each with the legal actions that play it."""
    return drawing.click_areas(table, seat, legal, _place, FRONT)


def _place(index: int) -> float:
    return WIDTH / 2 + STEP * (index - 1.5)


def _zone(entry: BeastyBarSeat, seat: int, bar: bool, left: float, top: float) -> str:
    """Returns small cards of one seat in a room, four a row."""
    strengths = entry.bar if bar else entry.out
    gap = 34 if len(strengths) <= 8 else 17
    return "".join(
        drawing.draw_card(
            c.SPECIES * seat + strength - 1, left + 27 + 46 * (i % 4), top + gap * (i // 4), scale=0.38, name=False
        )
        for i, strength in enumerate(strengths)
    )


def _line(table: BeastyBarPosition, seat: int, top: float) -> str:
    """Returns the line about a seat: name, points, cards in hand and deck, and whether it is to move."""
    entry, (ink, _) = table.seats[seat], OWNERS[seat]
    frame = f'stroke="{GOLD}" stroke-width="3"' if seat == table.actor else f'stroke="{ink}" stroke-width="1.6"'
    cards = f"{entry.hand_size} in hand, {entry.deck_size} in the deck"
    return (
        _rect(5, top, WIDTH - 10, 56, 12, "#15112a", frame)
        + _rect(17, top + 11, 15, 15, 4, ink, f'stroke="{PALE}" stroke-width="1"')
        + _text(40, top + 24, who(seat, table.observer), 17, PALE, 'text-anchor="start" font-weight="bold"')
        + _text(WIDTH - 18, top + 24, f"{entry.points} points", 17, GOLD, 'text-anchor="end" font-weight="bold"')
        + _text(18, top + 46, cards, 14, DIM, 'text-anchor="start"')
    )


def _queue(table: BeastyBarPosition) -> str:
    """Returns the headline and the queue from Heaven's Gate, on the left, to the back."""
    top, height = QUEUE_Y - 58, CARD[1] * QUEUE_SCALE + 18
    words, size, colour = drawing.headline(table)
    parts = [
        _rect(0, top, WIDTH, height, 0, "url(#carpet)"),
        _rect(0, top, 6, height, 0, GOLD),
        _text(WIDTH / 2, top - 11, words, min(size, 15), colour, 'font-style="italic"'),
    ]
    for place in range(c.PLACES):
        x = 45 + 78 * place
        if place >= len(table.queue):
            parts.append(_text(x, QUEUE_Y + 8, str(place + 1), 22, PALE, 'opacity="0.5"'))
            continue
        if leaving := table.leaving and table.leaving[place]:
            ink = GOLD if leaving == BAR else "#ef6a5a"
            parts.append(_rect(x - 39, QUEUE_Y - 54, 78, 108, 12, ink, 'opacity="0.9"'))
            parts.append(_text(x, top + height + 15, leaving, 13, ink, 'font-weight="bold"'))
        parts.append(drawing.draw_card(table.queue[place], x, QUEUE_Y, scale=QUEUE_SCALE))
    return "".join(parts)
