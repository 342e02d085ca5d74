"""Figures of the games that ended on the host, in the form that all loops report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs.host.core import OUTSIDE
from jaxrl.league.seats import LEARNER, Seats
from jaxrl.training.rollout import RolloutSums
from jaxrl.training.sebulba.storage import Storage


class HostSums:
    """Sums over rollouts.

    Attributes:
      games: that ended.
      results: of the games of all rollouts, by opponent; None without a league.
    """

    def __init__(self, seats: Seats, numbers: np.ndarray, stat_names: Sequence[str]):
        """Sums over nothing.

        Args:
          seats: who holds the seats.
          numbers: i8[1 + M], what the engine calls each controller.
          stat_names: K of them.
        """
        self._seats, self._numbers, self._names = seats, numbers, tuple(stat_names)
        self.games, self.results = 0, seats.no_results()
        self._length, self._learners, self._returns = 0.0, 0.0, 0.0
        self._stats = np.zeros(len(self._names), np.float64)

    def add(self, storage: Storage, returns: np.ndarray) -> tuple[np.ndarray, int, Any]:
        """Adds a rollout.

        Args:
          storage: the rollout.
          returns: f32[B, P], of the running games before it.

        Returns:
          The returns afterwards, the games that ended, and their results by opponent (None without a league).
        """
        rows, before, whole = storage.buffers, self.games, []
        over = rows.terminated[1:] | rows.truncated[1:]  # bool[T, B]
        for t in range(storage.steps):
            returns, ended = returns + rows.rewards[t + 1], over[t]
            whole.append(returns)
            if ended.any():
                learner = ended[:, None] & (rows.controllers[t + 1] == OUTSIDE)  # bool[B, P]
                self.games += int(np.count_nonzero(ended))
                self._length += float(rows.length[t + 1][ended].sum())
                self._learners += float(np.count_nonzero(learner))
                self._returns += float(returns[learner].sum())
                self._stats += rows.stats[t + 1][learner].sum(axis=0)
                returns = np.where(ended[:, None], rows.opening[t + 1], returns)
        now = self._results(rows.controllers[1:], np.stack(whole), over)
        if now is not None:
            self.results = jax.tree.map(np.add, self.results, now)
        return returns, self.games - before, now

    def _results(self, held: np.ndarray, returns: np.ndarray, over: np.ndarray) -> Any:
        """Results of the games that ended, from [T, B, P] and [T, B]."""
        if self.results is None:
            return None
        controllers = np.full(held.shape, LEARNER, np.int8)
        for controller, number in enumerate(self._numbers):
            if number != OUTSIDE:
                controllers[held == number] = controller
        found = jax.vmap(jax.vmap(self._seats.results))(*map(jnp.asarray, (controllers, returns, over)))
        return jax.tree.map(lambda leaf: np.asarray(jnp.sum(leaf, axis=(0, 1))), found)

    def played(self) -> RolloutSums:
        """The sums on the device."""
        return RolloutSums(
            games=jnp.int32(self.games),
            illegal=jnp.int32(0),  # the bridge refuses illegal actions
            length=jnp.float32(self._length),
            seats=jnp.float32(self._learners),
            returns=jnp.float32(self._returns),
            stats={name: jnp.float32(value) for name, value in zip(self._names, self._stats, strict=True)},
            results=self.results,
        )
