"""A position of the battle as one SVG document, without scripts, fonts or pictures from elsewhere.

The board is in the middle; each side's units are listed beside its deployment zone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxrl_envs.battle import actions as a
from jaxrl_envs.battle.display.board import board_bottom, defs, draw_board, draw_control, draw_marker, draw_terrain
from jaxrl_envs.battle.display.paint import (
    CARD,
    DIM,
    EDGE,
    FOOT,
    GAP,
    GOLD,
    INK,
    LIVERIES,
    NIGHT,
    PALE,
    PANEL,
    PAPER,
    SHAPES,
    SLATE,
    Layout,
)
from jaxrl_envs.battle.display.position import PHASES, BattlePosition, BattleQuestion, Cell, Squad, shorten, side_name
from jaxrl_envs.battle.display.render import ask, conditions, outcome
from jaxrl_envs.shared.display.svg import circle, document, number, path, rect, text

START, END, BOLD = 'text-anchor="start"', 'text-anchor="end"', 'font-weight="bold"'
PIPS = (48, 164)  # where the pips of a card begin, and their width
BAR = 110  # length of the bar of wounds
WOUND = "#d8232a"
Area = tuple[float, float, float, float, tuple[int, ...]]  # x, y, width, height, legal actions


def draw(view: BattlePosition, seat: int | None = None) -> str:
    """Returns the SVG of a position; the side `seat` is called "you"."""
    layout = Layout.of(view.ground)
    parts = draw_ground(layout, view)
    for side in (0, 1):
        parts.append(draw_head(layout, view, side, seat))
        parts += [_card(layout, view, squad) for squad in view.squads[side]]
    return document(*layout.page, [*parts, _header(layout, view), _footer(layout, view, seat)])


def draw_ground(layout: Layout, view: BattlePosition) -> list[str]:
    """Returns the board with everything on it."""
    parts = [defs(layout), draw_board(layout, view.ground, view.left)]
    parts += [draw_marker(layout, marker, i, marker.owner) for i, marker in enumerate(view.markers)]
    parts.append(draw_terrain(layout, view.ground))
    parts += [draw_control(layout, marker) for marker in view.markers]
    squads = [squad for units in view.squads for squad in units if squad.alive]
    return parts + draw_squads(layout, squads, [_highlight(layout, view, squad) for squad in squads])


# ---- units on the board ---------------------------------------------------------------------------------------------


def draw_squads(layout: Layout, squads: Sequence[Squad], highlights: Sequence[str] = ()) -> list[str]:
    """Returns living units on the board, with `highlights` below their models."""
    hulls, models, signs = ([draw(layout, squad) for squad in squads] for draw in (_hull, _models, _signs))
    return [*hulls, *highlights, *models, *signs]


def _hull(layout: Layout, squad: Squad) -> str:
    """Returns the ground under a unit, one patch for models that stand side by side."""
    joints = []
    places = [f"{number(layout.x(c))},{number(layout.y(r))}" for r, c in squad.cells]
    for i, (r, c) in enumerate(squad.cells):
        joints.append(f"M{places[i]}h0")
        for place, (r2, c2) in zip(places, squad.cells[:i], strict=False):
            if max(abs(r - r2), abs(c - c2)) == 1:
                joints.append(f"L{place}M{places[i]}")
    style = 'stroke-linecap="round" stroke-linejoin="round" opacity=".38"'
    return path("".join(joints), LIVERIES[squad.side].main, round(1.15 * layout.cell, 1), style)


def _highlight(layout: Layout, view: BattlePosition, squad: Squad) -> str:
    """Returns golden rings around the models of the deciding unit, dashed ones around those of its subject."""
    question = view.question
    if question is None:
        return ""
    if (question.side, question.unit) == (squad.side, squad.index):
        look = f'stroke="{GOLD}" stroke-width="3.2"'
    elif (1 - question.side, question.subject) == (squad.side, squad.index):
        look = f'stroke="{INK}" stroke-width="2" stroke-dasharray="3 2"'
    else:
        return ""
    r = 0.5 * layout.cell
    return "".join(circle(layout.x(c), layout.y(row), r, "none", look) for row, c in squad.cells)


def _models(layout: Layout, squad: Squad) -> str:
    """Returns the models; the anchor carries the unit's number, the last one shows its wounds."""
    places = [(layout.x(c), layout.y(r)) for r, c in squad.cells]
    bases = "".join(f'<use href="#m{squad.side}" x="{number(x)}" y="{number(y)}"/>' for x, y in places)
    hurt = _wounds(layout, squad, *places[-1]) if squad.lead < squad.wounds else ""
    return bases + _anchor(layout, squad, *places[0]) + hurt


def _wounds(layout: Layout, squad: Squad, x: float, y: float) -> str:
    """Returns a ring around a wounded model, dark for the wounds it has lost."""
    r = 0.5 * layout.cell
    around = math.tau * r
    lost = around * (1 - squad.lead / squad.wounds)
    width = f'stroke-width="{number(0.14 * layout.cell)}"'
    turned = f'transform="rotate(-90 {number(x)} {number(y)})"'
    dark = f'stroke="{WOUND}" {width} stroke-dasharray="{lost:.1f} {around:.1f}" {turned}'
    return circle(x, y, r, "none", f'stroke="#fff" {width}') + circle(x, y, r, "none", dark)


def _anchor(layout: Layout, squad: Squad, x: float, y: float) -> str:
    """Returns the number of a unit on the base of its anchor at (x, y)."""
    size = round(0.72 * layout.cell, 1)
    livery = LIVERIES[squad.side]
    disc = circle(x, y, 0.43 * layout.cell, livery.dark, f'stroke="{livery.light}" stroke-width="1.2"')
    return disc + text(x, y + 0.36 * size, str(squad.number), size, "#fff", BOLD)


def _signs(layout: Layout, squad: Squad) -> str:
    """Shocked, in smoke, in cover: signs at the anchor."""
    r, c = squad.cells[0]
    x, y, cell = layout.x(c), layout.y(r), layout.cell
    shown = [SHAPES[flag] for flag in ("smoked", "grounded", "shocked") if flag in squad.flags]
    return f'<g transform="translate({number(x)},{number(y)}) scale({cell})">{"".join(shown)}</g>' if shown else ""


# ---- what can be clicked --------------------------------------------------------------------------------------------


def click_areas(view: BattlePosition, legal: Sequence[int]) -> list[Area]:
    """Returns the click areas of the side that is asked: the places where its unit would end with nothing in its way,
    the unit itself to stay, and the units that actions name, on the board and beside it."""
    board, beside = areas(view, legal, Layout.of(view.ground))
    return board + beside


def areas(view: BattlePosition, legal: Sequence[int], layout: Layout) -> tuple[list[Area], list[Area]]:
    """Returns the click areas on the board and those beside it."""
    question = view.question
    assert question is not None
    places: dict[Cell, list[int]] = {}
    units: dict[tuple[int, int], list[int]] = {}
    for action in legal:
        if a.FIRST_MOVE <= action < a.FIRST_SHOOT:
            places.setdefault(_move_end(view, question, action), []).append(action)
        elif a.FIRST_SHOOT <= action < a.FIRST_SNAP:
            units.setdefault((1 - question.side, (action - a.FIRST_SHOOT) % 8), []).append(action)
        elif a.FIRST_SNAP <= action < a.REROLL:
            units.setdefault((question.side, (action - a.FIRST_SNAP) % 8), []).append(action)
        elif action == a.DECLINE and question.kind in ("move", "fall_back"):
            units[question.side, question.unit] = [action]
    board: list[Area] = [(*_around(layout, cell, 1.9), tuple(actions)) for cell, actions in places.items()]
    beside: list[Area] = []
    for (side, index), actions in units.items():
        squad = view.squads[side][index]
        board += [(*_around(layout, cell, 1.1), tuple(actions)) for cell in squad.cells]
        beside.append((*_card_place(layout, view, squad), *CARD, tuple(actions)))
    return board, beside


def _around(layout: Layout, cell: Cell, size: float) -> tuple[float, float, float, float]:
    """Returns a square of `size` cells around the middle of a cell: x, y, width, height."""
    length = size * layout.cell
    return layout.x(cell[1]) - length / 2, layout.y(cell[0]) - length / 2, length, length


def _move_end(view: BattlePosition, question: BattleQuestion, action: int) -> Cell:
    """The cell where a move would bring the anchor of the asked unit if nothing is in its way; an advance as far as an
    average die."""
    squad, (gait, way) = view.squads[question.side][question.unit], divmod(action - a.FIRST_MOVE, 8)
    distance = ((squad.move + 1) // 2, squad.move, squad.move + 3)[gait]
    steps = math.isqrt(distance**2 // 2) if way % 2 else distance
    forward = steps * a.FORWARD[way] * (1 if question.side == view.left else -1)
    row, col = squad.cells[0]
    return (
        min(max(row + steps * a.DOWN[way], 0), view.ground.rows - 1),
        min(max(col + forward, 0), view.ground.cols - 1),
    )


# ---- the sides ------------------------------------------------------------------------------------------------------


def draw_head(layout: Layout, view: BattlePosition, side: int, seat: int | None) -> str:
    """Returns the head of a side's panel: name, roster, points, and a golden frame in its half-turns."""
    x, livery = layout.panel(side, view.left), LIVERIES[side]
    active = not view.over and side == view.active
    return (
        rect(x, GAP, PANEL, 74, 10, livery.dark, f'stroke="{livery.main}" stroke-width="1.6"')
        + circle(x + 22, GAP + 23, 9, livery.main, f'stroke="{livery.light}" stroke-width="2"')
        + text(x + 40, GAP + 30, side_name(side, seat), 21, PALE, f"{START} {BOLD}")
        + text(x + 14, GAP + 60, shorten(view.rosters[side], 13), 15, livery.light, START)
        + text(x + PANEL - 14, GAP + 62, "VP", 13, livery.light, END)
        + (rect(x - 2, GAP - 2, PANEL + 4, 78, 11, "none", f'stroke="{GOLD}" stroke-width="2.6"') if active else "")
        + text(x + PANEL - 14, GAP + 42, str(view.points[side]), 36, "#fff", f"{END} {BOLD}")
        + _command_points(x + 136, GAP + 55, view.command[side])
    )


def _command_points(x: float, y: float, count: int) -> str:
    """Returns the command points of a side as a golden token."""
    return (
        f'<path d="M{number(x)},{y - 11}l11,11l-11,11l-11,-11Z" fill="{GOLD}" stroke="#7d5c12" stroke-width="1.2"/>'
        + text(x, y + 4.5, str(count), 13, "#3a2a06", BOLD)
        + text(x + 16, y + 5, "CP", 13, DIM, START)
    )


def _card_place(layout: Layout, view: BattlePosition, squad: Squad) -> tuple[float, float]:
    """Returns the upper left corner of a unit's card."""
    return layout.panel(squad.side, view.left), GAP + 82 + squad.index * (CARD[1] + 6)


def _card(layout: Layout, view: BattlePosition, squad: Squad) -> str:
    """Returns a unit's number, name, models, wounds and conditions, framed if it is asked."""
    x, y = _card_place(layout, view, squad)
    livery, question = LIVERIES[squad.side], view.question
    parts = [
        rect(x, y, *CARD, 9, SLATE, f'stroke="{EDGE}"'),
        circle(x + 24, y + 26, 15, livery.main, f'stroke="{livery.light}" stroke-width="1.6"'),
        text(x + 24, y + 33, str(squad.number), 20, "#fff", BOLD),
        text(x + 48, y + 22, shorten(squad.name, 19), 16, PALE, f"{START} {BOLD}"),
        *_pips(x, y, squad),
        rect(x + 48, y + 47, BAR, 5, 2.5, "#0c0f13"),
    ]
    if squad.alive:
        length = max(BAR * squad.health / (squad.start * squad.wounds), 2.0)
        parts.append(rect(x + 48, y + 47, length, 5, 2.5, livery.light))
    parts.append(text(x + PANEL - 10, y + 53, f"{squad.health}/{squad.start * squad.wounds}", 12.5, DIM, END))
    if not squad.alive:
        return "".join([*parts, rect(x, y, *CARD, 9, "#0b0e12", 'opacity=".55"'), _condition(x, y, "destroyed", DIM)])
    group = "".join([*parts, _condition(x, y, ", ".join(conditions(view, squad)))])
    if question is not None and (question.side, question.unit) == (squad.side, squad.index):
        return group + rect(x, y, *CARD, 9, "none", f'stroke="{GOLD}" stroke-width="2.6"')
    if question is not None and (1 - question.side, question.subject) == (squad.side, squad.index):
        return group + rect(x, y, *CARD, 9, "none", f'stroke="{PAPER}" stroke-width="2" stroke-dasharray="5 4"')
    return group


def _pips(x: float, y: float, squad: Squad) -> list[str]:
    """Returns the models on the card at (x, y), or the wounds of a single one."""
    livery, single = LIVERIES[squad.side], squad.start == 1
    count, left = (squad.wounds, squad.lead * squad.alive) if single else (squad.start, len(squad.cells))
    step, pips = min(12.0, PIPS[1] / count), []
    for i in range(count):
        hurt = not single and i == left - 1 and squad.lead < squad.wounds
        fill = "none" if i >= left else livery.light if hurt else livery.main
        place = x + PIPS[0] + step * (i + 0.5), y + 36, min(4.6, 0.42 * step)
        pips.append(circle(*place, fill, f'stroke="{livery.light}" stroke-width="1"'))
    return pips


def _condition(x: float, y: float, words: str, fill: str = GOLD) -> str:
    """Returns the last line of the card at (x, y)."""
    return text(x + 48, y + 68, shorten(words, 27), 12, fill, f'{START} font-style="italic"')


# ---- above and below the board --------------------------------------------------------------------------------------


def _header(layout: Layout, view: BattlePosition) -> str:
    """Returns the round and half-turn, and the five phases, of which the current one is golden."""
    middle = layout.page[0] / 2
    if view.over:
        return text(middle, 46, "The battle is over", 28, GOLD, BOLD)
    turn = "first" if view.active == view.first else "second"
    title = text(middle, 32, f"Round {view.round} of {view.rounds}, {turn} half-turn", 24, PALE, BOLD)
    for i, phase in enumerate(PHASES):
        x, lit = middle + 112 * (i - 2), phase == view.phase
        title += rect(x - 52, 43, 104, 22, 11, GOLD if lit else SLATE, "" if lit else f'stroke="{EDGE}"')
        title += text(x, 58.5, phase, 14, NIGHT if lit else DIM, BOLD if lit else "")
    return title


def _footer(layout: Layout, view: BattlePosition, seat: int | None) -> str:
    """Returns the open question, or how the battle ended, and a legend."""
    y = board_bottom(layout) + FOOT / 2 + 6
    if view.over:
        words = outcome(view, seat)
        return text(layout.page[0] / 2, y, words[0].upper() + words[1:] + ".", 22, GOLD, BOLD)
    legend = f'<g transform="translate({number(layout.page[0] - GAP - 388)},{number(y)})">{SHAPES["legend"]}</g>'
    return text(GAP + 4, y, ask(view, seat), 19, PALE, START) + legend
