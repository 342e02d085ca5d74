"""Games of a host engine played through the bridge, without anybody who learns: what the engine's side can do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, Buffers, HostGame, make_buffers

BLOCK = 20_000  # decisions in a block at least: what starting it costs then does not matter


def through(
    pool: HostPool, game: HostGame, batch: int, choose: Callable[[Buffers], np.ndarray]
) -> Callable[[int], None]:
    """Starts the `batch` games of a pool; (steps) -> plays all of them on by so many decisions each.

    Args:
      pool: of the game's engine, synchronous, in one group.
      game: what is played.
      batch: N.
      choose: actions i32[N], or the numbers of bots, for what the buffers hold.
    """
    buffers = make_buffers(game, batch)
    pool.start(buffers)

    def play(steps: int) -> None:
        for _ in range(steps):
            pool.send(choose(buffers), buffers)
            pool.recv()

    return play


def by_engine(batch: int, bot: int = 0) -> Callable[[Buffers], np.ndarray]:
    """The engine chooses: its bot with this number, or uniformly at random for 0."""
    actions = np.full(batch, RANDOM if bot == 0 else -2 - bot, np.int32)
    return lambda buffers: actions
