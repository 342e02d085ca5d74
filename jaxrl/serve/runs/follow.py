"""Following `metrics.jsonl` of a run that trains: only what was added is read. No jax.

A resumed run replaces the file by one with fewer rows, which is then read from its beginning.
"""

from __future__ import annotations

import array
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy import special

from jaxrl_envs.shared import files

ROWS = 1 << 14  # that are kept; of a longer file every second, every fourth, ...
TAGS, LINE, BLOCK = 4_000, 1 << 20, 1 << 24  # tags that are kept; bytes of a line, and of one reading
POINTS = 400  # of a curve, about
SEED = re.compile(r"seed_(\d{1,3})/(.+)")


class Rows:
    """The rows of a file as columns.

    Attributes:
      epoch: another number whenever the file was read from its beginning.
      read: rows that were read so far; after thinning there are fewer in the columns.
      latest: the last one, tag -> number or None.
      seeds: S, the number of seeds with metrics of their own; 0 if there are only means over all seeds.
    """

    def __init__(self, path: Path):
        """Reads nothing yet."""
        self._path, self.epoch = path, 0
        self._begin()

    def _begin(self) -> None:
        self.epoch += 1
        self.read, self._stride, self.seeds = 0, 1, 0
        self.latest: dict[str, float | int | None] = {}
        self._file, self._at, self._rest = 0, 0, b""
        self._broken = False  # a line is longer than any row: nothing after it is read
        self._columns: dict[str, array.array[float]] = {"update": array.array("d"), "steps": array.array("d")}

    @property
    def count(self) -> int:
        """Number of rows in the columns."""
        return len(self._columns["steps"])

    @property
    def cells(self) -> int:
        """Number of values in the columns."""
        return self.count * len(self._columns)

    @property
    def tags(self) -> list[str]:
        """Tags of the rows, without the figures of single seeds."""
        return sorted(tag for tag in self._columns if tag not in ("update", "steps") and not SEED.fullmatch(tag))

    def follow(self) -> bool:
        """Reads what was added, `BLOCK` bytes at most; returns whether that was anything."""
        try:
            with files.opened(self._path) as file:
                stat = os.fstat(file.fileno())
                if stat.st_ino != self._file or stat.st_size < self._at:
                    self._begin()
                    self._file = stat.st_ino
                if self._broken:
                    return False
                file.seek(self._at)
                block = file.read(BLOCK)
        except OSError:
            return False
        self._at += len(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._broken = max(map(len, [*lines, self._rest])) > LINE
        for row in map(_row, lines):
            if row is not None:
                self._add(row)
        return bool(block)

    def _add(self, row: dict[str, Any]) -> None:
        self.latest = {tag: value for tag, value in list(row.items())[:TAGS]}
        if self.read % self._stride == 0:
            count = self.count
            for tag, value in self.latest.items():
                column = self._columns[tag] if tag in self._columns else self._new_column(tag, count)
                if column is not None:
                    column.append(math.nan if value is None else float(value))
            for column in self._columns.values():
                if len(column) == count:
                    column.append(math.nan)  # not in this row
        self.read += 1
        if self.count > ROWS:
            self._stride *= 2
            self._columns = {tag: column[::2] for tag, column in self._columns.items()}

    def _new_column(self, tag: str, count: int) -> array.array[float] | None:
        if len(self._columns) >= TAGS:
            return None
        match = SEED.fullmatch(tag)
        self.seeds = max(self.seeds, int(match[1]) + 1 if match else 0)
        self._columns[tag] = array.array("d", [math.nan]) * count
        return self._columns[tag]

    def curves(self, tags: list[str], after: float = -1.0) -> dict[str, Any]:
        """Returns some curves, thinned to `POINTS`: each point is the mean of the rows that it stands for.

        Args:
          tags: tags to read; those that are not known are left out.
          after: the update after which they begin; from there on nothing is thinned.

        Returns:
          "update" and "steps" [N] of the points, and "series": tag -> {"mean" [N]}, with several seeds also "low" and
          "high" [N], Student's 95 % interval over them, and "seeds" [S][N]. None stands for what is not known.
        """
        update = np.frombuffer(self._columns["update"])
        begin = int(np.searchsorted(update, after, side="right"))
        size = 1 if after >= 0 else max(1, -(-(len(update) - begin) // POINTS))
        found = {}
        for tag in tags:
            if tag in self._columns and tag not in ("update", "steps"):
                found[tag] = self._series(tag, begin, size)
        marks = {name: _last_of(np.frombuffer(self._columns[name])[begin:], size) for name in ("update", "steps")}
        return marks | {"series": found}

    def _series(self, tag: str, begin: int, size: int) -> dict[str, Any]:
        whole = _means(np.frombuffer(self._columns[tag])[begin:], size)
        names = [f"seed_{seed}/{tag}" for seed in range(self.seeds)]
        each = [_means(np.frombuffer(self._columns[name])[begin:], size) for name in names if name in self._columns]
        if len(each) < 2:
            return {"mean": _plain(whole)}
        known = np.ma.masked_invalid(np.stack(each))
        count = known.count(axis=0)
        half = np.ma.std(known, axis=0, ddof=1) * special.stdtrit(np.maximum(count - 1, 1), 0.975) / np.sqrt(count)
        low, high = (_plain(whole + sign * half.filled(np.nan)) for sign in (-1, 1))
        return {"mean": _plain(whole), "low": low, "high": high, "seeds": [_plain(values) for values in each]}


def _row(line: bytes) -> dict[str, Any] | None:
    """Parses a row; None if it is not valid."""
    try:
        row = orjson.loads(line) if len(line) <= LINE else None
    except ValueError:
        return None
    if not isinstance(row, dict) or not all(type(row.get(name)) is int for name in ("update", "steps")):
        return None
    if not 0 <= row["update"] < 2**53 or not 0 <= row["steps"] < 2**53:
        return None
    return {tag: value for tag, value in row.items() if value is None or type(value) in (int, float)}


def _means(values: np.ndarray, size: int) -> np.ndarray:
    """Returns the means over the known values of each part, f64[N] -> f64[ceil(N / size)]."""
    if size == 1:
        return values
    padded = np.full(-(-len(values) // size) * size, np.nan)
    padded[: len(values)] = values
    return np.ma.masked_invalid(padded.reshape(-1, size)).mean(axis=1).filled(np.nan)


def _last_of(values: np.ndarray, size: int) -> list[int]:
    """Returns the last value of every part."""
    ends = np.minimum(np.arange(size, len(values) + size, size), len(values)) - 1
    return values[ends].astype(int).tolist()


def _plain(values: np.ndarray) -> list[float | None]:
    """Rounds to six digits, for JSON."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
