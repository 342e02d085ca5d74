"""Boards: terrain and objectives, from YAML or JSON (section 1.3 of the rules)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jaxrl_envs.battle import random_setups
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.files import is_path, read
from jaxrl_envs.shared.options import Place, build, option

MAX_OBJECTIVES = 8
FILE = Path(__file__).parent / "data" / "maps.yaml"

Rectangle = tuple[int, int, int, int]  # first row, first column, last row, last column, all inclusive


@dataclasses.dataclass(frozen=True)
class BattleMap:
    """One board; cells are (row, column) from the top left, a cell is one inch."""

    name: str
    rows: int  # 16..64
    cols: int  # 24..64
    barricades: tuple[Rectangle, ...]
    walls: tuple[Rectangle, ...]
    objectives: tuple[tuple[float, float, int], ...]  # row and column (multiples of 0.5), radius in cells; up to 8


@dataclasses.dataclass(frozen=True)
class MapFile:
    """A map as it is written."""

    rows: int = option(40, minimum=16, maximum=64)
    cols: int = option(60, minimum=24, maximum=64)
    barricades: list[Any] = option((), "rectangles")
    walls: list[Any] = option((), "rectangles")
    objectives: list[Any] = option((), items=(0, MAX_OBJECTIVES), words=f"a list of 0 to {MAX_OBJECTIVES} objectives")


KEYS = {field.name for field in dataclasses.fields(MapFile)}


def shipped() -> list[str]:
    """Returns the names of the maps that come with the game."""
    return sorted(read(FILE))


def load_map(source: str | Path | dict[str, Any]) -> BattleMap:
    """Returns a map by its shipped name, from a user's file, or from a mapping.

    Args:
      source: a shipped name ("standard"); "file.yaml:name" for one of the maps of a file, "file.yaml" for a file
        with a single map (as a mapping of its name to the map, or the map alone); "random:7" (`drawn`); or the map
        itself as a mapping.

    Raises:
      UserError: there is no such map, or something in it is wrong; the message names file, map and key.
    """
    if isinstance(source, dict):
        return map_from_tree(source)
    text = str(source)
    if text.startswith(random_setups.PREFIX):
        return map_from_tree(random_setups.draw_map(text), text, name=text)
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
    if set(tree) & KEYS:  # the map alone
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


def map_from_tree(tree: Any, source: str = "map", *, name: str = "map") -> BattleMap:
    """Returns a map from what a YAML or JSON file holds.

    Raises:
      UserError: a key is unknown, a value is out of its range, or terrain overlaps; `source` begins the message.
    """
    written = build(MapFile, tree, Place(source))
    barricades = _rectangles(written, "barricades", source)
    walls = _rectangles(written, "walls", source)
    both = cells(barricades) & cells(walls)
    if both:
        raise UserError(f"{source}: cell {list(min(both))} is a barricade and a wall: let it be one of them.")
    return BattleMap(name, written.rows, written.cols, barricades, walls, _objectives(written, source))


def cells(rectangles: tuple[Rectangle, ...]) -> set[tuple[int, int]]:
    """Returns the cells that some inclusive rectangles cover."""
    return {(r, c) for r0, c0, r1, c1 in rectangles for r in range(r0, r1 + 1) for c in range(c0, c1 + 1)}


def _rectangles(written: MapFile, key: str, source: str) -> tuple[Rectangle, ...]:
    rows, cols = written.rows, written.cols
    for i, entry in enumerate(getattr(written, key)):
        good = isinstance(entry, list) and len(entry) == 4 and all(type(number) is int for number in entry)
        if not good or not (0 <= entry[0] <= entry[2] < rows and 0 <= entry[1] <= entry[3] < cols):
            words = f"[first row, first column, last row, last column] with rows from 0 to {rows - 1} and columns"
            raise Place(source, f"{key}.{i}").wrong(f"{words} from 0 to {cols - 1}", entry)
    return tuple((r0, c0, r1, c1) for r0, c0, r1, c1 in getattr(written, key))


def _objectives(written: MapFile, source: str) -> tuple[tuple[float, float, int], ...]:
    rows, cols = written.rows, written.cols
    for i, entry in enumerate(written.objectives):
        good = isinstance(entry, list) and len(entry) == 3 and type(entry[2]) is int and 1 <= entry[2] <= 12
        if not good or not (_half(entry[0], rows) and _half(entry[1], cols)):
            words = f"[row, column, radius] with multiples of 0.5 up to row {rows - 1} and column {cols - 1}"
            raise Place(source, f"objectives.{i}").wrong(f"{words} and a whole radius from 1 to 12", entry)
    return tuple((float(row), float(column), radius) for row, column, radius in written.objectives)


def _half(value: Any, size: int) -> bool:
    """Returns whether a value is a multiple of 0.5 on a board of this size."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= size - 1 and 2 * value == int(2 * value)
