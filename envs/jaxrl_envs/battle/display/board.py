"""The board of the battle as SVG: parchment, scale, deployment zones, terrain and objectives."""

from __future__ import annotations

import re

from jaxrl_envs.battle.display.paint import (
    BOARD,
    EDGE,
    EDGES,
    GOLD,
    INK,
    LIVERIES,
    NIGHT,
    SHAPES,
    TOP,
    Layout,
)
from jaxrl_envs.battle.display.position import Ground, Marker, Rectangle
from jaxrl_envs.shared.display.svg import circle, number, path, rect, text


def defs(layout: Layout) -> str:
    """Returns the gradients and patterns, and the models of both sides: `#m0` and `#m1`, drawn around (0, 0)."""
    filled = {"CELL": layout.cell, "LEFT": layout.left, "TOP": layout.top}
    return f"<defs>{re.sub('CELL|LEFT|TOP', lambda word: number(filled[word[0]]), SHAPES['defs'])}</defs>"


def draw_board(layout: Layout, ground: Ground, left_side: int) -> str:
    """Returns the background: page, parchment, deployment zones and scale."""
    x, y, width, height = layout.left, layout.top, layout.width, layout.height
    parts = [
        rect(0, 0, *layout.page, 0, NIGHT),
        rect(x - EDGES, y - EDGES, width + 2 * EDGES, height + 2 * EDGES, 8, "#2b2117", f'stroke="{EDGE}"'),
        rect(x, y, width, height, 0, "url(#sheet)"),
        _zones(layout, ground, left_side),
        _grid(layout, ground),
        rect(x, y, width, height, 0, "none", f'stroke="{INK}" stroke-width="2"'),
    ]
    return "".join(parts)


def draw_terrain(layout: Layout, ground: Ground) -> str:
    """Returns barricades and walls, which stand on the objectives."""
    barricades = [_piece(layout, rectangle, "#5d4522", "bags") for rectangle in ground.barricades]
    return "".join([*barricades, *(_piece(layout, rectangle, "#6f6a63", "stones") for rectangle in ground.walls)])


def draw_marker(layout: Layout, marker: Marker, index: int, owner: int | None) -> str:
    """Returns an objective in the colours of its owner: the ring of its radius and a standard in the middle."""
    x, y, r = layout.x(marker.col), layout.y(marker.row), marker.radius * layout.cell
    main, light = (LIVERIES[owner].main, LIVERIES[owner].light) if owner is not None else ("#8a6d1f", "#fff6d8")
    ink = "#fff" if owner is not None else INK
    flag = SHAPES["flag"].replace("MAIN", main if owner is not None else GOLD).replace("INK", ink)
    place = f"translate({number(x)},{number(y)}) scale({min(0.085 * layout.cell, 1.6):.2f})"
    return (
        circle(x, y, r, light, 'opacity=".42"')
        + circle(x, y, r, "none", f'stroke="{main}" stroke-width="2" stroke-dasharray="7 4"')
        + circle(x, y, r - 3.5, "none", f'stroke="{main}" stroke-width=".8" opacity=".6"')
        + f'<g transform="{place}">{flag.replace("NUMBER", str(index + 1))}</g>'
    )


def draw_control(layout: Layout, marker: Marker) -> str:
    """Returns the label below an objective: the objective control of both sides, unless neither has any."""
    if not any(marker.control):
        return ""
    x, y = layout.x(marker.col), layout.y(marker.row) + marker.radius * layout.cell
    parts = [rect(x - 30, y - 9, 60, 18, 9, "#fff6d8", f'stroke="{INK}" stroke-width=".8"')]
    for side, (at, fit) in enumerate(((x - 5, "end"), (x + 5, "start"))):
        look = f'font-weight="bold" text-anchor="{fit}"'
        parts.append(text(at, y + 5, str(marker.control[side]), 14, LIVERIES[side].main, look))
    return "".join([*parts, text(x, y + 4, ":", 14, INK)])


def _zones(layout: Layout, ground: Ground, left_side: int) -> str:
    """Returns the deployment zones, tinted, with a dashed edge."""
    deep = ground.zone * layout.cell
    right = layout.left + layout.width - deep
    down = f"V{number(layout.top + layout.height)}"
    parts = []
    for x, edge, side in ((layout.left, layout.left + deep, left_side), (right, right, 1 - left_side)):
        parts.append(rect(x, layout.top, deep, layout.height, 0, LIVERIES[side].main, 'opacity=".08"'))
        line = f"M{number(edge)},{number(layout.top)} {down}"
        parts.append(path(line, LIVERIES[side].main, 1.2, 'stroke-dasharray="3 6" opacity=".6"'))
    return "".join(parts)


def _grid(layout: Layout, ground: Ground) -> str:
    """Returns fine lines every cell, stronger ones every five, and the numbers of these rows and columns."""
    x, y, width, height = layout.left, layout.top, layout.width, layout.height
    lines: dict[bool, list[str]] = {False: [], True: []}
    for c in range(1, ground.cols):
        lines[c % 5 == 0].append(f"M{number(x + c * layout.cell)},{number(y)}v{number(height)}")
    for r in range(1, ground.rows):
        lines[r % 5 == 0].append(f"M{number(x)},{number(y + r * layout.cell)}h{number(width)}")
    parts = [
        path("".join(lines[False]), INK, 0.5, 'opacity=".1"'),
        path("".join(lines[True]), INK, 0.7, 'opacity=".2"'),
    ]
    labels = []
    for c in range(0, ground.cols, 5):
        labels += [text(layout.x(c), at, str(c), 11, "#b9a378") for at in (y - 8, y + height + 16)]
    for r in range(0, ground.rows, 5):
        labels += [text(at, layout.y(r) + 4, str(r), 11, "#b9a378") for at in (x - 12, x + width + 12)]
    return "".join([*parts, *labels])


def _piece(layout: Layout, rectangle: Rectangle, ground: str, pattern: str) -> str:
    """Returns a piece of terrain: its shade, its ground and a pattern of `shapes.svg`."""
    top, start, bottom, end = rectangle
    x, y, cell = layout.left + start * layout.cell, layout.top + top * layout.cell, layout.cell
    size = ((end - start + 1) * cell, (bottom - top + 1) * cell)
    shade = rect(x + 4, y + 5, *size, 2, "#000", 'opacity=".3"')
    return shade + rect(x, y, *size, 2, ground) + rect(x, y, *size, 2, f"url(#{pattern})", 'stroke="#2c2925"')


def board_bottom(layout: Layout) -> float:
    """Returns the upper edge of the row below the board."""
    return TOP + max(layout.height, BOARD[1]) + EDGES
