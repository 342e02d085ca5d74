"""The queue between actors and learner: passes rollout storages, policies and faults between threads.

An actor starts rollout r once the policy for r is published and one of the few storages is free. Results therefore do
not depend on timing, and actors wait for a slow learner instead of filling the memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl.training.sebulba.storage import Storage

LOG = logging.getLogger("jaxrl")
POLL = 0.1  # seconds between checks for conditions without a notification: signals, dead threads
FIRST = 10.0  # factor on the timeout for the first steps, which compile


class Closed(Exception):
    """The pipeline was closed: an actor ends."""


class Stopped(Exception):
    """The learner was asked to stop while waiting."""


class Fault(Exception):
    """An actor failed; `__cause__` is the reason."""


class Pipeline:
    """Synchronises the actor threads and the learner of one training."""

    def __init__(self, storages: Sequence[Storage], actors: int, first: int, timeout: float):
        """Starts nothing.

        Args:
          storages: one per rollout that may be in use at a time: being filled, waiting or being learnt from.
          actors: number of actors, each of which fills a part of every storage.
          first: number of the first rollout.
          timeout: seconds without progress after which an actor counts as failed.
        """
        self._storages, self._timeout = storages, timeout
        self._changed = threading.Condition()
        self._published: dict[int, Any] = {}  # by rollout
        self._complete = dict.fromkeys(range(actors), first)  # rollouts below this are filled, by actor
        self._released = first  # rollouts below this have been learnt from
        self._closed = False
        self._fault: BaseException | None = None
        self._alive: Callable[[], bool] = lambda: True
        now = time.monotonic()
        self._heard = dict.fromkeys(range(actors), now)  # time of the last report of each actor; inf while it waits
        self._stepped = dict.fromkeys(range(actors), False)
        self._waiting: dict[int, float] = {}  # actor -> since when
        self._waited = 0.0  # seconds that actors have waited, except for current waits
        self.waited_learner = 0.0  # seconds
        self.depths = 0  # sum over `take` of the rollouts that were ready

    # ---- actors -------------------------------------------------------------------------------------------------

    def begin(self, actor: int, rollout: int) -> tuple[Storage, Any]:
        """Waits for a free storage and for the policy of rollout number `rollout`. Raises Closed: the pipeline was
        closed."""
        start = time.monotonic()
        warned = False
        with self._changed:
            self._heard[actor], self._waiting[actor] = float("inf"), start
            while not self._closed:
                free = rollout < self._released + len(self._storages)
                if free and rollout in self._published:
                    break
                self._changed.wait(POLL if warned else self._timeout)
                if not warned and time.monotonic() - start >= self._timeout:
                    LOG.info("actor %d has waited %.0f s for the learner; nothing is lost", actor, self._timeout)
                    warned = True
            now = time.monotonic()
            self._waited += now - self._waiting.pop(actor)
            self._heard[actor] = now
            if self._closed:
                raise Closed
            return self._storages[rollout % len(self._storages)], self._published[rollout]

    def waits_for_engine(self, actor: int) -> None:
        """Reports that an actor waits for its engine; the engine pool has its own timeout."""
        self._heard[actor] = float("inf")

    def beat(self, actor: int, *, stepped: bool = True) -> None:
        """Reports that an actor continues; `stepped`: it has stepped a block of games, so its programs are compiled."""
        self._heard[actor] = time.monotonic()
        self._stepped[actor] |= stepped

    def deliver(self, actor: int, rollout: int) -> None:
        """Reports that an actor has filled its part of a rollout."""
        with self._changed:
            self._complete[actor] = rollout + 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Reports that an actor failed; only the first error counts."""
        with self._changed:
            self._fault = self._fault or error
            self._changed.notify_all()

    @property
    def waited_actors(self) -> float:
        """Seconds that actors have waited for storage and policy, summed over actors."""
        with self._changed:
            return self._waited + sum(time.monotonic() - since for since in self._waiting.values())

    @property
    def closed(self) -> bool:
        """Whether the pipeline is closed, so that actors must end."""
        return self._closed

    # ---- learner ------------------------------------------------------------------------------------------------

    def watch(self, alive: Callable[[], bool]) -> None:
        """Sets the function that returns whether all actor threads are alive."""
        self._alive = alive

    def publish(self, rollout: int, acting: Any) -> None:
        """Publishes the policy for rollout `rollout`. Idempotent: later calls are ignored."""
        with self._changed:
            self._published.setdefault(rollout, acting)
            self._changed.notify_all()

    def take(self, rollout: int, stopped: Callable[[], bool]) -> Storage:
        """Waits for a rollout that all actors have filled.

        Raises:
          Stopped: `stopped` became true first.
          Fault: an actor failed, died or is silent.
        """
        start = time.monotonic()
        with self._changed:
            self.depths += max(0, min(self._complete.values()) - rollout)
            while min(self._complete.values()) <= rollout:
                if stopped():
                    raise Stopped
                self._check()
                self._changed.wait(POLL)
        self.waited_learner += time.monotonic() - start
        return self._storages[rollout % len(self._storages)]

    def release(self, rollout: int) -> None:
        """Frees the storage of a rollout that has been learnt from."""
        with self._changed:
            self._storages[rollout % len(self._storages)].renew()
            self._published.pop(rollout, None)
            self._released = rollout + 1
            self._changed.notify_all()

    def close(self) -> None:
        """Lets all actors end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _check(self) -> None:
        """Raises Fault if an actor failed, died or timed out."""
        if self._fault is not None:
            raise Fault from self._fault
        if not self._alive():
            raise Fault from RuntimeError("an actor thread is gone without a word")
        for actor, heard in self._heard.items():
            silence = time.monotonic() - heard
            if silence > (self._timeout if self._stepped[actor] else FIRST * self._timeout):
                raise Fault from RuntimeError(f"actor {actor} has been silent for {silence:.0f} s")
