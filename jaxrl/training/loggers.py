"""Loggers of other libraries, by name in `run.logs`: Weights & Biases and Trackio, which has the same functions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from jaxrl.training.callbacks import Callback, RunFacts
from jaxrl_envs.shared.errors import UserError

LIBRARIES = ("wandb", "trackio")  # that `run.logs` names


class LibraryLogger(Callback):
    """One run of the library for each of ours, however often it is resumed; WANDB_PROJECT is its project, or jaxrl."""

    def __init__(self, name: str):
        """Imports the library. Raises UserError: it is not installed."""
        self._name = name
        try:
            self._library: Any = importlib.import_module(name)
        except ImportError as error:
            raise UserError(f"run.logs: {name} is not installed: pip install 'jaxrl[{name}]'.") from error

    def on_start(self, run: RunFacts) -> None:
        """Begins the library's run, or goes on with W&B's by the id in the run's directory, Trackio's by its name."""
        more: dict[str, Any] = {}
        note = run.directory / "wandb_id.txt"
        if self._name == "wandb":
            more = {"id": note.read_text() if note.exists() else None, "dir": str(run.directory)}
        project = os.environ.get("WANDB_PROJECT", "jaxrl")
        begun = self._library.init(project=project, name=run.name, config=dict(run.config), resume="allow", **more)
        if self._name == "wandb":
            note.write_text(begun.id)

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """A line. What a resumed run plays again W&B has already, and it is the same: it takes no earlier steps."""
        self._library.log(dict(metrics), step=step)

    def on_end(self, finished: bool) -> None:
        self._library.finish()
