"""The actor threads of a running training, which start from one state and end together."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.runs.metrics import Metrics, measured
from jaxrl.training.sebulba.actor import ActorThread
from jaxrl.training.sebulba.pipeline import Pipeline
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl.training.sebulba.setup import HostSetup
from jaxrl.training.sebulba.storage import Storage
from jaxrl.training.state import Acting, TrainState

LOG = logging.getLogger("jaxrl")
PATIENCE = 10.0  # seconds that a stop waits for an actor; engines that hang take longer and are left behind


class Session:
    """Actors that continue from one state.

    Attributes:
      lanes: lanes of the latest state; the session is reused only for this state.
      pipeline: pipeline between actors and learner.
    """

    def __init__(self, setup: HostSetup, storages: Sequence[Storage], state: TrainState):
        """Starts all threads.

        Args:
          setup: setup of the training.
          storages: buffers of its rollouts; no other session uses them.
          state: state to play on from.
        """
        config, first = setup.config.sebulba, int(state.update)
        self.lanes = state.lanes
        for storage in storages:
            storage.renew()
        self.pipeline = Pipeline(storages, setup.own_actors, first, config.timeout)
        self._setup, self._timers = setup, setup.timers
        self._threads: list[ActorThread] = []
        try:
            for number in range(setup.own_actors):
                self._threads.append(ActorThread(setup, number, self.pipeline, state.lanes, first))
        except BaseException:
            self.close()
            raise
        self.pipeline.watch(lambda: all(thread.is_alive() for thread in self._threads))
        for i, acting in enumerate(state.acting):
            self.publish(first + i, acting, state.key)
        for thread in self._threads:
            thread.start()
        LOG.debug("%d actors play on from update %d", setup.own_actors, first)

    def publish(self, rollout: int, acting: Acting, key: jax.Array) -> None:
        """Publishes the policy and the key for rollout `rollout` on every device, see `Pipeline.publish`."""
        self.pipeline.publish(rollout, self._setup.copies((acting, key)))

    def metrics(self) -> Callable[[int], Metrics]:
        """Starts measuring. Returns a function from the number of updates since then to their metrics."""
        start, before = time.monotonic(), self._work()
        pipeline = self.pipeline
        waits = np.array([pipeline.waited_actors, pipeline.waited_learner, pipeline.depths])

        def metrics(updates: int) -> Metrics:
            seconds = max(time.monotonic() - start, 1e-9)
            busy, parts = (now - then for now, then in zip(self._work(), before, strict=True))
            for name, nanoseconds in zip(("env_step", "opponent_turn"), parts, strict=True):
                self._timers.add_ns(name, int(nanoseconds))
            waited = np.array([pipeline.waited_actors, pipeline.waited_learner, pipeline.depths]) - waits
            threads = sum(len(thread.pool.threads) for thread in self._threads)
            return {
                "time/engine_busy": measured(busy / 1e9 / threads / seconds, seconds),
                "time/actor_wait": measured(waited[0] / len(self._threads) / seconds, seconds),
                "time/learner_wait": measured(waited[1] / seconds, seconds),
                "time/queue_depth": measured(waited[2] / updates, updates),
            }

        return metrics

    def workers(self) -> list[dict[str, Any]]:
        """Returns what the workers of a fleet have done, see `Program.counters`; actor and number give a name."""
        return [
            {"name": f"{thread.number}.{number}", **worker}
            for thread in self._threads
            if isinstance(thread.pool, WorkerPool)
            for number, worker in enumerate(thread.pool.told())
        ]

    def _work(self) -> tuple[Any, np.ndarray]:
        """ns that the engine threads have worked, and of it for (rules and observations, scripted players)."""
        busy, parts = 0, np.zeros(2, np.int64)
        for thread in self._threads:
            busy += int(thread.pool.busy_ns.sum())
            counters = thread.pool.counters
            parts += [counters["step"][0] + counters["observe"][0], counters["bots"][0]]
        return busy, parts

    def close(self) -> None:
        """Ends all threads; a thread whose engine hangs is abandoned with a warning."""
        self.pipeline.close()
        for thread in self._threads:
            if isinstance(thread.pool, WorkerPool):
                thread.pool.close()  # an actor may wait for a worker that is being replaced
        end = time.monotonic() + PATIENCE
        for thread in self._threads:
            if thread.ident is None:  # never started
                thread.pool.close()
                continue
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                warnings.warn(f"{thread.name} does not end: its engine hangs", RuntimeWarning, stacklevel=2)
