"""Verifies recorded games against the engine, value by value (`jaxrl check GAME FILE`).

The module `golden` beside a game says which kinds of records there are: what they look like, and how one of them is
put through the engine and compared. Files are JSON lines, plain or gzip.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

LIMIT, LINE = 1 << 28, 1 << 24  # bytes of a file, unpacked, and of a record
Record = dict[str, Any]
# What a value must be: a range of integers, one of a frozenset, of a type (float: any finite number), a list of one
# shape ([shape]), a list of as many shapes as there are (shape, ...), or a mapping with at least these keys
# ({key: shape}).
Shape = Any


class Disagreement(NamedTuple):
    """One value in which a record and the engine differ."""

    decision: int  # index into the decisions of the game, by which a game may sort them
    where: str
    what: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.what} expected {self.expected}, got {self.got}"


class Kind(NamedTuple):
    """One kind of records."""

    name: str  # in words, e.g. "games"
    key: str  # a record of this kind has it, one of the other kinds has not
    shape: Shape
    check: Callable[[Record], None]  # raises ValueError for what a shape cannot express
    compare: Callable[[list[Record]], Iterable[Iterable[Disagreement]]]  # what differs in each, in order of time
    label: Callable[[Record, int], str]  # (record, its index in the file) -> a name for messages
    counts: Callable[[Record], Mapping[str, int]]  # in words, what the report counts
    at_once: int = 16_384  # records, bounds the memory


class Findings(NamedTuple):
    """The result of verifying one file; `str()` of it is the summary."""

    counts: dict[str, int]
    disagreements: int  # figures that differ
    first: str | None  # the first of them, in words

    def __str__(self) -> str:
        return ", ".join(f"{n:,} {what}" for what, n in [*self.counts.items(), ("disagreements", self.disagreements)])


def verify(path: str | Path, kinds: Sequence[Kind]) -> Findings:
    """Compares one file of recorded games with the engine.

    Raises:
      UserError: the file cannot be read.
    """
    kind, lines = read(path, kinds)
    counts: dict[str, int] = {}
    first, place, total = None, 0, 0
    while part := list(itertools.islice(lines, kind.at_once)):
        for record, differing in zip(part, kind.compare(part), strict=True):
            found = list(differing)
            if found and first is None:
                first = f"{kind.label(record, place)}, {found[0]}"
            total, place = total + len(found), place + 1
            for what, count in kind.counts(record).items():
                counts[what] = counts.get(what, 0) + count
    return Findings(counts, total, first)


# ---- for the games --------------------------------------------------------------------------------------------------


def unlike(decision: int, where: str, expected: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[Disagreement]:
    """Yields a disagreement for every value of `got` that differs in `expected`."""
    for what, value in got.items():
        if expected[what] != value:
            yield Disagreement(decision, where, what, expected[what], value)


def taken(action: int, legal: Sequence[int]) -> int | str:
    """Returns the recorded action if it is legal, else a sentence that says which actions are."""
    return action if action in legal else f"only {legal} are legal"


def batches(records: Sequence[Record], most: int) -> Iterator[tuple[list[Record], int]]:
    """Splits records into batches padded to a power of two (the last record is repeated), each with its real size.

    Few distinct sizes mean few compilations.
    """
    size = min(max(8, 1 << (len(records) - 1).bit_length()), most)
    for start in range(0, len(records), size):
        chunk = list(records[start : start + size])
        yield chunk + [chunk[-1]] * (size - len(chunk)), len(chunk)


def require(condition: bool, message: str) -> None:
    """Raises ValueError unless the condition holds."""
    if not condition:
        raise ValueError(message)


# ---- files ----------------------------------------------------------------------------------------------------------


def read(path: str | Path, kinds: Sequence[Kind]) -> tuple[Kind, Iterator[Record]]:
    """Opens a file, plain or gzip; all its records are of the kind of the first, and checked as they are reached.

    Raises:
      UserError: the file cannot be read, or is not a recording; the message names the line.
    """
    path = Path(path)
    lines = files.lines(path, LIMIT, LINE)
    if (line := next(lines, None)) is None:
        raise UserError(f"{path} is empty: expected recorded games, one JSON object a line.")
    first = _parse(path, *line)
    for kind in kinds:
        if isinstance(first, dict) and kind.key in first:
            return kind, _checked(path, kind, itertools.chain([line], lines))
    known = ", ".join(repr(kind.key) for kind in kinds)
    raise UserError(f"{path} is no recording of this game: its first line has none of {known}.")


def titles(path: Path) -> list[str]:
    """Returns what the records of a file are called, one for each line that is not empty; they are not parsed."""
    return [f"no. {number}" for number, _ in enumerate(files.lines(path, LIMIT, LINE), 1)]


def nth(path: str | Path, kinds: Sequence[Kind], number: int) -> tuple[Kind, Record]:
    """Returns one record of a file, the first is 0. Raises UserError as `read`, and if the file has fewer."""
    kind, records = read(path, kinds)
    record = next(itertools.islice(records, number, None), None)
    if record is None:
        raise UserError(f"{path} has no record {number}.")
    return kind, record


def _checked(path: Path, kind: Kind, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
    for number, line in lines:
        record = _parse(path, number, line)
        try:
            fit(record, kind.shape)
            kind.check(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(f"{path}, line {number}: not a record of {kind.name} ({what}).") from None
        yield record


_LARGEST = 1e30
_WORDS = {bool: "true or false", float: "a finite number", int: "an integer", str: "a text", list: "a list"}


def fit(value: Any, shape: Shape, place: str = "") -> None:
    """Raises ValueError, or KeyError for a missing key, unless `value`, which stands at `place`, has the shape."""
    match shape:
        case range():
            fits, what = isinstance(value, int) and value in shape, f"{shape[0]}..{shape[-1]}"
        case frozenset():
            fits, what = isinstance(value, Hashable) and value in shape, f"one of {', '.join(sorted(map(str, shape)))}"
        case dict():
            fits, what = isinstance(value, dict), "a mapping"
        case tuple():
            fits, what = isinstance(value, list) and len(value) == len(shape), f"a list of {len(shape)}"
        case list():
            fits, what = isinstance(value, list), "a list"
        case _:
            fits, what = isinstance(value, (int, float) if shape is float else shape), _WORDS.get(shape, "")
            fits = fits and (shape is not float or -_LARGEST < value < _LARGEST)
    require(fits, f"{place.lstrip('.') or 'a record'} must be {what}, not {repr(value)[:40]}")
    if isinstance(shape, dict):
        for key, inner in shape.items():
            fit(value[key], inner, f"{place}.{key}")
    elif isinstance(shape, (tuple, list)) and not _all_fit(value, shape):
        for i, item in enumerate(value):
            fit(item, shape[i % len(shape)], f"{place}.{i}")


def _all_fit(values: list[Any], shape: tuple | list) -> bool:
    """Returns whether all are integers in one range: the most common case, checked without recursion."""
    inner = shape[0] if isinstance(shape, list) else None
    return isinstance(inner, range) and all(type(value) is int and value in inner for value in values)


def _parse(path: Path, number: int, line: str) -> Any:
    try:
        return files.json_value(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: not JSON ({error}).") from None
