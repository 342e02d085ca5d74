"""`run.profile`: a trace of some updates of a training, by `jax.profiler`."""

from __future__ import annotations

from pathlib import Path

import jax

from jaxrl.runs.logs.run_log import say


class UpdateTrace:
    """Traces whole calls after the first one, which compiles, until they have made some updates.

    Args:
      folder: folder of the traces, in the form of TensorBoard; every process adds a file of its own.
      updates: least number of traced updates; 0: none.
    """

    def __init__(self, folder: Path, updates: int):
        self._folder, self._left = folder, updates
        self._compiled = self._on = False

    def before(self) -> None:
        """Begins the trace, if the next call is the first one to be traced."""
        if self._compiled and self._left > 0 and not self._on:
            jax.profiler.start_trace(str(self._folder))
            self._on = True

    def after(self, updates: int) -> None:
        """Counts the updates of a call, and ends the trace after the last one."""
        self._compiled = True
        if self._on:
            self._left -= updates
            if self._left <= 0:
                self.close()
                say(f"the trace of run.profile is in {self._folder}")

    def close(self) -> None:
        """Ends the trace, if it runs."""
        if self._on:
            self._on = False
            jax.profiler.stop_trace()
