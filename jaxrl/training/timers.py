"""Where the time of playing and learning goes: named counters, in ms for every 1,000 environment steps.

    timers = Timers(config.sebulba.profile)
    with timers.action:                      # in any thread
        actions = choose(observation)
    timers.add_ns("env_step", pool_nanoseconds)   # a time measured elsewhere
    metrics |= timers.report(steps)          # time/ms_per_1000_steps/action, ...

Every thread adds to numbers of its own, so that nothing is locked while games are played. What is measured:

    action         choosing the learner's actions: observations to the device, the network, actions back
    opponent_turn  moves of scripted players inside the engine
    env_step       rules of the game, observations and masks inside the engine
    replay_sample  drawing the transitions to learn from
    forward        the network and the loss of an update, told apart from backward by `forward_share`
    backward       the rest of the update: gradients and optimizer; callers count whole updates here
    log            writing metrics to their files; in the report after it

Counters of several threads are summed: together they may exceed the wall clock. A counter inside another one counts in
both. A disabled `Timers` hands out one shared object that does nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Algorithm
from jaxrl_envs.contract.env import Env

NAMES = ("action", "opponent_turn", "env_step", "replay_sample", "forward", "backward", "log")
PREFIX = "time/ms_per_1000_steps/"
MOST = 4096  # decisions in the pass that `forward_share` measures, at most
REPEATS = 15


class _Null:
    """A `with` block that is not measured."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _Cell(threading.local):
    """One thread's numbers: totals in ns by name, and the starts of the blocks that it is in."""

    def __init__(self, everyone: list[list[int]]):
        self.totals = [0] * len(NAMES)
        self.starts: list[int] = []
        everyone.append(self.totals)  # an atomic operation; the totals outlive their thread


class _Span:
    """A `with` block whose time is added to one counter of the running thread."""

    __slots__ = ("_cell", "_index")

    def __init__(self, cell: _Cell, index: int):
        self._cell = cell
        self._index = index

    def __enter__(self) -> None:
        self._cell.starts.append(time.perf_counter_ns())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.perf_counter_ns()
        self._cell.totals[self._index] += now - self._cell.starts.pop()


NULL = _Null()
Span = _Null | _Span


class Timers:
    """The counters of one run; see the module. `enabled` is False where nothing is measured."""

    action: Span
    opponent_turn: Span
    env_step: Span
    replay_sample: Span
    forward: Span
    backward: Span
    log: Span

    def __init__(self, enabled: bool, forward_share: Callable[[], float] | None = None):
        """Counters at 0, or, not `enabled`, ones that stay out of the way. `forward_share`: the share of `backward`
        that reports tell as `forward`; called once, at the first report."""
        self.enabled = enabled
        self._forward_share = forward_share
        self._share = 0.0
        self._everyone: list[list[int]] = []
        self._cell = _Cell(self._everyone) if enabled else None
        self._reported = [0] * len(NAMES)
        for index, name in enumerate(NAMES):
            setattr(self, name, NULL if self._cell is None else _Span(self._cell, index))

    def add_ns(self, name: str, nanoseconds: int) -> None:
        """Adds a time that was measured elsewhere, such as by the engine's threads. Raises ValueError: `name` is not
        one of `NAMES`."""
        if self._cell is not None:
            self._cell.totals[NAMES.index(name)] += int(nanoseconds)

    def report(self, steps: int) -> dict[str, float]:
        """Returns the times added since the last report; empty if disabled or after 0 steps.

        Returns:
          ``time/ms_per_1000_steps/<name>`` -> milliseconds, of every counter that has ever been used.
        """
        if self._cell is None or steps <= 0:
            return {}
        totals = [sum(thread[index] for thread in list(self._everyone)) for index in range(len(NAMES))]
        forward, backward = NAMES.index("forward"), NAMES.index("backward")
        measure = self._forward_share
        if measure is not None and totals[backward]:
            self._forward_share, self._share = None, measure()
        moved = int(self._share * totals[backward])
        totals[forward] += moved
        totals[backward] -= moved
        before, self._reported = self._reported, totals
        return {
            PREFIX + name: (total - earlier) / 1e3 / steps  # ns / 1e6 -> ms, * 1,000 steps
            for name, total, earlier in zip(NAMES, totals, before, strict=True)
            if total
        }


def forward_share(algorithm: Algorithm, env: Env, count: int) -> float:
    """Estimates the share of an update's time taken by its forward passes, between 0 and 1. `algorithm`: algorithm
    whose network learns, with `Algorithm.forwards`."""
    network, forwards, count = algorithm.network, algorithm.forwards, min(count, MOST)
    memory = network.memory(())
    params = network.init(jax.random.key(0))
    observation = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), env.observation_spec)
    mask = jnp.ones((count, env.num_actions), bool)

    def loss(params: Any, observation: Any, mask: jax.Array) -> jax.Array:
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))
        _, logits, value = evaluate(params, memory, observation, mask)
        return jnp.sum(jnp.square(logits)) + jnp.sum(
            jnp.square(value)
        )  # squares: a sum could be taken before the product

    arguments = (params, observation, mask)
    forward, both = _seconds([jax.jit(loss), jax.jit(jax.value_and_grad(loss))], arguments)
    backward = max(both - forward, forward / 2)  # gradients of the weights alone take as many operations as a pass
    return forwards * forward / (forwards * forward + backward)


def _seconds(programs: Sequence[Callable[..., Any]], arguments: tuple[Any, ...]) -> list[float]:
    """Returns the minimum time of several interleaved calls of each program, in seconds, to reduce noise from other
    processes."""
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(1 + REPEATS):
        for program, record in zip(programs, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            record.append(time.perf_counter() - start)
    return [max(min(record[1:]), 1e-9) for record in times]  # the first call compiles
