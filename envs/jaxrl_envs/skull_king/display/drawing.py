"""The table of Skull King as one SVG document, without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from jaxrl_envs.contract.env import ClickArea
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.seats import does, who
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display.emblems import style_of
from jaxrl_envs.skull_king.display.position import PHASES, SkullKingPosition, SkullKingSeat, reason

WIDTH, HEIGHT = 1000, 740
CENTRE = (500, 318)
CARD = (66, 94)
PANEL = (190, 90)
OPEN, OPEN_ROW = (31, 34), 5  # place of a small card of an open hand; cards in a row
RAISED, RESTING = 664, 677  # the middle of cards in the hand in front
FRONT, PLAYED = 1.3, 1.2  # scale of cards in the hand in front, and of those of a trick, where seats leave the room
GOLD, PALE, DIM = "#f0c24b", "#f4ead2", "#b9c7c9"
BACKGROUND = svg.shapes(Path(__file__).with_name("background.svg"))["all"]
_text = partial(svg.text, fixed=True)


def draw(table: SkullKingPosition) -> str:
    """Returns the SVG of a table, seen from its observer (seat 0 if everything is face up)."""
    first = table.observer or 0
    parts = [BACKGROUND]
    for number, seat in enumerate(table.seats):
        angle = math.tau * (0.25 + ((number - first) % len(table.seats)) / len(table.seats))
        parts.append(_panel(table, number, seat, *_on_ellipse(angle, 404, 246), main=number == first))
    for number, play in table.plays:
        angle = math.tau * (0.25 + ((number - first) % len(table.seats)) / len(table.seats))
        x, y = _on_ellipse(angle, 236, 118)
        tilt = 7 * math.sin(2.4 * number + table.tricks)
        scale = PLAYED if len(table.seats) <= 6 else 1.0
        parts.append(draw_card(play, x, y, tilt=tilt, scale=scale, glow=number == table.winner))
    x, y = CENTRE
    parts += [_text(x, y - 16 + 22 * i, *line) for i, line in enumerate(headlines(table))]
    parts.append(_hand(table, first))
    return svg.document(WIDTH, HEIGHT, parts)


def _on_ellipse(angle: float, rx: float, ry: float) -> tuple[float, float]:
    return CENTRE[0] + rx * math.cos(angle), CENTRE[1] + ry * math.sin(angle)


# ---- seats ----------------------------------------------------------------------------------------------------------


def _panel(table: SkullKingPosition, number: int, seat: SkullKingSeat, x: float, y: float, main: bool) -> str:
    """Name, score, bid and tricks won of a seat, and the cards in its hand (drawn large elsewhere for the main one)."""
    width, height = PANEL[0], 64 if main and not seat.notes else PANEL[1]
    if not main and seat.hand is not None:
        height = 64 + OPEN[1] * max(1, -(-len(seat.hand) // OPEN_ROW))
    acting = number == table.actor
    left, top = min(max(x - width / 2, 6), WIDTH - width - 6), max(y - height / 2, 6)
    middle = left + width / 2
    name = who(number, table.observer)
    frame = f'stroke="{GOLD}" stroke-width="3"' if acting else 'stroke="#5d7a80" stroke-width="1.2"'
    parts = [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}" rx="11" fill="#10212b" '
        f'fill-opacity="0.94" {frame}/>',
        _text(left + 12, top + 25, name, 20, GOLD if acting else PALE, 'text-anchor="start" font-weight="bold"'),
        _text(left + width - 12, top + 25, f"{seat.score}", 20, PALE, 'text-anchor="end"'),
        _pips(seat, left + 12, top + 46),
    ]
    parts.append(_text(left + width - 12, top + 51, ", ".join(remarks(table, number)), 14, DIM, 'text-anchor="end"'))
    notes = _text(middle, top + 76, "; ".join(seat.notes), 13.5, DIM)
    parts.append(notes if main else _other_hand(seat, middle, top + 73))
    return "".join(parts)


def remarks(table: SkullKingPosition, number: int) -> list[str]:
    """Returns the wager of a seat, what it has captured, and whether it leads."""
    seat = table.seats[number]
    leads = number == table.leader and table.phase in (rules.BID, rules.PLAY)
    facts = ((f"wager {seat.wager}", seat.wager), (f"+{seat.captured}", seat.captured), ("leads", leads))
    return [words for words, there in facts if there]


def _pips(seat: SkullKingSeat, x: float, y: float, room: float = 70) -> str:
    """Returns the bid as rings and the tricks won as coins in them, `room` wide; coins beyond the bid are red."""
    if seat.bid is None:
        return _text(x, y + 5, "has bid" if seat.bid_made else "…", 15, DIM, 'text-anchor="start"')
    total = max(seat.bid, seat.won)
    if total == 0:
        return _text(x, y + 5, "0 bid, 0 won", 15, DIM, 'text-anchor="start"')
    step = min(12.0, room / total)
    parts = []
    for i in range(total):
        ring = f'fill="none" stroke="{GOLD}" stroke-width="1.6"'
        coin = f'fill="{GOLD}" stroke="{GOLD}" stroke-width="1.6"'
        beyond = 'fill="#d2493f" stroke="#d2493f" stroke-width="1.6"'
        look = ring if i >= seat.won else coin if i < seat.bid else beyond
        parts.append(f'<circle cx="{x + 5 + i * step:.1f}" cy="{y}" r="4.6" {look}/>')
    count = _text(x + 5 + total * step, y + 5, f"{seat.won}/{seat.bid}", 15, DIM, 'text-anchor="start"')
    return "".join(parts) + count


def _other_hand(seat: SkullKingSeat, x: float, y: float) -> str:
    """Returns the hand of a seat that is not in front: backs, or small cards if it is face up."""
    if seat.hand is None:
        start = x - 5.5 * (seat.hand_size - 1)
        return "".join(_back(start + 11 * i, y) for i in range(seat.hand_size))
    width, height = OPEN
    start, top = x - width * (min(len(seat.hand), OPEN_ROW) - 1) / 2, y - 10 + height / 2 - 6
    return "".join(
        _small_card(card, start + width * (i % OPEN_ROW), top + height * (i // OPEN_ROW))
        for i, card in enumerate(seat.hand)
    )


def _back(x: float, y: float) -> str:
    return (
        f'<rect x="{x - 7:.1f}" y="{y - 10:.1f}" width="14" height="20" rx="2.5" fill="#7c1f2b" stroke="{PALE}"/>'
        f'<path d="M{x:.1f},{y - 5:.1f} l3,5 l-3,5 l-3,-5 Z" fill="{GOLD}" opacity="0.8"/>'
    )


def _small_card(card: int, x: float, y: float) -> str:
    """Returns a card of an open hand: its number, or its picture."""
    style = style_of(card)
    if card < 56:
        face = _text(0, 7, str(card % 14 + 1), 20, style.ink, 'font-weight="bold"')
    else:
        face = f'<g transform="scale(0.8)">{style.picture.replace("INK", style.ink).replace("PAPER", style.paper)}</g>'
    return (
        f'<g data-card="{card}" transform="translate({x:.1f},{y:.1f})"><rect x="-14.5" y="-15.5" width="29" '
        f'height="31" rx="4" fill="{style.paper}" stroke="{style.ink}" stroke-width="2"/>{face}</g>'
    )


# ---- cards ----------------------------------------------------------------------------------------------------------


def draw_card(
    play: int, x: float, y: float, *, tilt: float = 0.0, scale: float = 1.0, glow: bool = False, dim: bool = False
) -> str:
    """Returns one card around (x, y)."""
    width, height = CARD
    style = style_of(play)
    picture = style.picture.replace("INK", style.ink).replace("PAPER", style.paper)
    glowing = f'<rect x="-38" y="-52" width="76" height="104" rx="12" fill="{GOLD}" opacity="0.9"/>' if glow else ""
    card = c.TIGRESS if play == c.TIGRESS_PIRATE else play
    parts = [
        f'<g data-card="{card}" transform="translate({x:.1f},{y:.1f}) rotate({tilt:.1f}) scale({scale})">{glowing}',
        f'<rect x="{-width / 2 + 2}" y="{-height / 2 + 4}" width="{width}" height="{height}" rx="8" fill="#000" '
        'opacity="0.3"/>',
        f'<rect x="{-width / 2}" y="{-height / 2}" width="{width}" height="{height}" rx="8" fill="{style.paper}" '
        f'stroke="{style.ink}" stroke-width="2.2"/>',
    ]
    if play < 56:
        number = str(play % 14 + 1)
        corner = _text(-28, -27, number, 19, style.ink, 'font-weight="bold" text-anchor="start"')
        parts.append(f'{corner}<g transform="rotate(180)">{corner}</g>')
        parts.append(f'<g transform="scale(1.08)">{picture}</g>')
    else:
        parts.append(f'<g transform="translate(0,-9) scale(1.3)">{picture}</g>')
        name, _, how = c.card_name(play).partition(" (")
        size = 13 if len(name) <= 8 else 9.8 if len(name) <= 10 else 8.8
        parts.append(_text(0, 35 if not how else 30, name, size, style.ink, 'font-weight="bold"'))
        if how:
            parts.append(_text(0, 41, how.rstrip(")"), 10, style.ink))
    if dim:
        parts.append(
            f'<rect x="{-width / 2}" y="{-height / 2}" width="{width}" height="{height}" rx="8" fill="#0c131c" '
            'opacity="0.5"/>'
        )
    return "".join(parts) + "</g>"


def card_sprites() -> str:
    """Returns the sprites of all plays, `card-PLAY`, and of the back, `back`."""
    width, height = CARD
    back = (
        f'<rect x="{-width / 2}" y="{-height / 2}" width="{width}" height="{height}" rx="8" fill="#7c1f2b" '
        f'stroke="{PALE}" stroke-width="4"/><path d="M0,-26 l15,26 l-15,26 l-15,-26 Z" fill="{GOLD}" opacity="0.8"/>'
    )
    shapes = {f"card-{play}": draw_card(play, 0, 0) for play in range(c.NUM_PLAYS)} | {"back": back}
    return svg.sprites(shapes, -width / 2 - 2, -height / 2 - 2, width + 4, height + 6)


def _hand(table: SkullKingPosition, seat: int) -> str:
    """Returns the hand in front; the cards that may be played now are raised, the others darkened."""
    asked = bool(table.legal) and table.actor == seat
    parts = []
    for card, x in _places(table.seats[seat].hand or ()):
        raised = asked and card in table.legal
        parts.append(draw_card(card, x, RAISED if raised else RESTING, scale=FRONT, dim=asked and not raised))
    return "".join(parts)


def _places(cards: tuple[int, ...]) -> list[tuple[int, float]]:
    """Returns the cards of the hand in front with the middle of each."""
    step = min(104.0, 880 / max(len(cards), 1))
    start = WIDTH / 2 - step / 2 * (len(cards) - 1)
    return [(card, start + step * i) for i, card in enumerate(cards)]


def click_areas(table: SkullKingPosition, seat: int) -> list[ClickArea]:
    """Returns the cards that `seat`, in front, may play or discard now; the later ones lie above the earlier ones."""
    width, height = FRONT * CARD[0], FRONT * CARD[1]
    found = []
    for card, x in _places(table.seats[seat].hand or ()):
        if card in table.legal:
            found.append(ClickArea(x - width / 2, RAISED - height / 2, width, height, actions_of(table, card)))
    return found


def actions_of(table: SkullKingPosition, card: int) -> tuple[int, ...]:
    """Returns the actions that play or discard a card."""
    pirate = (rules.PLAY_TIGRESS_PIRATE,) if card == c.TIGRESS and table.phase == rules.PLAY else ()
    return (rules.FIRST_PLAY + card, *pirate)


def headlines(table: SkullKingPosition) -> list[tuple[str, float, str, str]]:
    """Returns round, trick, how the trick stands and what is asked: text, size, colour and attributes of each line."""
    if table.finished:
        best = max(seat.score for seat in table.seats)
        winners = [who(i, table.observer) for i, seat in enumerate(table.seats) if seat.score == best]
        verb = "win" if len(winners) > 1 or winners == ["You"] else "wins"
        title, second = "Game over", f"{' and '.join(winners)} {verb} with {best} points"
    else:
        title = f"Round {table.number} of {rules.NUM_ROUNDS}"
        second = f"trick {min(table.tricks + 1, table.hand)} of {table.hand}"
    third = ""
    if table.free:
        third = "no suit to follow"
    elif table.follow is not None:
        third = f"follow {c.SUIT_NAMES[table.follow]}"
    elif table.actor is not None and table.phase == rules.PLAY and not table.plays:
        third = does(table.actor, table.observer, "lead")
    fourth = ""
    if table.plays and table.winner is None:
        third = "no seat wins this trick"
    elif table.winner is not None and len(table.plays) == len(table.seats):
        third = f"{does(table.winner, table.observer, 'win')} the trick"
    if len(table.plays) == len(table.seats):
        fourth = reason(table.plays, table.winner)
    elif table.actor is not None and table.phase != rules.PLAY:
        fourth = f"{who(table.actor, table.observer)} to {PHASES[table.phase]}"
    return [
        (title, 24, PALE, 'font-weight="bold"'),
        (second, 17, DIM, ""),
        (third, 17, GOLD, ""),
        (fourth, 16, PALE, ""),
    ]
