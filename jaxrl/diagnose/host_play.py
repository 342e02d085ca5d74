"""Play of a host engine's games through the bridge, without a learner and without jax."""

from __future__ import annotations

import contextlib

import numpy as np

from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, HostGame, make_buffers

BLOCK = 20_000  # decisions in a block at least, so that the cost of starting one is negligible


def through_bridge(stack: contextlib.ExitStack, game: HostGame, batch: int, threads: int, bot: int = 0) -> Contestant:
    """Returns a contestant that plays a host game with one of its bots on all seats, chosen for by the engine.

    Args:
      stack: ends the threads.
      game: the game.
      batch: games at once.
      threads: threads of the engine.
      bot: number of the bot; 0: uniformly random play.
    """
    pool = stack.enter_context(HostPool(game.engine(batch, 1), threads=threads))
    buffers, steps = make_buffers(game, batch), max(1, BLOCK // batch)
    actions = np.full(batch, RANDOM if bot == 0 else -2 - bot, np.int32)
    pool.start(buffers)

    def block() -> None:
        for _ in range(steps):
            pool.send(actions, buffers)
            pool.recv()

    name = f"{game.bots[bot]} bot, observed, {batch:,} games, {threads} thread(s)"
    return Contestant(name, float(batch * steps), block)
