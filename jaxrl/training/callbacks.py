"""Callbacks: code of one's own that is told how a training goes, such as a logger of another library.

    callbacks: [my_file:MyCallback]      # in a configuration, or callbacks=[my_file:MyCallback] on the command line
    jaxrl.train(config, callbacks=[mine])     # in a program, where it is an object

They are called on the host, between two calls of the compiled program, in the first process if there are several, and
change nothing of the training: the run is the same with them and without. One that sets `self.stop = True` ends it
there, as if its last update were done. One that raises stops the training, which is saved as if it had been
interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore
from jaxrl.runs.logs.run_log import LOG
from jaxrl.training.program import Failed
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError


class RunFacts(NamedTuple):
    """Facts about a run for callbacks."""

    name: str
    directory: Path
    config: Mapping[str, Any]  # the complete tree
    step: int  # environment steps so far: above 0 in a run that goes on
    update: int


class Callback:
    """Told how a training goes; a subclass overrides what it wants to hear. Who is named is made without arguments.

    Attributes:
      stop: set to True, the training ends as if its last update were done; `jaxrl resume` goes on all the same.
    """

    stop = False

    def on_start(self, run: RunFacts) -> None:
        """Called when the training begins, or goes on."""

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Called with a line of the logs, as in metrics.jsonl: tags with numbers, after `step` environment steps."""

    def on_checkpoint(self, update: int, directory: Path) -> None:
        """Called when the checkpoint after `update` updates is complete."""

    def on_end(self, finished: bool) -> None:
        """Called when the training has ended, saved, or was stopped before its end."""


class Callbacks:
    """The callbacks of one training. The first that raises is told nothing more, until `check` reports it."""

    def __init__(self, names: Sequence[str]):
        """Makes them.

        Raises:
          UserError: there is no such class, or it is no callback.
        """
        each = {name: user_code.find_class(name, Callback, "callback")() for name in dict.fromkeys(names)}
        self._each: dict[str, Callback] = each if distributed.is_rank0() else {}
        self._failure: UserError | None = None
        self._checkpoint = -1  # the newest that they were told of
        self._started = False

    def add(self, callbacks: Sequence[Callback]) -> None:
        """Tells these too; before `start`."""
        if distributed.is_rank0():
            self._each |= {f"{type(one).__name__} {number}": one for number, one in enumerate(callbacks, 1)}

    @property
    def failing(self) -> bool:
        """Whether one has raised, and `check` has not told it yet."""
        return self._failure is not None

    @property
    def over(self) -> str:
        """Reason to end the training: a callback has asked for it; empty otherwise."""
        return next((f"callback {name!r} has asked for it" for name, each in self._each.items() if each.stop), "")

    def start(self, run: RunFacts, store: CheckpointStore) -> None:
        """Tells that the run begins; checkpoints that exist already are not told.

        Raises:
          UserError: a callback has raised.
        """
        self._checkpoint = max(store.steps(), default=-1) if self._each else -1
        self._started = True
        self._tell("on_start", run)
        failure, self._failure = self._failure, None
        if failure is not None:  # nothing is lost yet
            raise failure

    def metrics(self, step: int, row: Mapping[str, float]) -> None:
        """Tells a line of the logs, unless the run has not begun: as a rule it was told before."""
        if self._started:
            self._tell("on_metrics", step, MappingProxyType(dict(row)))

    def checkpoints(self, store: CheckpointStore) -> None:
        """Tells of those that have been completed since the last time; while none is being written."""
        for update in store.steps() if self._each else []:
            if update > self._checkpoint:
                self._checkpoint = update
                self._tell("on_checkpoint", update, store.directory / str(update))

    def end(self, finished: bool) -> None:
        """Tells that the training is over, if it had begun; failures are only logged."""
        if not self._started:
            return
        self._tell("on_end", finished)
        if self._failure is not None:
            LOG.warning("%s", self._failure)

    def check(self) -> None:
        """Raises Failed if a callback has; where the training can be saved and resumed exactly."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise Failed from failure

    def _tell(self, hook: str, *what: Any) -> None:
        for name, callback in list(self._each.items()):
            try:
                getattr(callback, hook)(*what)
            except Exception as error:
                del self._each[name]
                told = user_code.fault(error) or f"{type(error).__name__}: {error}"
                LOG.debug("callback %s", name, exc_info=error)
                self._failure = self._failure or UserError(f"callback {name!r} failed in {hook}: {told}")
