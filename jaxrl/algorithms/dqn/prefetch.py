"""A thread that owns the replay buffer and prefetches batches for the learner (double buffering).

All operations on the buffer run in this thread in the order of the requests, so that reads and writes never overlap and
results do not depend on timing. In update r the order is

    push of rollout r, draw 0, draw 1, priorities of batch 0, draw 2, priorities of batch 1, draw 3, ...

Batch k + 1 is sampled after the priorities of batch k - 1 are written, while the device learns from batch k. Two batch
buffers suffice: the priorities of batch k imply that the device has finished with it before its buffer is filled with
batch k + 2.
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

AHEAD = 2  # batches requested before the first optimizer step


class Prefetcher:
    """The prefetching thread, which runs within a `with` block."""

    def __init__(self, replay: HostReplay, timers: Any):
        """Starts nothing. `replay`: used only by the thread within the block; `timers`: `replay_sample` counts
        sampling, `backward` the wait for the device."""
        self.replay, self._timers = replay, timers
        self._rooms = [replay.room() for _ in range(AHEAD)]
        self._thread: ThreadPoolExecutor

    def __enter__(self) -> Prefetcher:
        """Starts the thread."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replay")
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the thread after all requests are done."""
        self._thread.shutdown()

    def push(self, steps: Transition) -> bool:
        """Adds a rollout. Returns whether learning can start."""
        return self._thread.submit(self._push, steps).result()

    def _push(self, steps: Transition) -> bool:
        self.replay.push(steps)
        return self.replay.ready

    def learn(self, first: int, count: int, learn: Callable[[int, Transitions], Any]) -> None:
        """Learns from `count` batches, at least one; raises what sampling or `learn` raises. `first`: number of the
        first batch, counted over the whole training; `learn`: (k, batch k of this update) -> the new priorities f32[n],
        possibly still being computed."""
        drawn = [self._thread.submit(self._draw, first + k, self._rooms[k % AHEAD]) for k in range(min(AHEAD, count))]
        updates: list[Future[Any]] = []
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
        """Samples a batch. Returns it and the time taken in ns."""
        start = time.perf_counter_ns()
        self.replay.sample(number, room)
        return room, time.perf_counter_ns() - start

    def _update(self, room: Drawn, priority: Any) -> tuple[int, int]:
        """Writes new priorities. Returns times in ns: of waiting for them and of writing."""
        start = time.perf_counter_ns()
        found = np.asarray(priority)
        there = time.perf_counter_ns()
        self.replay.reprioritise(room.records, found)
        return there - start, time.perf_counter_ns() - there
