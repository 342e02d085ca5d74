"""Pools of host games that have begun."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import Buffers, make_buffers


@contextlib.contextmanager
def begun(engine: Any, **options: Any) -> Iterator[tuple[HostPool, Buffers, Callable[[Any], None]]]:
    """(pool, the rows of all its games, `act(actions)` that plays all of them once)."""
    with HostPool(engine, **options) as pool:
        rows = make_buffers(engine, engine.num_games)
        pool.start(rows)

        def act(actions: Any) -> None:
            if options.get("mode") == "async":
                pool.send(actions, np.arange(engine.num_games, dtype=np.int32))
                pool.recv(count=engine.num_games)
            else:
                pool.send(actions, rows)
                pool.recv()

        yield pool, rows, act
