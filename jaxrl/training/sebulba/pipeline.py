"""Between actors and learner: storage that goes round, parameters that are handed over, and faults that stop both.

Rollout r is begun as soon as its parameters are published and one of the few storages is free, whichever comes last:
results do not depend on who is faster, and actors wait for a slow learner instead of filling the memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl.training.sebulba.storage import Storage

LOG = logging.getLogger("jaxrl")
POLL = 0.1  # seconds between looks at what no notification tells of: signals, threads that are gone
FIRST = 10.0  # the first steps compile: an actor may be silent so many times longer


class Closed(Exception):
    """The pipeline was closed: an actor ends."""


class Stopped(Exception):
    """The learner was asked to stop while it waited."""


class Fault(Exception):
    """Playing failed; `__cause__` is what happened."""


class Pipeline:
    """The rendezvous of all threads of one training."""

    def __init__(self, storages: Sequence[Storage], actors: int, first: int, timeout: float):
        """Starts nothing.

        Args:
          storages: as many rollouts as may be played, wait or be learnt from at a time.
          actors: that each fill a part of every storage.
          first: number of the first rollout.
          timeout: seconds after which a silent actor is a fault.
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
        self._heard = dict.fromkeys(range(actors), now)  # when an actor was last heard of; inf while it waits
        self._stepped = dict.fromkeys(range(actors), False)
        self._waiting: dict[int, float] = {}  # actor -> since when
        self._waited = 0.0  # seconds that actors have waited, but for those who still do
        self.waited_learner = 0.0  # seconds
        self.depths = 0  # sum over `take` of the rollouts that were there

    # ---- actors -------------------------------------------------------------------------------------------------

    def begin(self, actor: int, rollout: int) -> tuple[Storage, Any]:
        """Waits for a free storage and for what rollout number `rollout` is to be played with.

        Raises:
          Closed: there will be none.
        """
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
        """An actor waits for its engine, which the engine's pool watches by itself."""
        self._heard[actor] = float("inf")

    def beat(self, actor: int, *, stepped: bool = True) -> None:
        """An actor goes on after its engine; `stepped`: with a block of games, so all that it needs is compiled."""
        self._heard[actor] = time.monotonic()
        self._stepped[actor] |= stepped

    def deliver(self, actor: int, rollout: int) -> None:
        """An actor has filled its part of a rollout."""
        with self._changed:
            self._complete[actor] = rollout + 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """An actor cannot go on; the first error counts."""
        with self._changed:
            self._fault = self._fault or error
            self._changed.notify_all()

    @property
    def waited_actors(self) -> float:
        """Seconds that actors have waited for storage and parameters, the sum over all of them."""
        with self._changed:
            return self._waited + sum(time.monotonic() - since for since in self._waiting.values())

    @property
    def closed(self) -> bool:
        """Whether actors are to end."""
        return self._closed

    # ---- learner ------------------------------------------------------------------------------------------------

    def watch(self, alive: Callable[[], bool]) -> None:
        """`alive` tells whether all actor threads run."""
        self._alive = alive

    def publish(self, rollout: int, acting: Any) -> None:
        """What rollout number `rollout` is to be played with; a second time is the first."""
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
        """A rollout has been learnt from: its storage goes round."""
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
        """Raises Fault if nothing more is to be expected of an actor."""
        if self._fault is not None:
            raise Fault from self._fault
        if not self._alive():
            raise Fault from RuntimeError("an actor thread is gone without a word")
        for actor, heard in self._heard.items():
            silence = time.monotonic() - heard
            if silence > (self._timeout if self._stepped[actor] else FIRST * self._timeout):
                raise Fault from RuntimeError(f"actor {actor} has been silent for {silence:.0f} s")
