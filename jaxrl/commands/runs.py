"""`jaxrl runs`: every run below a folder, how far it is and how well it plays. Reads a few files of each; no jax."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl import config as configs
from jaxrl.config import Config, presets
from jaxrl.envs import files
from jaxrl.envs.errors import UserError, printable
from jaxrl.measure.tables import count, table

TAIL = 2**16  # bytes at the end of metrics.jsonl in which its last lines are


def main(args: argparse.Namespace) -> int:
    """Prints one line for each run."""
    folder = Path(args.folder).expanduser()
    found = sorted(path.parent for path in folder.glob("*/config.yaml"))
    if not found:
        raise UserError(f"there are no runs in {folder}: begin one with `jaxrl train`, or name another folder.")
    print(table(["run", "game", "algorithm", "steps", "state", "last evaluation"], [describe(run) for run in found]))
    return 0


def describe(run: Path) -> list[str]:
    """The line of one run: name, game, algorithm, steps, state, last evaluation."""
    try:
        config = configs.from_dict(presets.read(run / "config.yaml"))  # which runs nothing that it names
    except UserError:
        return [printable(run.name), "?", "?", "?", "config.yaml cannot be read", ""]
    rows = list(_last_rows(run / "metrics.jsonl"))
    steps = max((row["steps"] for row in rows), default=0)
    done = f"{count(steps)} of {count(config.train.total_steps)}"
    names = [printable(run.name), printable(config.env.id), config.train.algorithm]
    return [*names, done, _state(run, config), _evaluation(run, rows)]


def _state(run: Path, config: Config) -> str:
    if files.is_locked(run / ".lock"):
        return "training"
    saved = [int(path.name) for path in (run / "checkpoints").glob("*") if path.name.isdigit()]
    if not saved:
        return "no checkpoint"
    if (run / "imitation.json").exists():
        return "imitated"
    return "finished" if max(saved) >= config.num_updates else "resumable"


def _evaluation(run: Path, rows: list[dict[str, Any]]) -> str:
    """The newest evaluation of a checkpoint, or of the training if that is newer; empty without one."""
    try:
        records = json.loads(files.contents(run / "evaluation.json"))
        last = records[-1]
        means = [row["figures"]["return"]["mean"] for row in last["rows"]]
        wins = [each["mean_win_rate"] for each in last["overall"].values()]
        found = int(last["update"]), float(wins[0]) if wins else None, float(sum(means) / len(means))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        found = -1, None, 0.0
    for row in rows:
        if isinstance(rate := row.get("eval/mean_win_rate"), float) and row["update"] > found[0]:
            found = row["update"], rate, 0.0
    update, win, mean = found
    if update < 0:
        return ""
    return f"{f'win rate {win:.1%}' if win is not None else f'return {mean:.3g}'} after {update} updates"


def _last_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows in the last `TAIL` bytes of a metrics.jsonl; broken lines are left out."""
    try:
        with files.opened(path) as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
            if isinstance(row["steps"] + row["update"], int) and max(row["steps"], row["update"]) < 2**63:
                yield row
        except (ValueError, LookupError, TypeError):
            continue
