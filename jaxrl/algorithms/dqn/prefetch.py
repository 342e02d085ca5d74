"""One thread that uses the replay buffer and draws batches ahead of the learner.

Everything that is done to the buffer is done by this thread, in the order in which it was asked for, so nothing is ever
read while it is written, and results do not depend on timing. In round r that order is

    push of rollout r, draw 0, draw 1, priorities of batch 0, draw 2, priorities of batch 1, draw 3, ...

Batch k + 1 is drawn after the push of its round and after the priorities of batch k - 1, not of batch k: it is drawn
while the device learns from batch k. Two rooms for batches suffice: the priorities of batch k tell that the device has
done with it before its room is filled with batch k + 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxrl.algorithms.base import Transition
from jaxrl.algorithms.dqn.host_replay import Drawn, HostReplay
from jaxrl.algorithms.dqn.loss import Transitions

AHEAD = 2  # batches that are asked for before the first is learnt from


class Prefetcher:
    """The thread, which runs within a `with` block."""

    def __init__(self, replay: HostReplay, timers: Any):
        """Starts nothing.

        Args:
          replay: used by the thread alone within the block.
          timers: `replay_sample` counts the draws, `backward` the wait for the device.
        """
        self.replay, self._timers = replay, timers
        self._rooms = [replay.room() for _ in range(AHEAD)]
        self._thread: ThreadPoolExecutor

    def __enter__(self) -> Prefetcher:
        """Starts the thread."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replay")
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the thread when it has done what it was asked for."""
        self._thread.shutdown()

    def push(self, steps: Transition) -> bool:
        """Adds a rollout; returns whether there is enough to learn from."""
        return self._thread.submit(self._push, steps).result()

    def _push(self, steps: Transition) -> bool:
        self.replay.push(steps)
        return self.replay.ready

    def learn(self, first: int, count: int, learn: Callable[[int, Transitions], Any]) -> None:
        """Learns from `count` batches.

        Args:
          first: number of the first one in the whole training.
          count: at least 1.
          learn: (k, batch k of the round) -> the new priorities f32[n], which need not be computed yet.

        Raises:
          Exception: of a draw or of `learn`.
        """
        drawn = [self._thread.submit(self._draw, first + k, self._rooms[k % AHEAD]) for k in range(min(AHEAD, count))]
        updates: list[Future] = []
        for k in range(count):
            room, nanoseconds = drawn[k].result()
            self._timers.add_ns("replay_sample", nanoseconds)
            priority = learn(k, room.batch)
            updates.append(self._thread.submit(self._update, room, priority))
            if k + AHEAD < count:
                drawn.append(self._thread.submit(self._draw, first + k + AHEAD, self._rooms[k % AHEAD]))
        for update in updates:
            waited, nanoseconds = update.result()
            self._timers.add_ns("backward", waited)
            self._timers.add_ns("replay_sample", nanoseconds)

    def _draw(self, number: int, room: Drawn) -> tuple[Drawn, int]:
        """The batch, and the time of the draw in ns."""
        start = time.perf_counter_ns()
        self.replay.sample(number, room)
        return room, time.perf_counter_ns() - start

    def _update(self, room: Drawn, priority: Any) -> tuple[int, int]:
        """Times in ns: of the wait for the priorities, and of writing them."""
        start = time.perf_counter_ns()
        found = np.asarray(priority)
        there = time.perf_counter_ns()
        self.replay.reprioritise(room.records, found)
        return there - start, time.perf_counter_ns() - there
