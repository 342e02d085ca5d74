"""The table of Beasty Bar as one SVG document, without scripts, fonts or pictures from elsewhere.

The bar is on the left, the street with the queue in the middle, the way out on the right; the seat in front is below.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.display.emblems import EMBLEMS
from jaxrl_envs.beasty_bar.display.position import BAR as BAR_ROOM
from jaxrl_envs.beasty_bar.display.position import BeastyBarPosition, BeastyBarSeat
from jaxrl_envs.contract.env import ClickArea
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.seats import who

WIDTH, HEIGHT = 1120, 780
CARD = (102, 142)
GOLD, PALE, DIM = "#f5c64d", "#f9efd9", "#b7b3c9"
OWNERS = (("#157a86", "#d9f0ee"), ("#c2503a", "#fbe3d4"))  # ink and paper of each seat's cards
QUEUE_Y, QUEUE_X, STEP = 388, 354, 110
BAR, EXIT = (28, 264), (872, 1092)  # left and right edge of the two rooms
FRONT = 602, 0.94  # height and scale of the cards in the hand in front
BACKGROUND = svg.shapes(Path(__file__).with_name("background.svg"))["all"]  # street, carpet, and both rooms
_text, _rect = partial(svg.text, fixed=True), partial(svg.rect, fixed=True)


def draw(table: BeastyBarPosition) -> str:
    """Returns the SVG of a table, seen from its observer (seat 0 if everything is face up)."""
    first = table.observer or 0
    parts = [BACKGROUND, _queue(table), _middle(table)]
    for seat in (first, 1 - first):
        front = seat == first
        parts += [
            _zone(table.seats[seat].bar, seat, BAR, front),
            _zone(table.seats[seat].out, seat, EXIT, front, gone=True),
            _points(table, seat, front),
            _panel(table, seat, front),
        ]
    return svg.document(WIDTH, HEIGHT, parts)


def card_sprites() -> str:
    """Returns the sprites of all cards, `card-CODE`, and of both backs, `back-SEAT`."""
    shapes = {f"card-{code}": draw_card(code, 0, 0) for code in range(2 * c.SPECIES)}
    shapes |= {f"back-{seat}": _back(seat, 0, 0, 1.0) for seat in range(2)}
    return svg.sprites(shapes, -54, -74, 108, 150)


def _queue(table: BeastyBarPosition) -> str:
    """Returns the cards from Heaven's Gate to the back, and the free places."""
    parts = []
    width, height = CARD
    for place in range(c.PLACES):
        x = QUEUE_X + STEP * place
        if place < len(table.queue):
            if leaving := table.leaving and table.leaving[place]:
                parts.append(_leaving(leaving, x))
            parts.append(draw_card(table.queue[place], x, QUEUE_Y, tilt=(-1.6, 1.2, -0.8, 1.8, 0.0)[place]))
            continue
        last = place == c.PLACES - 1
        look = f'stroke="{PALE}" stroke-width="1.6" stroke-dasharray="5 6" opacity="{0.3 if last else 0.55}"'
        parts.append(_rect(x - width / 2, QUEUE_Y - height / 2, width, height, 12, "none", look))
        parts.append(_text(x, QUEUE_Y + 8, str(place + 1), 22, PALE, f'opacity="{0.3 if last else 0.5}"'))
    return "".join(parts)


def _leaving(where: str, x: float) -> str:
    """Returns the glow behind a card that is about to leave the queue, and where to, below it."""
    (width, height), ink = CARD, GOLD if where == BAR_ROOM else "#ef6a5a"
    glow = _rect(x - width / 2 - 8, QUEUE_Y - height / 2 - 8, width + 16, height + 16, 16, ink, 'opacity="0.9"')
    return glow + _text(x, QUEUE_Y + height / 2 + 26, where, 14, ink, 'font-weight="bold"')


def _middle(table: BeastyBarPosition) -> str:
    """Returns the headline above the carpet."""
    (words, size, colour), style = headline(table), 'font-style="italic"'
    if table.actor is None and not table.said:
        style = 'font-weight="bold"'
    return _text((BAR[1] + EXIT[0]) / 2 + 12, QUEUE_Y - 98, words, size, colour, style)


def headline(table: BeastyBarPosition) -> tuple[str, int, str]:
    """Returns the seat to move, what is settled or the result: text, size and colour."""
    if table.said:
        return table.said, 19, PALE
    if table.actor is not None:
        return f"turn {table.ply + 1}: {table.name(table.actor)} to move", 19, PALE
    points = " to ".join(str(points) for points in sorted((seat.points for seat in table.seats), reverse=True))
    if table.leader is None:
        return f"Game over: a draw, {points}", 22, GOLD
    who = "You win" if table.leader == table.observer else f"Seat {table.leader} wins"
    return f"Game over: {who} with {points} points", 22, GOLD


# ---- seats ----------------------------------------------------------------------------------------------------------


def _zone(strengths: tuple[int, ...], seat: int, edges: tuple[int, int], front: bool, gone: bool = False) -> str:
    """Returns small cards of one seat in the bar or in THAT'S IT, three a row, the first row at the wall."""
    middle = (edges[0] + edges[1]) / 2 + (10 if gone else -10)  # away from the gate and the door
    rows = (len(strengths) + 2) // 3
    start = 462 if front else 116
    gap = 88.0 if rows <= 3 else 240 / rows
    parts = []
    for i, strength in enumerate(strengths):
        x, y = middle + 62 * (i % 3 - 1), start + gap * (i // 3)
        parts.append(draw_card(c.SPECIES * seat + strength - 1, x, y, scale=0.58, name=False))
    group = "".join(parts)
    return f'<g opacity="0.72">{group}</g>' if gone else group


def _points(table: BeastyBarPosition, seat: int, front: bool) -> str:
    """Returns the points of a seat, in the bar beside the line in the middle."""
    x, y = (BAR[0] + BAR[1]) / 2 - 10, 728 if front else 366
    ink, paper = OWNERS[seat]
    return (
        _rect(x - 62, y - 22, 124, 32, 16, ink, f'stroke="{paper}" stroke-width="1.5"')
        + _star(x - 46, y - 6, 9)
        + _text(x + 10, y + 0.5, f"{table.seats[seat].points} points", 17, PALE, 'font-weight="bold"')
    )


def _panel(table: BeastyBarPosition, seat: int, front: bool) -> str:
    """Returns the name, hand and deck of a seat: large in front, smaller on the other side."""
    entry, (ink, _) = table.seats[seat], OWNERS[seat]
    left, right = BAR[1] + 30, EXIT[0] - 30
    acting = seat == table.actor
    top, height = (496, 256) if front else (20, 246)
    y, scale = FRONT if front else (124, 0.82)
    name = who(seat, table.observer)
    began = " (began)" if table.start == seat else ""
    frame = f'stroke="{GOLD}" stroke-width="3"' if acting else f'stroke="{ink}" stroke-width="1.6"'
    bold = 'text-anchor="start" font-weight="bold"'
    parts = [
        _rect(left, top, right - left, height, 16, "#15112a", f'fill-opacity="0.72" {frame}'),
        _rect(left + 18, top + 13, 15, 15, 4, ink, f'stroke="{PALE}" stroke-width="1"'),
        _text(left + 42, top + 26, name + began, 17, GOLD if acting else PALE, bold),
    ]
    for i in range(entry.hand_size):
        x = _place(i, scale)
        if entry.hand is None:
            parts.append(_back(seat, x, y, scale))
        else:
            parts.append(draw_card(c.SPECIES * seat + entry.hand[i] - 1, x, y, scale=scale))
    parts.append(_deck(entry, seat, right - 58, y, 0.7 if front else 0.62))
    parts.append(_known(entry, seat, left + 22, top + height - 38))
    return "".join(parts)


def _place(index: int, scale: float = FRONT[1]) -> float:
    """Returns the middle of a card in a hand."""
    return (BAR[1] + EXIT[0]) / 2 - 60 + 110 * scale * (index - 1.5)


def click_areas(
    table: BeastyBarPosition,
    seat: int,
    legal: list[int],
    place: Callable[[int], float] = _place,
    front: tuple[float, float] = FRONT,
) -> list[ClickArea]:
    """Returns the cards of `seat`, in front at `place` of each, with the legal actions that play it."""
    (y, scale), found = front, []
    width, height = CARD[0] * scale, CARD[1] * scale
    for i, strength in enumerate(table.seats[seat].hand or ()):
        actions = tuple(action for action in legal if _strength(action) == strength)
        if actions:
            found.append(ClickArea(place(i) - width / 2, y - height / 2, width, height, actions))
    return found


def _strength(action: int) -> int:
    """Of the card that an action plays, see `rules.decode`."""
    if action < rules.FIRST_KANGAROO:
        return (c.SKUNK, c.MONKEY)[action] if action < 2 else action + 4
    return c.KANGAROO if action < rules.FIRST_PARROT else c.PARROT if action < rules.FIRST_CHAMELEON else c.CHAMELEON


def _deck(entry: BeastyBarSeat, seat: int, x: float, y: float, scale: float) -> str:
    """Returns the deck as a pile of backs with its size."""
    layers = min(entry.deck_size, 4)
    if not layers:
        width, height = CARD[0] * scale, CARD[1] * scale
        look = f'stroke="{DIM}" stroke-width="1.3" stroke-dasharray="4 5" opacity="0.6"'
        return _rect(x - width / 2, y - height / 2, width, height, 9, "none", look) + _text(x, y + 5, "deck", 13, DIM)
    pile = "".join(_back(seat, x + 2.5 * i, y - 2.5 * i, scale) for i in range(layers))
    badge = f'<circle cx="{x + 3:.1f}" cy="{y:.1f}" r="15" fill="#15112a" stroke="{PALE}" stroke-width="1.5"/>'
    return pile + badge + _text(x + 3, y + 6, str(entry.deck_size), 17, PALE, 'font-weight="bold"')


def _known(entry: BeastyBarSeat, seat: int, left: float, y: float) -> str:
    """Returns the observer's knowledge of the cards that are not on the table: small discs with strengths."""
    strengths, label = (entry.deck, "deck") if entry.unseen is None else (entry.unseen, "hand or deck")
    if not strengths:
        return ""
    ink, paper = OWNERS[seat]
    parts = [_text(left, y + 20, f"{label}:", 14, DIM, 'text-anchor="start"')]
    start = left + (66 if label == "deck" else 122)
    for i, strength in enumerate(strengths):
        x = start + 32 * i
        parts.append(
            f'<g transform="translate({x:.1f},{y + 15:.1f})"><circle r="14" fill="{paper}" stroke="{ink}" '
            f'stroke-width="1.6"/><g transform="scale(0.26)">{EMBLEMS[strength - 1]}</g></g>'
        )
    return "".join(parts)


# ---- cards ----------------------------------------------------------------------------------------------------------


def draw_card(code: int, x: float, y: float, *, scale: float = 1.0, tilt: float = 0.0, name: bool = True) -> str:
    """Returns one card around (x, y): strength and points above the animal, in the colours of its owner."""
    ink, paper = OWNERS[code // c.SPECIES]
    species = code % c.SPECIES
    width, height = CARD
    parts = [
        f'<g data-card="{code}" transform="translate({x:.1f},{y:.1f}) rotate({tilt:.1f}) scale({scale})">',
        _rect(-width / 2 + 3, -height / 2 + 5, width, height, 12, "#000", 'opacity="0.35"'),
        _rect(-width / 2, -height / 2, width, height, 12, paper, f'stroke="{ink}" stroke-width="4"'),
        f'<circle cx="-34" cy="-54" r="13.5" fill="{ink}"/>',
        _text(-34, -48, str(species + 1), 18, "#fff", 'font-weight="bold"'),
    ]
    parts += [_star(40 - 13.5 * i, -55, 6.6) for i in range(c.POINTS[species])]
    place = "translate(0,6) scale(0.94)" if name else "translate(0,14) scale(1.02)"
    parts.append(f'<g transform="{place}">{EMBLEMS[species]}</g>')
    if name:
        parts.append(_text(0, 64, c.NAMES[species], 14.5, ink, 'font-weight="bold"'))
    return "".join(parts) + "</g>"


def _back(seat: int, x: float, y: float, scale: float) -> str:
    """Returns a card face down: a paw in the colour of its owner."""
    ink, paper = OWNERS[seat]
    width, height = CARD
    places = ((-20, -4), (-7.5, -16), (7.5, -16), (20, -4))
    toes = "".join(f'<ellipse cx="{dx}" cy="{dy}" rx="6.2" ry="8.4"/>' for dx, dy in places)
    return (
        f'<g transform="translate({x:.1f},{y:.1f}) scale({scale})">'
        + _rect(-width / 2 + 3, -height / 2 + 5, width, height, 12, "#000", 'opacity="0.3"')
        + _rect(-width / 2, -height / 2, width, height, 12, ink, f'stroke="{paper}" stroke-width="3"')
        + _rect(-width / 2 + 9, -height / 2 + 9, width - 18, height - 18, 8, "none", f'stroke="{paper}" opacity="0.5"')
        + f'<g fill="{paper}" opacity="0.85">{toes}<path d="M0,-2 C10,-2 20,12 16,20 C12,27 6,21 0,21 C-6,21 -12,27 '
        '-16,20 C-20,12 -10,-2 0,-2 Z"/></g></g>'
    )


def _star(x: float, y: float, r: float) -> str:
    """Returns a point as a golden star."""
    steps = ((0, -1), (0.26, -0.34), (0.95, -0.31), (0.42, 0.13), (0.59, 0.81), (0, 0.42))
    right = [(x + r * dx, y + r * dy) for dx, dy in steps]
    left = [(x - r * dx, y + r * dy) for dx, dy in steps[-2:0:-1]]
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in right + left)
    return f'<polygon points="{points}" fill="{GOLD}" stroke="#a8741a" stroke-width="0.9"/>'
