"""The report of an experiment: a table, its figures as JSON, and a plot of how strength grew."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.experiments.results import MEAN, RETURN, LearningCurve
from jaxrl.runs.directory import for_json, write_json
from jaxrl.statistics import Interval, student_interval
from jaxrl.text_tables import count, table
from jaxrl_envs.shared.display import svg

WIDE, HIGH, EDGE = 420.0, 260.0, 46.0  # of a panel of the plot, and the space around its curves
COLOURS = ("#1f77b4", "#d95f02", "#2a9d4a", "#c2378f", "#8c6d1f", "#6a51a3", "#138d90", "#666666")
INK, GRID = "#333333", "#d9d9d9"
TITLES = {MEAN: "win rate", RETURN: "return"}  # of curves, means over the opponents
AXES = {"steps": ("million steps", 1e6), "cpu": ("CPU minutes", 60.0)}

LearningCurves = Mapping[str, Sequence[Mapping[str, LearningCurve]]]  # contender -> by training -> by name


def cell(values: np.ndarray, form: Callable[[float], str]) -> str:
    """Returns a mean over trainings with Student's 95 % interval, and how many have the figure if some are NaN."""
    known = values[~np.isnan(values)]
    share = f" ({len(known)} of {len(values)})" if 0 < len(known) < len(values) else ""
    return f"{interval(student_interval(known), form)}{share}" if len(known) else "-"


def plain(values: np.ndarray) -> str:
    """Returns a mean over trainings without an interval."""
    mean = float(np.mean(values))
    return "-" if np.isnan(mean) else count(mean)


def interval(found: Interval | None, form: Callable[[float], str]) -> str:
    """Returns an estimate with its interval, if it has one; "-" without an estimate."""
    if found is None or math.isnan(found.value):
        return "-"
    limits = "" if math.isnan(found.low) else f" ({form(found.low)} to {form(found.high)})"
    return f"{form(found.value)}{limits}"


def columns(found: Mapping[str, Sequence[str]]) -> str:
    """Returns a table of columns by title, without those that hold nothing."""
    shown = {title: cells for title, cells in found.items() if set(cells) - {"-", ""}}
    return table(list(shown), list(zip(*shown.values(), strict=True)))


def write(folder: Path, name: str, text: str, record: Mapping[str, Any], curves: LearningCurves) -> None:
    """Prints the text of a report, and writes table.md, NAME.json and, if there are curves, plot.svg."""
    print(f"\n{text}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", for_json(record))
    (folder / "table.md").write_text(f"```\n{text}\n```\n", encoding="utf-8")
    picture = plot(curves)
    if picture:
        (folder / "plot.svg").write_text(picture, encoding="utf-8")
    print(f"written to {folder}: {name}.json, table.md{', plot.svg' if picture else ''}")


# ---- the plot -------------------------------------------------------------------------------------------------------


def plot(curves: LearningCurves) -> str:
    """Returns an SVG document: win rate and return over steps and over CPU time, a line for each contender's mean and
    a faint one for each of its trainings; empty without evaluations during training."""
    names = [name for name in TITLES if any(name in each for of in curves.values() for each in of)]
    panels = [(name, axis) for name in names for axis in AXES]
    if not panels:
        return ""
    parts = [svg.rect(0, 0, 2 * WIDE, len(names) * HIGH + EDGE, 0, "#ffffff")]
    for number, (name, axis) in enumerate(panels):
        parts += _panel(number % 2 * WIDE, number // 2 * HIGH, name, axis, curves)
    wide = (2 * WIDE - EDGE) / len(curves)
    for number, name in enumerate(curves):
        parts.append(svg.text(EDGE + (number + 0.5) * wide, len(names) * HIGH + 26, name, 13, _colour(number)))
    return svg.document(2 * WIDE, len(names) * HIGH + EDGE, parts)


def _panel(x: float, y: float, name: str, axis: str, curves: LearningCurves) -> list[str]:
    """Returns the shapes of one panel, whose upper left corner is at (x, y)."""
    label, unit = AXES[axis]
    each = [[own[name] for own in of if name in own] for of in curves.values()]
    points = [(getattr(own, axis) / unit, own.value) for of in each for own in of]
    most = max(float(at.max()) for at, _ in points) or 1.0
    low, high = (float(end(np.concatenate([value for _, value in points]))) for end in (np.min, np.max))
    scale_x, scale_y = (WIDE - 1.5 * EDGE) / most, (HIGH - 1.7 * EDGE) / ((high - low) or 1.0)

    def line(at: np.ndarray, value: np.ndarray, colour: str, width: float, extra: str = "") -> str:
        places = zip(x + EDGE + at * scale_x, y + HIGH - EDGE - (value - low) * scale_y, strict=True)
        return svg.path("M" + "L".join(f"{svg.number(a)} {svg.number(b)}" for a, b in places), colour, width, extra)

    parts = [
        svg.text(x + WIDE / 2, y + HIGH - 14, label, 12, INK),
        svg.text(x + WIDE / 2, y + 20, TITLES[name], 13, INK),
    ]
    for share in (0.0, 0.5, 1.0):
        value = low + share * (high - low)
        parts.append(line(np.array([0.0, most]), np.full(2, value), GRID, 1))
        level = y + HIGH - EDGE - (value - low) * scale_y + 4
        parts.append(svg.text(x + EDGE - 4, level, f"{value:.3g}", 11, INK, 'text-anchor="end"'))
        parts.append(svg.text(x + EDGE + share * most * scale_x, y + HIGH - EDGE + 16, f"{share * most:.3g}", 11, INK))
    for number, of in enumerate(each):
        parts += [line(getattr(own, axis) / unit, own.value, _colour(number), 1, 'opacity="0.3"') for own in of]
        same = [own for own in of if len(own.value) == len(of[0].value)]
        if same:
            at, value = (np.mean([getattr(own, of_) for own in same], axis=0) for of_ in (axis, "value"))
            parts.append(line(at / unit, value, _colour(number), 2))
    return parts


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
