"""Formats figures as text: aligned columns, short rates, the hardware in a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligns columns: the first one left, the others right. A name with line breaks stays on its line."""
    lines = [[cell.replace("\n", "\\n") for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = []
    for line in lines:
        others = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *others]).rstrip())
    return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])


def align(cells: list[list[str]]) -> str:
    """Makes a Markdown table, head first, padded for the terminal. A name with line breaks stays on its line."""
    cells = [[cell.replace("\n", "\\n") for cell in row] for row in cells]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def percent(rate: float) -> str:
    """Returns a rate in per cent with one decimal."""
    return "-" if math.isnan(rate) else f"{100 * rate:.1f}"


def count(value: float) -> str:
    """Formats a rate in a few characters: 12.3 M, 456 k, 78.9."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Formats 3725 as "1:02:05"."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def mark(found: Mapping[str, Any]) -> str:
    """Returns what a milestone asks for: "50% against hard", "a return of 10"."""
    return (
        f"a return of {found['return']:g}"
        if "return" in found
        else f"{found['win_rate']:.0%} against {found['opponent']}"
    )


def milestone(found: Mapping[str, Any]) -> str:
    """Returns a milestone that was reached, in words."""
    return (
        f"{mark(found)} after {count(found['steps'])} steps, "
        f"{duration(found['seconds'])} of training, {duration(found['cpu_seconds'])} of the CPU"
    )


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Draws numbers as blocks, the lowest to the highest; of more than `width` it takes as many at equal distances."""
    if len(values) > width:
        values = [values[round(n * (len(values) - 1) / (width - 1))] for n in range(width)]
    low, high = min(values), max(values)
    return "".join("▁▂▃▄▅▆▇█"[round(7 * (value - low) / (high - low or 1))] for value in values)


def cores(facts: dict[str, Any]) -> str:
    """Formats {"cores": 2, ...} as "2 cores"."""
    number = facts.get("cores")
    return "1 core" if number == 1 else f"{number} cores"


def machine(facts: dict[str, Any]) -> str:
    """Describes the hardware in a line or two."""
    known = [
        facts.get("cpu"),
        facts.get("vectors"),
        cores(facts),
        f"{facts.get('memory_gib')} GiB",
        f"device: {facts['devices']} x {facts['device_kind']}" if "device_kind" in facts else None,
        f"jax {facts.get('jax')}",
        f"Python {facts.get('python')}",
    ]
    line = " · ".join(str(part) for part in known if part)
    load = facts.get("load_average")
    if load is not None and load > (facts.get("cores") or 1):
        line += (
            f"\nThe machine is busy (load average {load}): absolute figures are too low, ratios of one run still hold."
        )
    return line


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the leaves of nested mappings by dotted key."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
