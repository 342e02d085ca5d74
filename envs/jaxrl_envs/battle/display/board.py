"""The board of the battle as SVG: parchment, scale, deployment zones, terrain and objectives."""

from __future__ import annotations

from jaxrl_envs.battle.display.paint import (
    BOARD,
    EDGE,
    EDGES,
    GOLD,
    INK,
    LIVERIES,
    NIGHT,
    PAPER,
    STAIN,
    TOP,
    Layout,
)
from jaxrl_envs.battle.display.position import Ground, Marker, Rectangle
from jaxrl_envs.shared.display.svg import circle, number, path, rect, text


def defs(layout: Layout) -> str:
    """Returns the gradients and the models of both sides: `#m0` and `#m1`, drawn around (0, 0)."""
    parts = [
        f'<radialGradient id="sheet" r=".75"><stop offset=".4" stop-color="{PAPER}"/>'
        '<stop offset="1" stop-color="#c3ad7d"/></radialGradient>',
        f'<radialGradient id="stain"><stop offset="0" stop-color="{STAIN}" stop-opacity=".5"/>'
        f'<stop offset="1" stop-color="{STAIN}" stop-opacity="0"/></radialGradient>',
    ]
    r = 0.42 * layout.cell
    for side, livery in enumerate(LIVERIES):
        parts.append(
            f'<radialGradient id="b{side}" cx=".38" cy=".32" r=".75"><stop offset="0" stop-color="{livery.light}"/>'
            f'<stop offset=".55" stop-color="{livery.main}"/><stop offset="1" stop-color="{livery.dark}"/>'
            f'</radialGradient><g id="m{side}">'
            + circle(0.06 * layout.cell, 0.1 * layout.cell, r, "#000", 'opacity=".3"')
            + circle(0, 0, r, f"url(#b{side})", f'stroke="{livery.dark}" stroke-width="{0.07 * layout.cell:.2g}"')
            + "</g>"
        )
    return f"<defs>{''.join(parts)}</defs>"


def draw_board(layout: Layout, ground: Ground, left_side: int) -> str:
    """Returns the background: page, parchment, deployment zones and scale."""
    x, y, width, height = layout.left, layout.top, layout.width, layout.height
    parts = [
        rect(0, 0, *layout.page, 0, NIGHT),
        rect(x - EDGES, y - EDGES, width + 2 * EDGES, height + 2 * EDGES, 8, "#2b2117", f'stroke="{EDGE}"'),
        rect(x, y, width, height, 0, "url(#sheet)"),
        _stains(layout),
        _zones(layout, ground, left_side),
        _grid(layout, ground),
        rect(x, y, width, height, 0, "none", f'stroke="{INK}" stroke-width="2"'),
    ]
    return "".join(parts)


def draw_terrain(layout: Layout, ground: Ground) -> str:
    """Returns barricades and walls, which stand on the objectives."""
    barricades = [_barricade(layout, rectangle) for rectangle in ground.barricades]
    return "".join([*barricades, *(_wall(layout, rectangle) for rectangle in ground.walls)])


def draw_marker(layout: Layout, marker: Marker, index: int, owner: int | None) -> str:
    """Returns an objective in the colours of its owner: the ring of its radius and a standard in the middle."""
    x, y, r = layout.x(marker.col), layout.y(marker.row), marker.radius * layout.cell
    main, light = (LIVERIES[owner].main, LIVERIES[owner].light) if owner is not None else ("#8a6d1f", "#fff6d8")
    s = min(0.085 * layout.cell, 1.6)
    pole = (
        f'<g transform="translate({number(x)},{number(y)}) scale({s:.2f})">'
        f'<ellipse cy="8" rx="7" ry="2.4" opacity=".3"/>'
        + path("M0,8 V-12", INK, 1.8, 'stroke-linecap="round"')
        + f'<path d="M.8,-12 H12 L9,-7.5 L12,-3 H.8 Z" fill="{main if owner is not None else GOLD}" stroke="{INK}" '
        'stroke-width=".8" stroke-linejoin="round"/>'
        + text(5, -5, str(index + 1), 7, "#fff" if owner is not None else INK, 'font-weight="bold"')
        + "</g>"
    )
    return (
        circle(x, y, r, light, 'opacity=".42"')
        + circle(x, y, r, "none", f'stroke="{main}" stroke-width="2" stroke-dasharray="7 4"')
        + circle(x, y, r - 3.5, "none", f'stroke="{main}" stroke-width=".8" opacity=".6"')
        + pole
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


def _stains(layout: Layout) -> str:
    """Returns a few soft patches of age, always the same."""
    return "".join(
        f'<ellipse cx="{number(layout.left + layout.width * (0.09 + 0.37 * i % 0.86))}" '
        f'cy="{number(layout.top + layout.height * (0.14 + 0.61 * i % 0.76))}" rx="{60 + 47 * i % 90}" '
        f'ry="{44 + 29 * i % 70}" fill="url(#stain)"/>'
        for i in range(8)
    )


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


def _barricade(layout: Layout, rectangle: Rectangle) -> str:
    """Returns sandbags, two to a cell, laid along the longer side."""
    top, start, bottom, end = rectangle
    cell, parts = layout.cell, []
    for r in range(top, bottom + 1):
        for c in range(start, end + 1):
            upright = bottom - top >= end - start
            for half in (-0.25, 0.25):
                dx, dy, w, h = (0, half, 0.92, 0.46) if upright else (half, 0, 0.46, 0.92)
                x, y = layout.x(c) + (dx - w / 2) * cell, layout.y(r) + (dy - h / 2) * cell
                parts.append(rect(x, y, w * cell, h * cell, round(0.2 * cell, 1), "#a98a53"))
    x, y = layout.left + start * cell + 2, layout.top + top * cell + 3
    shade = rect(x, y, (end - start + 1) * cell, (bottom - top + 1) * cell, 3, "#000", 'opacity=".22"')
    return f'{shade}<g stroke="#5d4522" stroke-width="1.2">{"".join(parts)}</g>'


def _wall(layout: Layout, rectangle: Rectangle) -> str:
    """Returns a stone wall with its joints."""
    top, start, bottom, end = rectangle
    cell = layout.cell
    x, y = layout.left + start * cell, layout.top + top * cell
    width, height = (end - start + 1) * cell, (bottom - top + 1) * cell
    joints = []
    for k in range(int(2 * (bottom - top + 1))):
        at = y + k * cell / 2
        if k:
            joints.append(f"M{number(x)},{number(at)}h{number(width)}")
        for c in range(end - start + 1):
            joints.append(f"M{number(x + (c + (0.35, 0.75)[k % 2]) * cell)},{number(at)}v{number(cell / 2)}")
    return (
        rect(x + 4, y + 5, width, height, 2, "#000", 'opacity=".3"')
        + rect(x, y, width, height, 2, "#6f6a63", 'stroke="#2c2925" stroke-width="1.6"')
        + path("".join(joints), "#3d3934", 0.9, 'opacity=".8"')
        + path(f"M{number(x + 1.5)},{number(y + height - 1)}V{number(y + 1.5)}H{number(x + width - 1)}", "#b1aaa0", 1.4)
    )


def board_bottom(layout: Layout) -> float:
    """Returns the upper edge of the row below the board."""
    return TOP + max(layout.height, BOARD[1]) + EDGES
