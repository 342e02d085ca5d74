"""`jaxrl verify skull_king FILE`: recorded games, single tricks and bot choices against the compiled engine.

Everything recorded is compared: who is asked and what is legal at every decision, winners, next leaders, captures and
alliances of every trick, every figure of every round, the final scores and ranks, and what the bots choose.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from envs import recorded
from envs.recorded import Record
from envs.skull_king import records

GAMES_AT_ONCE = 1_500  # bounds the memory of the replayed games


class Report(NamedTuple):
    """The outcome of one file."""

    kind: str
    games: int  # or tricks
    decisions: int
    choices: int
    disagreements: int
    first: str | None  # the first disagreement, in words

    def __str__(self) -> str:
        wrong = f"{self.disagreements:,} disagreements"
        if self.kind == records.TRICKS:
            return f"{self.games:,} tricks, {wrong}"
        choices = f"{self.choices:,} bot choices, " if self.kind == records.BOT_CHOICES else ""
        return f"{self.games:,} games, {self.decisions:,} decisions, {choices}{wrong}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `jaxrl verify skull_king`."""
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
    return _tricks(list(lines)) if kind == records.TRICKS else _games(kind, lines)


def _games(kind: str, lines: Iterator[Record]) -> Report:
    from envs.skull_king import compare, replay  # only once the file is known to be good

    bots = kind == records.BOT_CHOICES
    check = compare.compare_bots if bots else compare.compare_game
    games = decisions = choices = total = 0
    first = None
    while part := list(itertools.islice(lines, GAMES_AT_ONCE)):
        for record, played in zip(part, replay.replay(part, bots=bots), strict=True):
            found = sorted(check(record, played), key=lambda entry: entry.decision)
            if found and first is None:
                first = f"{records.label(record, games)}, {found[0]}"
            total += len(found)
            games += 1
            decisions += len(records.actions(record))
            choices += len(replay.CHECKED_BOTS) * len(record.get("checks", ()))
    return Report(kind, games, decisions, choices, total, first)


def _tricks(lines: list[Record]) -> Report:
    from envs.skull_king import compare, replay

    results = replay.resolve_tricks(lines)
    total, first = 0, None
    for row, record in enumerate(lines):
        found = list(compare.compare_trick(record, results, row))
        if found and first is None:
            first = f"trick {row}, {found[0]}"
        total += len(found)
    return Report(records.TRICKS, len(lines), sum(len(r["plays"]) for r in lines), 0, total, first)
