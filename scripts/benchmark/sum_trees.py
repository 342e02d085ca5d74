"""The sum-tree of prioritised replay against the usual one in Python, in the same process and in turn.

Three jobs, as a learner has them: new transitions come in (one for each game side by side), a batch is drawn, and its
priorities are changed. A unit is one transition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrl.diagnose.timing import Contestant

JOBS = ("push", "sample", "update")


def contestants(*, capacity: int, batch: int, games: int) -> list[Contestant]:
    """Ours and the peer's way to do each of `JOBS`; the info of each tells "job" and "peer".

    Args:
      capacity: transitions in the memory, all of them with priorities.
      batch: transitions that are drawn, and whose priorities change, at once.
      games: transitions that come in at once.
    """
    generator = np.random.default_rng(0)
    first = generator.random(capacity, np.float32) + 0.01
    blocks = _ours(first, batch, games) | _theirs(first, batch, games)
    units = {"push": games, "sample": batch, "update": batch}
    return [
        Contestant(
            f"{job}, {'Python sum-tree' if peer else 'jaxrl'}",
            float(units[job]),
            blocks[job, peer],
            {"job": job, "peer": peer, "batch": units[job], "capacity": capacity},
        )
        for job in JOBS
        for peer in (False, True)
    ]


def _changing(capacity: int, batch: int) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """Numbers i32[batch] and priorities f32[batch], other ones at every call: equal ones would change nothing."""
    generator = np.random.default_rng(1)
    numbers = generator.integers(0, capacity, (64, batch), np.int32)
    priorities = generator.random((64, batch), np.float32) + 0.01
    calls = iter(range(2**62))

    def change() -> tuple[np.ndarray, np.ndarray]:
        call = next(calls) % 64
        return numbers[call], priorities[call]

    return change


def _ours(first: np.ndarray, batch: int, games: int) -> dict[tuple[str, bool], Callable[[], Any]]:
    from jaxrl.algorithms.dqn.sumtree import SumTree

    capacity = len(first)
    tree = SumTree(capacity)
    tree.load(first)
    numbers, priorities = np.zeros(batch, np.int32), np.zeros(batch, np.float32)
    change, incoming = _changing(capacity, batch), _changing(capacity, games)
    places = np.arange(capacity // games * games, dtype=np.int32).reshape(-1, games)
    draws, pushes = iter(range(2**62)), iter(range(2**62))

    def push() -> None:
        tree.set(places[next(pushes) % len(places)], incoming()[1])

    return {
        ("push", False): push,
        ("sample", False): lambda: tree.sample(1, next(draws), numbers, priorities),
        ("update", False): lambda: tree.set(*change()),
    }


def _theirs(first: np.ndarray, batch: int, games: int) -> dict[tuple[str, bool], Callable[[], Any]]:
    from scripts.benchmark.peers.python_sum_tree import PythonSumTree

    capacity = len(first)
    tree = PythonSumTree(capacity)
    for priority in first:
        tree.push(float(priority))
    change, incoming = _changing(capacity, batch), _changing(capacity, games)
    generator = np.random.default_rng(2)

    def push() -> None:
        for priority in incoming()[1]:
            tree.push(priority)

    def update() -> None:
        numbers, priorities = change()
        for number, priority in zip(numbers, priorities, strict=True):
            tree.update(number, priority)

    return {
        ("push", True): push,
        ("sample", True): lambda: tree.sample(generator.random(batch)),
        ("update", True): update,
    }
