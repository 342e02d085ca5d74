"""`jaxrl verify battle FILE`: recorded battles against the compiled engine.

Every battle is played twice, with the dice of its key and with those of its tape, and everything recorded is compared:
setup, decisions, legal ids, dice, scripts and random players, observations, states after the half-turns, the result.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from envs import recorded
from envs.battle import records
from envs.recorded import Disagreement, Record

SOURCES = ("key", "tape")


class Report(NamedTuple):
    """The outcome of one file."""

    records: int  # battles
    decisions: int  # each compared twice
    disagreements: int
    first: str | None  # the first disagreement, in words

    def __str__(self) -> str:
        return (
            f"{self.records:,} battles from key and tape, {self.decisions:,} decisions each, "
            f"{self.disagreements:,} disagreements"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `jaxrl verify battle`."""
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
    _, lines = recorded.read(path, records.KINDS)
    count = decisions = total = 0
    first = None
    for record in lines:
        found = differences(record)
        if found and first is None:
            first = f"battle {record.get('id', count)}, {found[0]}"
        total += len(found)
        count += 1
        decisions += len(record["decisions"])
    return Report(count, decisions, total, first)


def differences(record: Record) -> list[Disagreement]:
    """What differs in one battle, checked before, in order of time."""
    from envs.battle.compare import compare  # only once the file is known to be good
    from envs.battle.replay import replay

    return [entry for source in SOURCES for entry in compare(record, replay(record, tape=source == "tape"), source)]
