"""Rosters and maps drawn at random, by number: "random:7" is the same force, or the same board, for ever.

To learn on many and be judged on others: `rosters: [random:0-23]`, then `evaluate.options.rosters: [random:100-107]`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from jaxrl_envs.shared.errors import UserError

PREFIX = "random:"
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
MOST = 1024  # in one range
FEWEST_UNITS, MOST_UNITS, MOST_MODELS = 3, 8, 20
RADIUS = 3  # of objectives
Item = TypeVar("Item")


class Draws:
    """Random whole numbers that follow from a text: no library's stream, which another release may change."""

    def __init__(self, text: str):
        self._text, self._count = text, 0

    def between(self, low: int, high: int) -> int:
        """Returns a number from `low` to `high`."""
        self._count += 1
        word = hashlib.sha256(f"{self._text} {self._count}".encode()).digest()[:8]
        return low + int.from_bytes(word, "big") % (high - low + 1)


def matched(items: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Pairs in which every item comes once first and once second, against another one that its place decides; there are
    as many ordered pairs as twice the items, and the same ones for ever."""
    draws, others = Draws(f"pairs of {len(items)}"), list(items)
    for i in range(len(others) - 1, 0, -1):  # Sattolo's cycle: none is left in its own place
        j = draws.between(0, i - 1)
        others[i], others[j] = others[j], others[i]
    return [pair for one, other in zip(items, others, strict=True) for pair in ((one, other), (other, one))]


def expanded(names: Sequence[str]) -> list[str]:
    """Returns the names with ranges written out: "random:3-5" is random:3, random:4 and random:5.

    Raises:
      UserError: a range is malformed or too long.
    """
    found: list[str] = []
    for name in map(str, names):
        if not name.startswith(PREFIX):
            found.append(name)
            continue
        match = _RANGE.fullmatch(name.removeprefix(PREFIX))
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MOST:
            raise UserError(f"{name!r}: drawn ones are random:NUMBER or random:FIRST-LAST, up to {MOST} of them.")
        found += [f"{PREFIX}{number}" for number in range(first, last + 1)]
    return found


def draw_roster(name: str, pool: Sequence[dict[str, Any]], budget: float) -> dict[str, Any]:
    """A roster as a file would hold it: units of other sizes and speeds than those of the pool, until their points
    reach the budget."""
    draws, spent = Draws(f"roster {name}"), 0.0
    units: list[dict[str, Any]] = []
    while len(units) < MOST_UNITS and (len(units) < FEWEST_UNITS or spent < budget):
        unit = dict(pool[draws.between(0, len(pool) - 1)])
        models = unit["models"]
        most = min(MOST_MODELS, 3 * models // 2)
        unit["models"] = draws.between((models + 1) // 2, most) if models > 1 else 1
        unit["M"] = max(1, unit["M"] + draws.between(-1, 2))
        unit["name"] = f"{unit['name']} {len(units) + 1}"
        units.append(unit)
        spent += points(unit)
    return {"name": name, "units": units}


def points(unit: dict[str, Any]) -> float:
    """Roughly what a unit is worth: how long it lasts, and what its better weapon and half of the other one do."""
    lasts = unit["W"] * unit["T"] / 4 * (9 - min(unit["Sv"], unit.get("Inv") or 7)) / 6
    does = sorted(_strength(unit[kind]) if kind in unit else 0.0 for kind in ("ranged", "melee"))
    return float(unit["models"] * (lasts + does[1] + does[0] / 2))


def _strength(weapon: dict[str, Any]) -> float:
    hits = _mean(weapon["A"]) * (7 - weapon["skill"]) / 6
    return hits * weapon["S"] / 5 * (1 - weapon["AP"] / 4) * min(_mean(weapon["D"]), 3.0)


def _mean(dice: int | str) -> float:
    """Returns the mean of a number, or of dice such as 2D6+1."""
    count, _, rest = str(dice).partition("D")
    if not rest:
        return float(dice)
    faces, _, plus = rest.partition("+")
    return int(count or 1) * (int(faces) + 1) / 2 + int(plus or 0)


def draw_map(name: str) -> dict[str, Any]:
    """Returns a board as a file would hold it, alike for both sides: left and right are mirror images."""
    draws = Draws(f"map {name}")
    rows, cols = 2 * draws.between(16, 22), 2 * draws.between(26, 30)
    middle, taken = cols // 2, set[int]()
    marks: list[list[float]] = []
    for _ in range(draws.between(0, 2)):
        row = draws.between(4, rows - 5)
        if all(abs(row - other) > 2 * RADIUS for other in taken):
            taken.add(row)
            column = draws.between(18, middle - 5)
            marks += [[row, column, RADIUS], [row, cols - 1 - column, RADIUS]]
    if not marks or draws.between(0, 2):
        marks.append([(rows - 1) / 2, (cols - 1) / 2, RADIUS])
    pieces: dict[str, list[list[int]]] = {"barricades": [], "walls": []}
    starts = [draws.between(0, 2) + row for row in range(1, rows - 12, 10)]
    for start in starts:  # a stripe of ten rows each: nothing overlaps
        kind, length = ("walls", draws.between(4, 7)) if not draws.between(0, 2) else ("barricades", 3)
        column = draws.between(20, middle - 2)
        for at in (column, cols - 1 - column):
            pieces[kind].append([start, at, start + length - 1, at])
    return {"rows": rows, "cols": cols, "objectives": marks, **pieces}
