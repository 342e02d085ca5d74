"""What a training tells: lines in the logs, the progress line, callbacks, and metrics for other programs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from jaxrl.runs import metric_log
from jaxrl.runs.logs.run_log import LOG, say
from jaxrl.runs.metrics import Metrics
from jaxrl.runs.prometheus import Exporter
from jaxrl.training.callbacks import Callbacks
from jaxrl.training.health import row_of
from jaxrl.training.strength.milestones import EvaluationPoint
from jaxrl.training.timers import Timers

LEAST_WAY = 0.1  # sum over updates of the root of the KL divergence; where something is learnt, three updates go so far
SHARE = 0.25  # of the run, after which `StallDetector` warns
LEAST_UPDATES = 20  # before it may warn


class Reports:
    """The listeners of one training; the record in its checkpoints is `window`, what no line of the logs tells yet."""

    def __init__(
        self,
        logger: metric_log.MetricsLogger | None,
        progress: metric_log.Progress,
        callbacks: Callbacks,
        *,
        seeds: int,
        exporter: Exporter | None = None,
        stall_detector: StallDetector | None = None,
        window: metric_log.Window | None = None,
    ):
        """Tells nothing yet. `logger`: logger of this process; None in all but the first. `window`: window from the
        checkpoint of a training that goes on."""
        self.logger, self.progress, self.callbacks, self.exporter = logger, progress, callbacks, exporter
        self.window = metric_log.Window() if window is None else window
        self._seeds, self._stall_detector = seeds, stall_detector
        self._logged = 0, time.monotonic()  # at the newest line in the logs: steps and time

    def begin(self, steps: int) -> None:
        """The training begins now, after `steps` environment steps of each seed."""
        self.progress.begin()
        self._logged = steps, time.monotonic()

    def log(self, row: dict[str, float], when: EvaluationPoint, timers: Timers) -> None:
        """Writes a line, of now or of an earlier moment."""
        if self.logger is None:
            return
        with timers.log:
            self.logger.write(when.update, when.steps, row)
            self.callbacks.metrics(when.steps, row)

    def row(self, found: Metrics, when: EvaluationPoint, steps: int, seconds: float, updates: int) -> dict[str, float]:
        """Returns the metrics of `updates` updates of `steps` environment steps each, up to some moment, as a row."""
        return row_of(found, steps * updates * self._seeds, seconds) | {
            "train/updates": updates,
            "time/iterations": when.update,
            "time/total_timesteps": when.steps,
            "time/time_elapsed": when.seconds,
            "time/cpu_seconds": when.cpu_seconds,
        }

    def pace(self, steps: int) -> float:
        """Returns environment steps of all seeds per second of the clock since the last line in the logs."""
        (before, began), self._logged = self._logged, (steps, time.monotonic())
        return metric_log.rate((steps - before) * self._seeds, self._logged[1] - began)

    def called(self, row: dict[str, float], when: EvaluationPoint, games: int, seconds: float) -> None:
        """Tells of a call of the program: `row` is what it has found, `games` how many are finished in all."""
        LOG.debug("update %d: %.3f s in the call", when.update, seconds)
        self.progress.show(when.steps * self._seeds, row)
        if self._stall_detector is not None and (still := self._stall_detector(when.update, row)):
            say(f"update {when.update}: {still}")
        if self.exporter is not None:
            self.exporter.update(steps=when.steps, updates=when.update, games=games, row=row)


class StallDetector:
    """Notices from the rows of a run that the policy does not move, which a return of 0 in self-play would not tell."""

    def __init__(self, updates: int):
        """Nothing is known yet; `updates` are those of the whole run."""
        self._due = max(LEAST_UPDATES, SHARE * updates)
        self._way = 0.0
        self._done = False

    def __call__(self, update: int, row: Mapping[str, float]) -> str:
        """Returns the warning due after `update` updates, whose last ones `row` is of; empty: none, or it was given.

        Algorithms without the metrics of a policy are not watched.
        """
        divergence = row.get("train/approx_kl")
        if self._done or divergence is None:
            return ""
        self._way += row["train/updates"] * math.sqrt(max(divergence, 0.0))
        self._done = self._way > LEAST_WAY or update >= self._due
        if not self._done or self._way > LEAST_WAY:
            return ""
        clipped, entropy = row["train/clip_fraction"], -row["train/entropy_loss"]
        return (
            f"the policy has hardly moved in {update} updates (KL {divergence:.1g}, clip fraction {clipped:.1g}, "
            f"entropy {entropy:.3g}): raise the learning rate, make more updates of smaller rollouts (train.num_envs, "
            "train.num_steps), or look whether the rewards of the game ever differ"
        )
