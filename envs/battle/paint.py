"""What all drawings of the battle share: colours, the division of the page, and the simplest shapes."""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

from envs.battle.view import Ground

FONT = "Georgia, 'DejaVu Serif', serif"
NIGHT, SLATE, EDGE = "#14181f", "#1d232d", "#39424f"
GOLD, PALE, DIM = "#e8bd4f", "#f2ead7", "#a7b0bb"
INK, PAPER, STAIN = "#4a3b26", "#dccda9", "#b79d6c"


class Livery(NamedTuple):
    """The colours of a side."""

    main: str
    light: str
    dark: str


LIVERIES = (Livery("#1f6b9e", "#8cc3e6", "#0d3149"), Livery("#b8402b", "#f0a48f", "#4d150b"))

BOARD = (960, 640)  # the largest size of a board
PANEL, TOP, FOOT, EDGES, GAP = 222, 96, 58, 24, 14  # panels beside the board, the rows above and below, its scale
CARDS, CARD = 8, (PANEL, 74)


class Layout(NamedTuple):
    """Where things are on the page, in its units."""

    cell: float  # size of a cell
    left: float  # of the board
    top: float
    width: float  # of the board
    height: float
    page: tuple[float, float]

    @classmethod
    def of(cls, ground: Ground) -> Layout:
        """The page for a board: as large as fits, whole halves of units a cell."""
        cell = int(2 * min(BOARD[0] / ground.cols, BOARD[1] / ground.rows)) / 2
        width, height = cell * ground.cols, cell * ground.rows
        tall = max(height, BOARD[1])
        left = GAP + PANEL + EDGES + 4
        page = (2 * left + width, TOP + tall + EDGES + FOOT)
        return cls(cell, left, TOP + (tall - height) / 2, width, height, page)

    def x(self, col: float) -> float:
        """The middle of a column."""
        return self.left + (col + 0.5) * self.cell

    def y(self, row: float) -> float:
        """The middle of a row."""
        return self.top + (row + 0.5) * self.cell

    def panel(self, side: int, left_side: int) -> float:
        """The left edge of a side's panel: beside its deployment zone."""
        return GAP if side == left_side else self.page[0] - GAP - PANEL


def number(value: float) -> str:
    """A coordinate, as short as it can be written with a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, size: float, fill: str, extra: str = "") -> str:
    """One line of text around x; `words` may be anything."""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{size:g}" fill="{fill}"{" " * bool(extra)}{extra}>'
        f"{escape(words)}</text>"
    )


def rect(x: float, y: float, width: float, height: float, radius: float, fill: str, extra: str = "") -> str:
    """A rectangle with round corners."""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f'rx="{radius:g}" fill="{fill}"{" " * bool(extra)}{extra}/>'
    )


def circle(x: float, y: float, radius: float, fill: str, extra: str = "") -> str:
    """A disc."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}"{" " * bool(extra)}{extra}/>'


def path(commands: str, stroke: str, width: float, extra: str = "") -> str:
    """A line."""
    return f'<path d="{commands}" fill="none" stroke="{stroke}" stroke-width="{width:g}"{" " * bool(extra)}{extra}/>'


def document(layout: Layout, parts: list[str]) -> str:
    """The SVG document of a page."""
    width, height = (number(size) for size in layout.page)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="{FONT}" '
        f'text-anchor="middle">{"".join(parts)}</svg>'
    )
