"""Metrics of a training in Weights & Biases: pip install wandb; wandb login.

jaxrl train --config skull_king_cpu callbacks=[examples.wandb_callback:WandbCallback]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jaxrl.training.callbacks import Callback, RunFacts


class WandbCallback(Callback):
    """One W&B run for each of ours, however often it is resumed; the project is WANDB_PROJECT, or jaxrl."""

    def on_start(self, run: RunFacts) -> None:
        """Begins the W&B run, or goes on with the one whose id lies in the run's directory."""
        import wandb  # here, because only trainings that use it need it

        note = run.directory / "wandb_id.txt"
        id = note.read_text() if note.exists() else None
        self.run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "jaxrl"),
            id=id,
            resume="allow",
            name=run.name,
            config=dict(run.config),
            dir=str(run.directory),
        )
        note.write_text(self.run.id)

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """A line. What a resumed run plays again W&B has already, and it is the same: it takes no earlier steps."""
        self.run.log(dict(metrics), step=step)

    def on_end(self, finished: bool) -> None:
        """Sends what is left."""
        self.run.finish(exit_code=0 if finished else 1)
