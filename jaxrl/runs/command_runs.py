"""`jaxrl runs`: every run below a folder, how far it is and how well it plays. Reads a few files of each; no jax."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from jaxrl.runs import status
from jaxrl.runs.status import Status
from jaxrl.text_tables import count, duration, table

HELP = "list the runs: how far they are, how well they play"
DEVICES = "none"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl runs`."""
    parser.add_argument("folder", nargs="?", default="runs", help="where the runs are (default: runs)")


def main(args: argparse.Namespace) -> int:
    """Prints one line for each run."""
    print(listed([status.brief(run) for run in status.found_in(Path(args.folder).expanduser())]))
    return 0


def listed(found: Sequence[Status]) -> str:
    """The table of some runs."""
    head = ["run", "game", "algorithm", "steps", "state", "learned in", "last evaluation"]
    return table(head, [_line(each) for each in found])


def _line(run: Status) -> list[str]:
    """Of one run: name, game, algorithm, steps, state, time of training, last evaluation."""
    done = f"{count(run.steps)} of {count(run.total_steps)}" if run.state != status.UNREADABLE else "?"
    learned = "" if run.seconds is None else duration(run.seconds)
    return [run.name, run.game, run.algorithm, done, run.state, learned, evaluated(run)]


def evaluated(run: Status) -> str:
    """Returns the newest evaluation in words; nothing without one."""
    found = run.evaluation
    if found is None or found["update"] < 0:
        return ""
    score = f"win rate {found['win_rate']:.1%}" if "win_rate" in found else f"return {found['return']:.3g}"
    return f"{score} after {found['update']} updates"
