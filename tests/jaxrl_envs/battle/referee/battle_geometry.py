"""The battle's board in plain Python: distances, contact, sight lines, formations and moves (section 2 of the rules).

Cells are (row, col) tuples of the board as it is; a side that sees it mirrored says so with `mirrored`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt

Cell = tuple[int, int]

DIRECTIONS = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]


def _by_distance(reach: int, within: int) -> list[Cell]:
    """All offsets up to `reach` in rows and columns and `within` in squared distance, nearest first."""
    offsets = [(r, c) for r in range(-reach, reach + 1) for c in range(-reach, reach + 1) if r * r + c * c <= within]
    return sorted(offsets, key=lambda offset: (offset[0] ** 2 + offset[1] ** 2, offset[0], offset[1]))


PACKING = _by_distance(3, 18)
CHARGES = {x: _by_distance(x, x * x) for x in range(2, 13)}  # by the sum of the two dice


def distance2(a: Cell, b: Cell) -> int:
    """The squared distance of two cells."""
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2


def contact(a: Cell, b: Cell) -> bool:
    """Whether models on these cells touch."""
    return max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 1


def around(cell: Cell) -> list[Cell]:
    """The cells in contact with a cell, itself included."""
    return [(cell[0] + r, cell[1] + c) for r in (-1, 0, 1) for c in (-1, 0, 1)]


def covered(rectangles: list[list[int]]) -> set[Cell]:
    """The cells of some inclusive rectangles."""
    return {(r, c) for r0, c0, r1, c1 in rectangles for r in range(r0, r1 + 1) for c in range(c0, c1 + 1)}


class Board:
    """One map."""

    def __init__(self, tree: dict):
        self.rows, self.cols = tree.get("rows", 40), tree.get("cols", 60)
        self.barricades = covered(tree.get("barricades", []))
        self.walls = covered(tree.get("walls", []))
        self.objectives = [tuple(objective) for objective in tree.get("objectives", [])]
        self._lines: dict[tuple[Cell, Cell], tuple[list[Cell], bool]] = {}

    def inside(self, cell: Cell) -> bool:
        """Whether a cell is on the board."""
        return 0 <= cell[0] < self.rows and 0 <= cell[1] < self.cols

    def home(self, col: int, mirrored: bool) -> int:
        """A column in a home frame, or back from it."""
        return self.cols - 1 - col if mirrored else col

    def line(self, a: Cell, b: Cell) -> tuple[list[Cell], bool]:
        """(inner cells of the line from a to b, whether a sees b)."""
        if (a, b) not in self._lines:
            self._lines[a, b] = self._trace(a, b)
        return self._lines[a, b]

    def _trace(self, a: Cell, b: Cell) -> tuple[list[Cell], bool]:
        dr, dc = abs(b[0] - a[0]), abs(b[1] - a[1])
        down, right = (1 if b[0] > a[0] else -1), (1 if b[1] > a[1] else -1)
        row, col = a
        e = dc - dr
        inner: list[Cell] = []
        seen = True
        while (row, col) != b:
            if e > 0:
                col += right
                e -= 2 * dr
            elif e < 0:
                row += down
                e += 2 * dc
            else:
                if (row + down, col) in self.walls and (row, col + right) in self.walls:
                    seen = False
                row, col = row + down, col + right
                e += 2 * dc - 2 * dr
            if (row, col) != b:
                inner.append((row, col))
        return inner, seen and not any(cell in self.walls for cell in inner)

    def sees(self, a: Cell, b: Cell) -> bool:
        """Whether there is a sight line."""
        return not self.walls or self.line(a, b)[1]

    def in_cover(self, shooter: Cell, target: Cell, infantry: bool) -> bool:
        """Cover by terrain, anchor to anchor."""
        inner, seen = self.line(shooter, target)
        near = [cell for cell in inner if max(abs(cell[0] - target[0]), abs(cell[1] - target[1])) <= 3]
        return not seen or (infantry and any(cell in self.barricades for cell in near))

    def on_objective(self, cell: Cell, objective: tuple) -> bool:
        """Whether a model on this cell stands on an objective."""
        row, col, radius = objective
        return (2 * cell[0] - 2 * row) ** 2 + (2 * cell[1] - 2 * col) ** 2 <= 4 * radius * radius

    def tenths_to(self, cell: Cell, objective: tuple) -> int:
        """isqrt(100 d²) of the distance to the marker of an objective."""
        return isqrt(25 * int((2 * cell[0] - 2 * objective[0]) ** 2 + (2 * cell[1] - 2 * objective[1]) ** 2))

    def pack(
        self, anchor: Cell, models: int, mirrored: bool, barred: set[Cell], within: set[Cell] | None = None
    ) -> list[Cell] | None:
        """The formation of a unit around an anchor, None if it does not fit.

        Args:
          anchor: the first cell.
          models: how many cells.
          mirrored: whether the unit's home frame is.
          barred: cells on the board that are not free for the unit.
          within: if given, the only cells that may be used.
        """
        taken: list[Cell] = []
        touching: set[Cell] = set()
        for dr, dc in PACKING:
            cell = (anchor[0] + dr, anchor[1] - dc if mirrored else anchor[1] + dc)
            free = self.inside(cell) and cell not in barred and (within is None or cell in within)
            if not taken and not free:
                return None
            if free and (not taken or cell in touching):
                taken.append(cell)
                touching.update(around(cell))
                if len(taken) == models:
                    return taken
        return None

    def path(
        self, start: Cell, direction: int, allowance: int, mirrored: bool, enemies: set[Cell] | None, fly: bool
    ) -> list[Cell]:
        """The cells that an anchor passes, nearest first, until the first barred step.

        Args:
          start: the anchor.
          direction: 0..7 in the home frame.
          allowance: the greatest distance x.
          mirrored: whether the home frame is.
          enemies: cells in contact with an enemy model; None if they do not bar (falling back).
          fly: whether the unit has the keyword.
        """
        dr, dc = DIRECTIONS[direction]
        if mirrored:
            dc = -dc
        diagonal = dr != 0 and dc != 0
        steps = isqrt(allowance * allowance // 2) if diagonal else allowance
        cells: list[Cell] = []
        row, col = start
        for _ in range(steps):
            new = (row + dr, col + dc)
            if not self.inside(new):
                break
            if not fly:
                squeezed = diagonal and (row + dr, col) in self.walls and (row, col + dc) in self.walls
                if new in self.walls or squeezed or (enemies is not None and new in enemies):
                    break
            cells.append(new)
            row, col = new
        return cells


def near(cells: Iterable[Cell]) -> set[Cell]:
    """All cells in contact with one of some cells."""
    return {(row + r, col + c) for row, col in cells for r in (-1, 0, 1) for c in (-1, 0, 1)}
