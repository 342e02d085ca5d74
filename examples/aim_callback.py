"""Metrics of a training in Aim (https://aimstack.io): pip install aim; then `aim up` shows them.

jaxrl train --config skull_king_cpu callbacks=[examples.aim_callback:AimCallback]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxrl.training.callbacks import Callback, RunFacts


class AimCallback(Callback):
    """One Aim run for each of ours, however often it is resumed, in the repository of the working directory."""

    def on_start(self, run: RunFacts) -> None:
        """Begins the Aim run, or goes on with the one whose hash lies in the run's directory."""
        import aim  # here, because only trainings that use it need it

        note = run.directory / "aim_hash.txt"
        self.run: Any = aim.Run(run_hash=note.read_text() if note.exists() else None, experiment=run.name)
        self.run["config"] = dict(run.config)
        note.write_text(self.run.hash)

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tracks a line, tag by tag."""
        for tag, number in metrics.items():
            self.run.track(number, name=tag, step=step)

    def on_end(self, finished: bool) -> None:
        """Closes the Aim run."""
        self.run.close()
