"""The drawing of the battle for screens that are taller than wide: the board, the question, and both sides' points."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from jaxrl_envs.battle.display import drawing
from jaxrl_envs.battle.display.paint import EDGES, GAP, GOLD, PALE, PANEL, Layout
from jaxrl_envs.battle.display.position import BattlePosition
from jaxrl_envs.battle.display.render import ask, outcome
from jaxrl_envs.shared.display.svg import document, text

HEAD, QUESTION, POINTS = 80, 130, 90  # heights of what stands above and below the board
SIZE, LETTERS = 42, 44  # size of letters, and how many stand in a line
PANELS = 2 * PANEL + 3 * GAP  # width of both panels, which grow to that of the board


def draw(view: BattlePosition, seat: int | None = None) -> str:
    """Returns the SVG of a position; the side `seat` is called "you"."""
    layout = _layout(view)
    middle, below = layout.page[0] / 2, layout.top + layout.height + EDGES
    words = outcome(view, seat) if view.over else ask(view, seat)
    head = f"Round {view.round} of {view.rounds}: {view.phase}"
    parts = [*drawing.draw_ground(layout, view), text(middle, 54, head, SIZE, PALE, drawing.BOLD)]
    for row, line in enumerate(textwrap.wrap(words, LETTERS)[:2]):
        parts.append(text(middle, below + 50 * (row + 1), line, SIZE, GOLD))
    small = layout._replace(page=(PANELS, POINTS))
    sides = "".join(drawing.draw_head(small, view, side, seat) for side in (0, 1))
    place = f"translate(0,{below + QUESTION:.1f}) scale({layout.page[0] / PANELS:.4f})"
    return document(*layout.page, [*parts, f'<g transform="{place}">{sides}</g>'])


def click_areas(view: BattlePosition, legal: Sequence[int]) -> list[drawing.Area]:
    """Returns those of `drawing.click_areas` that lie on the board."""
    return drawing.areas(view, legal, _layout(view))[0]


def _layout(view: BattlePosition) -> Layout:
    wide = Layout.of(view.ground)
    width, top = wide.width + 2 * EDGES, HEAD + EDGES
    tall = top + wide.height + EDGES + QUESTION + POINTS * width / PANELS
    return wide._replace(left=EDGES, top=top, page=(width, tall))
