"""Film of a whole battle: one animated SVG document without scripts, which plays in any browser.

Models move from frame to frame, shots are drawn as tracers, losses fade, and the panels follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxrl_envs.battle.display.board import board_bottom, defs, draw_board, draw_marker, draw_terrain
from jaxrl_envs.battle.display.drawing import (
    BOLD,
    WOUND,
    active_frame,
    anchor,
    bar_length,
    card_frame,
    card_place,
    command_points,
    condition_line,
    destroyed,
    panel_frame,
    phase_chip,
    phase_row,
    pip_places,
    points,
    round_title,
    wound_bar,
)
from jaxrl_envs.battle.display.events import Blow, blows, clashes, describe
from jaxrl_envs.battle.display.paint import (
    FOOT,
    GOLD,
    LIVERIES,
    NIGHT,
    PALE,
    Layout,
)
from jaxrl_envs.battle.display.position import PHASES, BattlePosition, Cell, Squad
from jaxrl_envs.battle.display.render import conditions, outcome
from jaxrl_envs.shared.display.svg import circle, document, number, path, rect, text
from jaxrl_envs.shared.display.svg_animation import Clock, Keys, always

OPENING, CLOSING = 1.5, 5.0  # seconds
MOVING, BEGINNING, LOSING = 1.3, 1.3, 1.6  # seconds of a frame by what happens in it
MOST_SHOTS, LINE = 6, 150  # tracers of one attack, characters of one line of text


class FilmFrame(NamedTuple):
    """A position, and what led to it."""

    view: BattlePosition
    words: str = ""
    blows: tuple[Blow, ...] = ()
    actor: tuple[int, int] | None = None  # the side and index of the unit that acted


def record(steps: Iterable[tuple[BattlePosition, int, BattlePosition]]) -> list[FilmFrame]:
    """The frames of a battle: the start, and every step that changed what is to be seen.

    Args:
      steps: (before, action, after) in order of time, at least one.
    """
    frames: list[FilmFrame] = []
    for before, action, after in steps:
        frames = frames or [FilmFrame(before)]
        struck = blows(before, action, after)
        all_struck = (*struck, *clashes(before, after, struck))
        frame = FilmFrame(after, describe(before, action, after), all_struck, _actor(before, struck))
        if all_struck or _visible(after) != _visible(frames[-1].view):
            frames.append(frame)
    return frames


def film(frames: Sequence[FilmFrame], *, pace: float = 1.0) -> str:
    """The frames as one SVG document that plays in a loop; shown without animation it is the first frame.

    Args:
      frames: of one battle, at least one; `record` makes them.
      pace: how fast it plays; 2 is twice as fast.
    """
    first = frames[0].view
    layout, clock = Layout.of(first.ground), timetable(frames, pace)
    views = [frame.view for frame in frames]
    parts = [defs(layout), draw_board(layout, first.ground, first.left)]
    parts += [_marker(layout, clock, views, index) for index in range(len(first.markers))]
    parts.append(draw_terrain(layout, first.ground))
    squads = [squad for units in first.squads for squad in units]
    parts += [_unit(layout, clock, frames, squad) for squad in squads]
    parts.append(_attacks(layout, clock, frames))
    for side in (0, 1):
        parts.append(_panel(layout, clock, views, side))
    parts += [_card(layout, clock, views, squad) for squad in squads]
    parts += [_title(layout, clock, views), _words(layout, clock, frames)]
    return document(*layout.page, parts)


def timetable(frames: Sequence[FilmFrame], pace: float = 1.0) -> Clock:
    """Start times of the frames: models start moving then, and stand still well before the next one."""
    durations = []
    for i, frame in enumerate(frames):
        before = frames[i - 1].view
        if not i:
            seconds = OPENING
        elif frame.blows or _health(frame.view) != _health(before):
            seconds = LOSING
        elif (frame.view.round, frame.view.active) != (before.round, before.active):
            seconds = BEGINNING
        else:
            seconds = MOVING
        durations.append((seconds + CLOSING * (i == len(frames) - 1)) / pace)
    return Clock.of([round(seconds, 3) for seconds in durations])


def _actor(before: BattlePosition, struck: Sequence[Blow]) -> tuple[int, int] | None:
    """The unit that the frame after `before` is about."""
    if struck:
        return struck[0].attacker.side, struck[0].attacker.index
    question = before.question
    return (question.side, question.unit) if question is not None and question.unit >= 0 else None


def _visible(view: BattlePosition) -> tuple:
    """The parts of a position that must differ for a new frame."""
    units = [(squad.cells, squad.lead, "shocked" in squad.flags) for units in view.squads for squad in units]
    return units, view.points, view.active, view.round, view.over


def _health(view: BattlePosition) -> list[int]:
    return [squad.health for units in view.squads for squad in units]


# ---- the board ------------------------------------------------------------------------------------------------------


def _marker(layout: Layout, clock: Clock, views: Sequence[BattlePosition], index: int) -> str:
    """An objective in the colours of the side that controls it."""
    markers = [view.markers[index] for view in views]
    owners = [str(marker.owner) for marker in markers]
    return clock.variants(owners, lambda i: draw_marker(layout, markers[i], index, markers[i].owner))


def _unit(layout: Layout, clock: Clock, frames: Sequence[FilmFrame], squad: Squad) -> str:
    """All models of a unit; the first one is the anchor, with the number and a ring while the unit acts."""
    rows = [frame.view.squads[squad.side][squad.index].cells for frame in frames]
    parts = []
    for model in reversed(range(max(map(len, rows)))):
        shape = f'<use href="#m{squad.side}"/>'
        if not model:
            acts = [(frame.actor == (squad.side, squad.index)) or None for frame in frames]
            ring = circle(0, 0, 0.62 * layout.cell, "none", f'stroke="{GOLD}" stroke-width="3"')
            shape += clock.variants(acts, always(ring)) + anchor(layout, squad, 0, 0)
        cells = [row[model] if model < len(row) else None for row in rows]
        parts.append(_token(layout, clock, cells, f"s{squad.side}u{squad.index}m{model}", shape))
    return "".join(parts)


def _token(layout: Layout, clock: Clock, cells: Sequence[Cell | None], name: str, shape: str) -> str:
    """A model that moves, disappears and returns as its cells say; None = it is not there."""
    standing = next(cell for cell in cells if cell is not None)
    way: Keys = [(0.0, _at(layout, standing))]
    seen: Keys = [(0.0, str(int(cells[0] is not None)))]
    for i in range(1, len(cells)):
        begin, length = clock.starts[i], clock.length(i) if i + 1 < len(cells) else MOVING
        cell, before = cells[i], cells[i - 1]
        if cell is not None and cell != standing:
            arrival = begin + (0.55 * length if before is not None else 0.001)
            way += [(begin, _at(layout, standing)), (arrival, _at(layout, cell))]
            standing = cell
        if (cell is None) != (before is None):
            late = 0.5 if cell is None else 0.05
            now = str(int(cell is not None))
            seen += [(begin + late * length, seen[-1][1]), (begin + (late + 0.3) * length, now)]
    hidden = "" if cells[0] is not None else ' opacity="0"'
    moves = clock.gradual(way, "translate") if len(way) > 1 else ""
    fades = clock.gradual(seen, "opacity") if len(seen) > 1 else ""
    return f'<g id="{name}" transform="translate({way[0][1]})"{hidden}>{shape}{moves}{fades}</g>'


def _at(layout: Layout, cell: Cell) -> str:
    return f"{number(layout.x(cell[1]))},{number(layout.y(cell[0]))}"


def _attacks(layout: Layout, clock: Clock, frames: Sequence[FilmFrame]) -> str:
    """Tracers of shots, clashes of blades, and a cross where a model falls."""
    shots, falls = [], []
    for i in range(1, len(frames)):
        begin, length = clock.starts[i], min(clock.length(i), LOSING)
        for blow in frames[i].blows:
            if blow.attacker.alive and blow.target.alive:
                color = GOLD if blow.melee else LIVERIES[blow.attacker.side].main
                line = path(_lines(layout, blow), color, 3.4 if blow.melee else 2, 'opacity="0"')
                early = 0.5 * length * blow.melee  # a charge comes before the blows
                shots.append(line.replace("/>", f">{clock.flash(begin + early, begin + early + 0.5 * length)}</path>"))
        fallen = _fallen(frames[i - 1].view, frames[i].view)
        if fallen:
            s = number(0.3 * layout.cell)
            d = number(0.6 * layout.cell)
            crosses = "".join(f"M{_at(layout, cell)}m-{s},-{s}l{d},{d}m0,-{d}l-{d},{d}" for cell in fallen)
            cross = path(crosses, WOUND, 2.6, 'opacity="0" stroke-linecap="round"')
            falls.append(cross.replace("/>", f">{clock.flash(begin + 0.4 * length, begin + length)}</path>"))
    run = '<animate attributeName="stroke-dashoffset" values="24;0" dur=".25s" repeatCount="indefinite"/>'
    return f'<g stroke-dasharray="14 10" stroke-linecap="round">{run}{"".join(shots)}</g>' + "".join(falls)


def _lines(layout: Layout, blow: Blow) -> str:
    """The lines of an attack, from model to model; in a fight between those that touch."""
    ours, theirs = blow.attacker.cells, blow.target.cells
    pairs = [(cell, theirs[k * len(theirs) // len(ours)]) for k, cell in enumerate(ours)]
    if blow.melee:
        pairs = [(a, b) for a in ours for b in theirs if max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 1]
    step = max(1, -(-len(pairs) // MOST_SHOTS))
    return "".join(f"M{_at(layout, a)}L{_at(layout, b)}" for a, b in pairs[::step])


def _fallen(before: BattlePosition, after: BattlePosition) -> list[Cell]:
    """Cells where models were lost: the last cells of each unit that became smaller."""
    cells: list[Cell] = []
    for old_units, new_units in zip(before.squads, after.squads, strict=True):
        for old, new in zip(old_units, new_units, strict=True):
            cells += old.cells[len(new.cells) :]
    return cells


# ---- around the board -----------------------------------------------------------------------------------------------


def _panel(layout: Layout, clock: Clock, views: Sequence[BattlePosition], side: int) -> str:
    """A side's name, points, command points, and the golden frame of its half-turns."""
    active = [(not view.over and view.active == side) or None for view in views]
    return (
        panel_frame(layout, views[0], side, None)
        + clock.variants(active, always(active_frame(layout, views[0], side)))
        + clock.variants([view.points[side] for view in views], lambda i: points(layout, views[i], side))
        + clock.variants([view.command[side] for view in views], lambda i: command_points(layout, views[i], side))
    )


def _card(layout: Layout, clock: Clock, views: Sequence[BattlePosition], squad: Squad) -> str:
    """A unit's card: pips of models (or wounds of a single one), the bar of wounds, its condition in words."""
    now = [view.squads[squad.side][squad.index] for view in views]
    x, y = card_place(layout, views[0], squad)
    livery = LIVERIES[squad.side]
    parts = [card_frame(layout, views[0], squad)]
    for i, (px, py, r) in enumerate(pip_places(layout, views[0], squad)):
        parts.append(circle(px, py, r, "none", f'stroke="{livery.light}" stroke-width="1"'))
        left = [(i < (unit.health if squad.start == 1 else len(unit.cells))) or None for unit in now]
        pip = circle(px, py, r, livery.main)
        parts.append(clock.variants(left, always(pip)))
    widths: Keys = [(0.0, number(bar_length(now[0])))]
    for i in range(1, len(now)):
        if now[i].health != now[i - 1].health:
            middle = clock.starts[i] + 0.5 * min(clock.length(i), LOSING)
            widths += [(middle, widths[-1][1]), (middle + 0.3, number(bar_length(now[i])))]
    moving = clock.gradual(widths, "width") if len(widths) > 1 else ""
    bar = wound_bar(x, y, livery.light, now[0]).replace("/>", f">{moving}</rect>")
    parts += [wound_bar(x, y, "#0c0f13"), bar]
    words = [", ".join(conditions(view, unit)) or None for view, unit in zip(views, now, strict=True)]
    parts.append(clock.variants(words, lambda i: condition_line(x, y, words[i] or "")))
    dead = [(not unit.alive) or None for unit in now]
    parts.append(clock.variants(dead, always(destroyed(x, y))))
    return "".join(parts)


def _title(layout: Layout, clock: Clock, views: Sequence[BattlePosition]) -> str:
    """Round and phase; at the end, the result."""
    rounds = [None if view.over else (view.round, view.active) for view in views]
    phases = [None if view.over else view.phase for view in views]
    over = [view.over or None for view in views]
    end = text(layout.page[0] / 2, 32, "The battle is over", 24, GOLD, BOLD)
    return (
        clock.variants(rounds, lambda i: round_title(layout, views[i]))
        + clock.variants(over, always(end))
        + phase_row(layout, None)
        + "".join(
            clock.variants([(p == phase) or None for p in phases], always(phase_chip(layout, phase, True)))
            for phase in PHASES
        )
    )


def _words(layout: Layout, clock: Clock, frames: Sequence[FilmFrame]) -> str:
    """Captions: the events sentence by sentence, the result across the board, and the progress."""
    top, middle = board_bottom(layout), layout.page[0] / 2

    def lines(frame: int) -> str:
        rows = _wrap(frames[frame].words)
        start = top + FOOT / 2 + 6 - 11 * (len(rows) - 1)
        return "".join(text(middle, start + 22 * i, row, 18, PALE) for i, row in enumerate(rows))

    said = clock.variants([i if frame.words else None for i, frame in enumerate(frames)], lines)
    done = clock.gradual([(0.0, "0"), (clock.total, number(layout.page[0]))], "width")
    bar = rect(0, layout.page[1] - 4, 0, 4, 0, GOLD, 'opacity=".7"').replace("/>", f">{done}</rect>")
    last = frames[-1].view
    if not last.over:
        return said + bar
    result = outcome(last)
    width = 15.5 * len(result) + 70
    y = layout.top + layout.height / 2
    banner = rect(middle - width / 2, y - 34, width, 68, 12, NIGHT, f'opacity=".92" stroke="{GOLD}" stroke-width="2"')
    banner += text(middle, y + 9, result[0].upper() + result[1:], 25, GOLD, BOLD)
    begin = clock.starts[-1] + LOSING
    fade = clock.gradual([(0.0, "0"), (begin, "0"), (begin + 0.4, "1")], "opacity")
    return said + bar + f'<g opacity="0">{banner}{fade}</g>'


def _wrap(words: str) -> list[str]:
    """At most two lines; what does not fit is left out."""
    rows = [""]
    for word in words.split():
        if rows[-1] and len(rows[-1]) + len(word) >= LINE:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return rows if len(rows) <= 2 else [rows[0], rows[1] + " …"]
