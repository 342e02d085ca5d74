"""Colours and page layout of the battle's drawings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.battle.display.position import Ground
from jaxrl_envs.shared.display import svg

NIGHT, SLATE, EDGE = "#14181f", "#1d232d", "#39424f"
GOLD, PALE, DIM = "#e8bd4f", "#f2ead7", "#a7b0bb"
INK, PAPER = "#4a3b26", "#dccda9"
SHAPES = svg.shapes(Path(__file__).with_name("shapes.svg"))


class Livery(NamedTuple):
    """The colours of a side."""

    main: str
    light: str
    dark: str


LIVERIES = (Livery("#1f6b9e", "#8cc3e6", "#0d3149"), Livery("#b8402b", "#f0a48f", "#4d150b"))

BOARD = (960, 640)  # the largest size of a board
PANEL, TOP, FOOT, EDGES, GAP = 222, 96, 58, 24, 14  # panels beside the board, the rows above and below, its scale
CARD = (PANEL, 74)


class Layout(NamedTuple):
    """Positions of everything on the page, in its units."""

    cell: float  # size of a cell
    left: float  # of the board
    top: float
    width: float  # of the board
    height: float
    page: tuple[float, float]

    @classmethod
    def of(cls, ground: Ground) -> Layout:
        """Returns the page for a board: as large as fits, whole halves of units a cell."""
        cell = int(2 * min(BOARD[0] / ground.cols, BOARD[1] / ground.rows)) / 2
        width, height = cell * ground.cols, cell * ground.rows
        tall = max(height, BOARD[1])
        left = GAP + PANEL + EDGES + 4
        page = (2 * left + width, TOP + tall + EDGES + FOOT)
        return cls(cell, left, TOP + (tall - height) / 2, width, height, page)

    def x(self, col: float) -> float:
        """Returns the middle of a column."""
        return self.left + (col + 0.5) * self.cell

    def y(self, row: float) -> float:
        """Returns the middle of a row."""
        return self.top + (row + 0.5) * self.cell

    def panel(self, side: int, left_side: int) -> float:
        """Returns the left edge of a side's panel: beside its deployment zone."""
        return GAP if side == left_side else self.page[0] - GAP - PANEL
