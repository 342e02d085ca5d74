"""`jaxrl runs`: every run below a folder, or what one is doing or how it ended, from their files alone. No jax."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from jaxrl.config import command_line as arguments
from jaxrl.runs import status
from jaxrl.runs.folder import find_folder
from jaxrl.runs.status import Status
from jaxrl.text_tables import count, duration, milestone, table
from jaxrl_envs.shared.errors import UserError

DEVICES = "none"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl runs`."""
    help = "one run, its folder or name; or a folder of runs (default: a table of all in --directory)"
    arguments.completed(parser.add_argument("run", nargs="?", help=help), arguments.run_names)
    parser.add_argument("--directory", default="runs", help="where the runs are (default: runs)")
    parser.add_argument("--json", action="store_true", help="print it as JSON, for programs")


def main(args: argparse.Namespace) -> int:
    """Prints how a run stands, or a line for each run of a folder."""
    place, found = Path(args.run or args.directory).expanduser(), None
    if args.run and (not place.is_dir() or (place / "config.yaml").is_file()):
        found = status.whole(find_folder(args.run, args.directory))
        if found.state == status.UNREADABLE:
            raise UserError(f"{Path(found.path) / 'config.yaml'} cannot be read: mend it, or restore it from a backup.")
    runs = [found] if found else [status.brief(run) for run in status.found_in(place)]
    if args.json:
        plain = list(map(dataclasses.asdict, runs))
        print(json.dumps(plain[0] if found else plain, indent=2))
    elif found:
        print("\n".join(f"{word:<12}{' '.join(line.splitlines())}" for word, line in _lines(found)))
    else:
        print(_listed(runs))
    return 0


def _listed(found: list[Status]) -> str:
    """Returns the table of some runs."""
    rows = []
    for run in found:
        done = f"{count(run.steps)} of {count(run.total_steps)}" if run.state != status.UNREADABLE else "?"
        learned = "" if run.seconds is None else duration(run.seconds)
        rows.append([run.name, run.game, run.algorithm, done, run.state, learned, _evaluated(run)])
    return table(["run", "game", "algorithm", "steps", "state", "learned in", "last evaluation"], rows)


def _evaluated(run: Status) -> str:
    """Returns the newest evaluation in words; nothing without one."""
    found = run.evaluation
    if found is None or found["update"] < 0:
        return ""
    score = f"win rate {found['win_rate']:.1%}" if "win_rate" in found else f"return {found['return']:.3g}"
    if found.get("fair", 0.5) < 0.5:
        score += f" (fair {found['fair']:.1%})"
    return f"{score} after {found['update']} updates"


def _lines(run: Status) -> Iterator[tuple[str, str]]:
    yield "run", f"{run.path}: {run.game}, {run.algorithm}"
    yield "state", _state(run)
    if run.why:
        yield "because", run.why
    if run.updates:
        share = min(run.update / run.updates, 1.0)
        steps = f"{count(run.steps)} of {count(run.total_steps)} steps"
        yield "progress", f"update {run.update:,} of {run.updates:,} ({share:.1%}), {steps}{_since(run.last_figures)}"
    if run.steps_per_second is not None:
        left = "" if run.seconds_left is None else f"; at that rate to {_moment(run.estimated_end)} without evaluations"
        yield "speed", f"{count(run.steps_per_second)} steps/s in the last window{left}"
    if run.seconds is not None:
        of_cpu = "" if run.cpu_seconds is None else f", {duration(run.cpu_seconds)} of the CPU"
        yield "learned in", f"{duration(run.seconds)} of training{of_cpu}"
    if evaluation := _evaluated(run):
        yield "evaluation", evaluation
    if run.best is not None:
        yield "best", f"{run.best['best_by']} {run.best['score']:.4g} after {run.best['update']} updates"
    for reached in run.milestones:
        yield "milestone", milestone(reached)
    yield "checkpoint", _checkpoint(run)
    for each in run.ranks:
        word = f"rank {each['rank']}"
        counts = f"{each['warnings']} warnings, {each['errors']} errors"
        yield word, f"{each['log']}: {counts}{_since(each['last_event'], ', last line ')}"
    for each in run.events:
        yield "", f"{_moment(each['time'])} rank {each['rank']} {each['level']}: {each['message']}"
    if run.next_command:
        yield "go on with", run.next_command


def _state(run: Status) -> str:
    who = run.process
    if who is None:
        return run.state
    place = f"process {who['pid']} on {who['host']}"
    more = f", the first of {who['processes']}" if who["processes"] > 1 else ""
    match run.state:
        case "training" if who["ended"]:
            return "training: it has just begun"
        case "training":
            return f"training: {place}{more}, since {_moment(who['begun'])}"
        case "lost":
            there = "" if who["here"] else "; it may still train there if that machine's locks cannot be seen from here"
            return f"lost: {place}{more} has gone without a word: killed, or with its machine{there}"
    return f"{run.state}: {place}{more}, {_moment(who['ended'] or who['begun'])}"


def _checkpoint(run: Status) -> str:
    found = run.checkpoint
    if found is None:
        return "none yet"
    others = f"; damaged: {', '.join(map(str, found['damaged']))}" if found["damaged"] else ""
    others += "".join(f"; {step}: {why}" for step, why in found["unread"].items())
    if found["update"] is None:
        return f"none that is known to be intact{others}"
    return f"of update {found['update']:,}, intact, {found['bytes'] / 2**20:.3g} MiB{others}"


def _moment(when: str) -> str:
    """Returns a time of a file as the clock on the wall shows it here."""
    try:
        return datetime.datetime.fromisoformat(when).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return when or "?"


def _since(when: str, before: str = ", last figures ") -> str:
    """Returns how long ago `when` was, in words; empty without a time."""
    if not when:
        return ""
    seconds = max(0, int(time.time() - datetime.datetime.fromisoformat(when).timestamp()))
    return f"{before}{datetime.timedelta(seconds=seconds)} ago"
