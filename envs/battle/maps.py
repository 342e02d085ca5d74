"""Boards: terrain and objectives, from YAML or JSON (section 1.3 of the rules)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.battle.fields import Fields, is_path, is_whole, read
from envs.errors import UserError, nearest

MAX_OBJECTIVES = 8
FILE = Path(__file__).parent / "data" / "maps.yaml"
KEYS = ("rows", "cols", "barricades", "walls", "objectives")

Rectangle = tuple[int, int, int, int]  # first row, first column, last row, last column, all inclusive


@dataclass(frozen=True)
class BattleMap:
    """One board; cells are (row, column) from the top left, a cell is one inch."""

    name: str
    rows: int  # 16..64
    cols: int  # 24..64
    barricades: tuple[Rectangle, ...]
    walls: tuple[Rectangle, ...]
    objectives: tuple[tuple[float, float, int], ...]  # row and column (multiples of 0.5), radius in cells; up to 8


def shipped() -> list[str]:
    """The names of the maps that come with the game."""
    return sorted(read(FILE))


def load_map(source: str | Path | dict[str, Any]) -> BattleMap:
    """A map by its shipped name, from a user's file, or from a mapping.

    Args:
      source: a shipped name ("standard"); "file.yaml:name" for one of the maps of a file, "file.yaml" for a file
        with a single map (as a mapping of its name to the map, or the map alone); or the map itself as a mapping.

    Raises:
      UserError: there is no such map, or something in it is wrong; the message names file, map and key.
    """
    if isinstance(source, dict):
        return map_from_tree(source)
    text = str(source)
    known = read(FILE)
    if text in known:
        return map_from_tree(known[text], f"map {text!r}", name=text)
    path, _, name = text.rpartition(":") if not Path(text).is_file() and ":" in text else (text, "", "")
    if not is_path(path):
        raise UserError(f"unknown map {text!r}: {nearest(text, known)} (your own: 'file.yaml:name')")
    if not Path(path).is_file():
        raise UserError(f"there is no map file {path}; shipped maps are {', '.join(sorted(known))}.")
    return _from_file(path, name)


def _from_file(path: str, name: str) -> BattleMap:
    tree = read(path)
    if not isinstance(tree, dict) or not tree:
        raise UserError(f"{path} must be a mapping of names to maps.")
    if set(tree) & set(KEYS):  # the map alone
        if name:
            raise UserError(f"{path} holds a single map without a name: leave out ':{name}'.")
        return map_from_tree(tree, path, name=Path(path).stem)
    tree = {str(key): value for key, value in tree.items()}  # a name may look like a number
    names = sorted(tree)
    if not name and len(tree) == 1:
        name = names[0]
    if not name:
        raise UserError(f"{path} has {len(tree)} maps: choose one as '{path}:NAME' (NAME is {', '.join(names)}).")
    if name not in tree:
        raise UserError(f"{path} has no map {name!r}: {nearest(name, names)}")
    return map_from_tree(tree[name], f"{path}, map {name!r}", name=name)


def map_from_tree(tree: Any, where: str = "map", *, name: str = "map") -> BattleMap:
    """A map from what a YAML or JSON file holds.

    Raises:
      UserError: a key is unknown, a value is out of its range, or terrain overlaps; `where` begins the message.
    """
    fields = Fields(tree, where, KEYS)
    rows = fields.whole("rows", 16, 64, default=40)
    cols = fields.whole("cols", 24, 64, default=60)
    barricades = _rectangles(fields, "barricades", rows, cols)
    walls = _rectangles(fields, "walls", rows, cols)
    both = cells(barricades) & cells(walls)
    if both:
        raise UserError(f"{where}: cell {list(min(both))} is a barricade and a wall: let it be one of them.")
    return BattleMap(name, rows, cols, barricades, walls, _objectives(fields, rows, cols))


def cells(rectangles: tuple[Rectangle, ...]) -> set[tuple[int, int]]:
    """The cells that some inclusive rectangles cover."""
    return {(r, c) for r0, c0, r1, c1 in rectangles for r in range(r0, r1 + 1) for c in range(c0, c1 + 1)}


def _rectangles(fields: Fields, key: str, rows: int, cols: int) -> tuple[Rectangle, ...]:
    found = []
    for i, entry in enumerate(fields.items(key, 0, rows * cols, "rectangles", default=[])):
        good = isinstance(entry, list) and len(entry) == 4 and all(map(is_whole, entry))
        if not good or not (0 <= entry[0] <= entry[2] < rows and 0 <= entry[1] <= entry[3] < cols):
            raise UserError(
                f"{fields.where}: {key}[{i}] must be [first row, first column, last row, last column] with rows from 0 "
                f"to {rows - 1} and columns from 0 to {cols - 1}, got {entry!r}."
            )
        found.append((entry[0], entry[1], entry[2], entry[3]))
    return tuple(found)


def _objectives(fields: Fields, rows: int, cols: int) -> tuple[tuple[float, float, int], ...]:
    found = []
    for i, entry in enumerate(fields.items("objectives", 0, MAX_OBJECTIVES, "objectives", default=[])):
        good = isinstance(entry, list) and len(entry) == 3 and is_whole(entry[2]) and 1 <= entry[2] <= 12
        if not good or not (_half(entry[0], rows) and _half(entry[1], cols)):
            raise UserError(
                f"{fields.where}: objectives[{i}] must be [row, column, radius] with multiples of 0.5 up to row "
                f"{rows - 1} and column {cols - 1} and a whole radius from 1 to 12, got {entry!r}."
            )
        found.append((float(entry[0]), float(entry[1]), entry[2]))
    return tuple(found)


def _half(value: Any, size: int) -> bool:
    """Whether a value is a multiple of 0.5 on a board of this size."""
    number = is_whole(value) or isinstance(value, float)
    return number and 0 <= value <= size - 1 and 2 * value == int(2 * value)
