"""The checkpoints of a training: the newest ones, from which it is resumed, and that of its best evaluation.

The best state stands in a store of its own. As a metric of one `CheckpointManager` it could not: an evaluation beside
the training finds out that a state was the best when later ones are saved already, and orbax saves no step that is
older than its newest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.checkpoint import Snapshot
from jaxrl.runs.directory import RunDirectory, write_json
from jaxrl.runs.folder import next_command
from jaxrl.training.config import TrainConfig
from jaxrl.training.health import due

AT_RISK = 300.0  # seconds of a run after which what is not saved is saved, whatever `train.checkpoint_every`


class Checkpoints:
    """Checkpoints of a training, and when they are due."""

    def __init__(self, run: RunDirectory, settings: TrainConfig):
        """Reads and writes nothing yet."""
        self._run = run
        self.store, self.best = run.checkpoints(settings.keep, settings.keep_every), run.best()
        self.saved_at = 0.0  # on the clock of the run, the newest checkpoint

    def due(self, before: int, update: int, every: int, clock: float) -> bool:
        """Returns whether to save after `update` updates; all processes say the same."""
        return due(before, update, every) or bool(distributed.maximum(clock - self.saved_at > AT_RISK))

    def save(self, snapshot: Snapshot, clock: float) -> None:
        """Starts writing a checkpoint; the one before is complete."""
        self.store.save(snapshot)
        self.saved_at = clock

    def save_best(self, snapshot: Snapshot, record: Mapping[str, Any]) -> None:
        """Keeps the state of the best evaluation so far, and the `record` of that."""
        self.best.save(snapshot)
        if distributed.is_rank0():
            write_json(self._run.best_file, record)

    def still_best(self, update: int, config_digest: str) -> bool:
        """Returns whether there is a best state of the past of a training that goes on after `update` updates."""

        def found() -> bool:
            self._run.undo_best(update, config_digest)
            return bool(self.best.steps())

        return distributed.broadcast(found)

    def holds(self, update: int) -> bool:
        """Returns whether the state after `update` updates is saved; none is being written."""
        return update in distributed.broadcast(self.store.steps)

    def check(self) -> None:
        """Raises what has gone wrong in writing."""
        self.store.check()
        self.best.check()

    def wait(self) -> None:
        """Waits until all is written."""
        self.store.wait()
        self.best.wait()

    def refuse_from(self, version: int) -> None:
        """Moves checkpoints that hold the policy after `version` updates, or a later one, out of the way."""
        self.store.wait()
        for step in self.store.steps():
            if step >= version:
                self.store.quarantine(step)

    def way_back(self) -> str:
        """Returns what to do where the present state is lost, in a sentence."""
        self.store.wait()
        steps = self.store.steps()
        if not steps:
            return "start again: nothing was saved yet."
        return f"go on from checkpoint {steps[-1]}, which is intact: {next_command('resume', self._run.path)}"
