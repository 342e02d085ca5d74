"""`jaxrl verify beasty_bar FILE`: recorded games and opponents' choices against the compiled engine.

Everything recorded is compared: who moves, what is legal and the table after every turn, the end and the points of
every game; the scores and the best ids of the scripted opponents in single positions.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from envs import recorded
from envs.beasty_bar import records
from envs.recorded import Disagreement, Record

AT_ONCE = 16_384  # records: bounds the memory


class Report(NamedTuple):
    """The outcome of one file."""

    kind: str
    records: int  # games, or decisions of the opponents
    turns: int
    disagreements: int
    first: str | None  # the first disagreement, in words

    def __str__(self) -> str:
        what = f"{self.records:,} games, {self.turns:,} turns"
        if self.kind == records.BOT_CHOICES:
            what = f"{self.records:,} bot choices"
        return f"{what}, {self.disagreements:,} disagreements"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `jaxrl verify beasty_bar`."""
    recorded.add_arguments(parser, records.KINDS)


def main(args: argparse.Namespace) -> int:
    """Prints one report for each file; 0 = everything agrees, 1 = something does not.

    Raises:
      UserError: a file cannot be read.
    """
    return recorded.report(args.file, verify)


def verify(path: str) -> Report:
    """Compares one file with the engine.

    Raises:
      UserError: the file cannot be read.
    """
    kind, lines = recorded.read(path, records.KINDS)
    count = turns = total = 0
    first = None
    while part := list(itertools.islice(lines, AT_ONCE)):
        for record, found in zip(part, differences(kind, part), strict=True):
            if found and first is None:
                first = f"{records.label(record, count)}, {found[0]}"
            total += len(found)
            count += 1
            turns += len(record.get("moves", ()))
    return Report(kind, count, turns, total, first)


def differences(kind: str, part: list[Record]) -> Iterable[list[Disagreement]]:
    """For every record what differs, in order of time; `kind` as in `records`."""
    from envs.beasty_bar import compare, replay  # only once the file is known to be good

    results: Iterable = replay.games(part) if kind == records.GAMES else replay.choices(part)
    check: Callable = compare.compare_game if kind == records.GAMES else compare.compare_choice
    return (list(check(record, result)) for record, result in zip(part, results, strict=True))
