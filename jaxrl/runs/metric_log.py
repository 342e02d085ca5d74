"""Metrics that a run writes: `metrics.jsonl`, TensorBoard events and the progress line.

Tags are those of Stable-Baselines3 (`rollout/ep_rew_mean`, `train/approx_kl`, `time/fps`, ...), so that existing
dashboards work. Rows carry the update and the environment steps they belong to; a resumed run cuts off the rows beyond
the update it resumes from, so that every update appears once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from jaxrl.runs import distributed
from jaxrl.runs.logs.console import ProgressLine
from jaxrl.runs.metrics import Metric, join
from jaxrl.runs.stopwatch import compile_seconds
from jaxrl.text_tables import count, duration
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

LINE = 1 << 24  # bytes of a row


def rate(amount: float, seconds: float) -> float:
    """Returns `amount` per second; 0 where the clock has not moved."""
    return amount / seconds if seconds > 0 else 0.0


def flatten_seeds(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Makes host scalars of metrics of shape [] or [S]: the mean over seeds, and `seed_<i>/<tag>` beside it.

    A seed without a value (NaN, such as a mean over no finished games) does not count in the mean.
    """
    row: dict[str, float] = {}
    for tag, value in metrics.items():
        values = np.asarray(value, np.float64)
        if values.ndim == 0:
            row[tag] = float(values)
            continue
        present = values[~np.isnan(values)]
        row[tag] = float(present.mean()) if present.size else math.nan
        row.update({f"seed_{i}/{tag}": float(v) for i, v in enumerate(values)})
    return row


def flatten_each(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Flattens metrics that were taken seed by seed, as `flatten_seeds`."""
    [first, *others] = each
    return flatten_seeds({tag: np.array([one[tag] for one in each]) for tag in first} if others else first)


class Window:
    """The metrics of the calls since the last line in the logs; a line speaks of all of them."""

    def __init__(self, metrics: Mapping[str, Any] | None = None, seconds: float = 0.0, updates: int = 0):
        """Makes an empty window, or one from the `record` of a checkpoint."""
        self.metrics = {
            tag: Metric(np.asarray(amount), np.asarray(weight), kind)
            for tag, (amount, weight, kind) in (metrics or {}).items()
        }
        self.seconds, self.updates = seconds, updates

    def add(self, metrics: Mapping[str, Metric], seconds: float, updates: int) -> None:
        """Adds the metrics of one call, [] or [S] each on the host, how long it took and how many updates it made."""
        # In double precision: a window may be long.
        exact = {tag: jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), each) for tag, each in metrics.items()}
        self.metrics = join(self.metrics, exact)
        self.seconds += seconds
        self.updates += updates

    def record(self) -> dict[str, Any]:
        """Returns a record for a checkpoint between two lines: `Window(**record)` goes on where this one stood."""
        metrics = {
            tag: (np.asarray(each.amount).tolist(), np.asarray(each.weight).tolist(), each.kind)
            for tag, each in self.metrics.items()
        }
        return {"metrics": metrics, "seconds": self.seconds, "updates": self.updates}


class MetricsLogger:
    """Appends rows to `<directory>/metrics.jsonl` and `<directory>/tensorboard/`, or to what `run.logs` says of them.

    Both are written in the caller's thread and flushed per row: nothing is lost in a crash, and a full disk raises here
    instead of killing a writer thread in silence.
    """

    def __init__(
        self,
        directory: Path,
        *,
        resume: tuple[int, int] | None = None,
        pending: Collection[int] = (),
        logs: Collection[str] = ("all",),
    ):
        """Opens the files.

        Args:
          directory: directory of the run.
          resume: the (update, environment steps) to continue from; None for a new run.
          pending: updates whose evaluations are still to be logged.
          logs: `run.logs`.
        """
        path = Path(directory) / "metrics.jsonl"
        if resume is not None and path.exists():
            _truncate(path, resume[0], pending)
        self._rows = None if "none" in logs else path.open("a", encoding="utf-8")
        self._events = None
        if not any(name in logs for name in ("all", "tensorboard")):
            return
        board = Path(directory) / "tensorboard"
        board.mkdir(parents=True, exist_ok=True)
        # The process id keeps a quick restart within one second from overwriting the previous file.
        self._events = EventsWriter(str(board / "events"), filename_suffix=f".{os.getpid()}")
        if resume is not None:
            self._write_event(Event(step=resume[1] + 1, session_log=SessionLog(status=SessionLog.START)))

    def write(self, update: int, steps: int, metrics: Mapping[str, float]) -> None:
        """Writes one row: `metrics` (tag -> number) after `update` updates and `steps` environment steps."""
        row: dict[str, Any] = {"update": update, "steps": steps}
        for tag, value in metrics.items():
            number = float(value)
            row[tag] = number if math.isfinite(number) else None  # JSON has no NaN
            if self._events is not None and math.isfinite(number):
                self._write_event(Event(step=steps, summary=scalar(tag, number)))
        if self._rows is not None:
            self._rows.write(json.dumps(row) + "\n")
            self._rows.flush()
        if self._events is not None:
            self._events.flush()

    def close(self) -> None:
        """Flushes and closes the files."""
        for file in (self._rows, self._events):
            if file is not None:
                file.close()

    def _write_event(self, event: Event) -> None:
        assert self._events is not None
        event.wall_time = time.time()
        self._events.write_event(event)


def make_logger(
    directory: Path, update: int, steps: int, pending: Collection[int] = (), logs: Collection[str] = ("all",)
) -> MetricsLogger | None:
    """Returns the logger of a run, which goes on with what is there; None in all processes but the first."""
    if not distributed.is_rank0():
        return None
    resume = (update, steps) if (directory / "metrics.jsonl").exists() else None
    return MetricsLogger(directory, resume=resume, pending=pending, logs=logs)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a metrics.jsonl up to a line that is no row, such as a last one cut short by a crash.

    Raises:
      OSError: it cannot be read.
      UserError: it has more than `files.MOST` rows.
    """
    rows: list[dict[str, Any]] = []
    with files.opened(path) as file, contextlib.suppress(ValueError, RecursionError):
        while isinstance(row := files.json_value(file.readline(LINE)), dict):
            rows.append(row)
            if len(rows) > files.MOST:
                raise UserError(f"{path} has more than {files.MOST:,} rows: move it out of the way.")
    return rows


def _truncate(path: Path, update: int, pending: Collection[int]) -> None:
    """Drops the rows after `update`, and evaluations that are `pending`; a crash loses nothing."""

    def again(row: Mapping[str, Any]) -> bool:
        return row["update"] in pending and any(tag.startswith("eval/") for tag in row)

    kept = [row for row in read_rows(path) if row["update"] <= update and not again(row)]
    files.write(path, "".join(json.dumps(row) + "\n" for row in kept).encode())


class Progress:
    """One line about a training."""

    def __init__(
        self,
        total_steps: int,  # environment steps over all seeds, as `done_steps`
        *,
        done_steps: int = 0,
        headline: Mapping[str, str] | None = None,  # metrics that tell whether it learns, label -> tag
        line: ProgressLine | None = None,  # shows it; one on standard error if None
    ):
        """Shows nothing yet."""
        self._total, self._first, self._headline = total_steps, done_steps, dict(headline or {})
        self._told: dict[str, float] = {}
        self._line = line or ProgressLine(kept=True)
        self._compiled = compile_seconds()
        self.close = self._line.close

    def begin(self) -> None:
        """Starts the clock; what is compiled from here on does not count as time of the training."""
        self._line.begin()
        self._compiled = compile_seconds()

    def tell(self, metrics: Mapping[str, float]) -> None:
        """Takes metrics that are seldom measured, such as those of evaluations: they are shown until the next ones."""
        self._told = dict(metrics)

    def show(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Shows `metrics` at `steps` environment steps, if it is time to."""
        self._line.show(lambda seconds: self.text(steps, metrics, seconds), last=steps >= self._total)

    def text(self, steps: int, metrics: Mapping[str, float], elapsed: float) -> str:
        """Returns the text of the progress line."""
        share = min(steps / self._total, 1.0) if self._total > 0 else 1.0
        speed = rate(steps - self._first, elapsed - (compile_seconds() - self._compiled))
        left, shown = max(self._total - steps, 0), self._told | dict(metrics)
        parts = [
            f"[{'#' * int(10 * share):<10}] {100 * share:5.1f} %",
            f"{human(steps)}/{human(self._total)} steps",
            f"{human(metrics.get('time/fps', speed))} steps/s",
            f"{human(metrics.get('time/games_per_s', math.nan))} games/s",
            *(f"GPU {100 * share:.0f} %" for share in [metrics.get("time/gpu_utilisation")] if share is not None),
            *(f"{label} {human(shown.get(tag))}" for label, tag in self._headline.items()),
            f"ETA {duration(left / speed) if speed > 0 else '-'}",
        ]
        return " | ".join(parts)


def human(number: float | None) -> str:
    """Formats 12345 as "12.3k"."""
    return count(number).replace(" ", "") if number is not None and math.isfinite(number) else "-"
