"""Play of a host engine's games through the bridge, without a learner and without jax: its allocations are counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, Buffers, HostGame, make_buffers

BLOCK = 20_000  # decisions in a block at least, so that the cost of starting one is negligible


def host_play(
    pool: HostPool, game: HostGame, batch: int, choose: Callable[[Buffers], np.ndarray]
) -> Callable[[int], None]:
    """Starts the `batch` games of a pool; returns ``(steps) -> None``, which plays `steps` decisions in each game.

    Args:
      pool: a synchronous pool of the game's engine, in one group.
      game: the game.
      batch: N.
      choose: maps the buffers to i32[N]: actions, or numbers of bots.
    """
    buffers = make_buffers(game, batch)
    pool.start(buffers)

    def play(steps: int) -> None:
        for _ in range(steps):
            pool.send(choose(buffers), buffers)
            pool.recv()

    return play


def by_engine(batch: int, bot: int = 0) -> Callable[[Buffers], np.ndarray]:
    """Lets the engine choose: by its bot number `bot`, or uniformly at random for 0."""
    actions = np.full(batch, RANDOM if bot == 0 else -2 - bot, np.int32)
    return lambda buffers: actions
