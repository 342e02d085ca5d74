"""What `jaxrl verify` needs for any game: reading recorded games (JSON lines) and reporting where they disagree.

A game says which kinds of records it knows and how to check one; its own `verify` module replays and compares them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from envs.errors import UserError

Record = dict[str, Any]


class Kind(NamedTuple):
    """One kind of records."""

    name: str  # in words, e.g. "games"
    key: str  # a record of this kind has it, one of the other kinds has not
    check: Callable[[Record], None]  # raises ValueError, KeyError, TypeError, … if a record cannot be replayed


class Recording(NamedTuple):
    """One file."""

    kind: str  # the name of the kind
    records: Iterator[Record]  # parsed and checked one by one: the games of a large file do not fit into memory


class Disagreement(NamedTuple):
    """One figure on which a record and the engine differ."""

    decision: int  # index into the decisions of the game
    where: str
    what: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.what} expected {self.expected}, got {self.got}"


class Outcome(Protocol):
    """What comparing one file gives; `str()` of it is the summary for people."""

    @property
    def disagreements(self) -> int:
        """How many figures differ."""

    @property
    def first(self) -> str | None:
        """The first of them, in words."""


def add_arguments(parser: argparse.ArgumentParser, kinds: Sequence[Kind]) -> None:
    """The command line of `jaxrl verify GAME`."""
    names = ", ".join(kind.name for kind in kinds)
    parser.add_argument("file", nargs="+", help=f"recordings ({names}): JSON lines, plain or .gz")


def report(paths: Sequence[str], verify: Callable[[str], Outcome]) -> int:
    """Prints one report for each file; 0 = everything agrees, 1 = something does not.

    Raises:
      UserError: a file cannot be read.
    """
    failed = False
    for path in paths:
        began = time.perf_counter()
        found = verify(path)
        print(f"{path}: {found} ({time.perf_counter() - began:.1f} s)", flush=True)
        if found.first:
            print(f"first disagreement: {found.first}", flush=True)
        failed = failed or found.disagreements > 0
    return int(failed)


def read(path: str | Path, kinds: Sequence[Kind]) -> Recording:
    """Opens a file, plain or gzip; all its records are of the kind of the first.

    Raises:
      UserError: the file cannot be read, or is not a recording; the message names the line. Lines after the first are
        checked when the iterator reaches them.
    """
    path = Path(path)
    lines = [(number, line) for number, line in enumerate(_text(path).split("\n"), 1) if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty: expected recorded games, one JSON object a line.")
    first = _parse(path, *lines[0])
    for kind in kinds:
        if isinstance(first, dict) and kind.key in first:
            return Recording(kind.name, _checked(path, kind, lines))
    known = ", ".join(repr(kind.key) for kind in kinds)
    raise UserError(f"{path} is no recording of this game: its first line has none of {known}.")


def require(condition: bool, message: str) -> None:
    """Raises ValueError unless the condition holds."""
    if not condition:
        raise ValueError(message)


def whole(values: Sequence[Any], low: int, high: int, message: str) -> None:
    """Raises ValueError unless all values are integers in low..high."""
    require(all(isinstance(value, int) and low <= value <= high for value in values), message)


def _checked(path: Path, kind: Kind, lines: list[tuple[int, str]]) -> Iterator[Record]:
    for number, line in lines:
        record = _parse(path, number, line)
        try:
            kind.check(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(f"{path}, line {number}: not a record of {kind.name} ({what}).") from None
        yield record


def _parse(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: not JSON ({error}).") from None


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: the file is damaged ({error}).") from None
