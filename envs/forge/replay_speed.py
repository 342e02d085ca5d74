"""How many decisions a second go through everything outside the JVM: links, parser, encoder, pool.

A replay server in a process of its own plays the daemons, random legal actions the seats.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from envs.forge.game import ForgeGame
from envs.forge.replay import ReplayServer
from envs.forge.settings import Deployment
from envs.forge.wire import Link
from envs.host.bridge import HostPool
from envs.host.core import RANDOM, make_buffers

GAMES = 16
WARM_UP = 0.2  # of the time that is measured


def measure(
    paths: Iterable[str | Path], *, games: int = GAMES, threads: int = 0, seconds: float = 5.0
) -> dict[str, float]:
    """Plays recorded games through a pool.

    Args:
      paths: recordings in which the client holds both seats.
      games: side by side, each with a daemon of its own.
      threads: of the pool; 0: one for each core. With real daemons games need threads of their own, which wait most of
        the time; here nobody waits.
      seconds: to measure, after a warm-up.

    Returns:
      Per second: decisions (of the daemons, answered), questions (actions of the pool) and mb (received); cpu_us, what
      a decision costs this process, and server_us, what it costs the server.
    """
    with ReplayServer(paths, daemons=games) as server:
        game = ForgeGame()
        game.deploy(Deployment(daemons=server.addresses))
        link = Link("127.0.0.1", server.ports[0])
        try:
            with HostPool(game.engine(games, 0), threads=threads) as pool:
                buffers, actions = make_buffers(game, games), np.full(games, RANDOM, np.int32)
                pool.start(buffers)
                _play(pool, buffers, actions, WARM_UP * seconds)
                before = _figures(link, server.process.pid)
                questions = _play(pool, buffers, actions, seconds)
                after = _figures(link, server.process.pid)
        finally:
            link.close()
            game.fleet().close()
    spent = {name: after[name] - before[name] for name in after}
    return {
        "decisions": spent["decisions"] / spent["wall"],
        "questions": questions / spent["wall"],
        "mb": spent["bytes"] / spent["wall"] / 1e6,
        "cpu_us": spent["cpu"] / max(1, spent["decisions"]) * 1e6,
        "server_us": spent["server"] / max(1, spent["decisions"]) * 1e6,
    }


def _play(pool: HostPool, buffers: Any, actions: np.ndarray, seconds: float) -> int:
    """Random play for a while; returns how many actions it was."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        pool.send(actions, buffers)
        pool.recv()
        count += len(actions)
    return count


def _figures(link: Link, pid: int) -> dict[str, float]:
    """What the server has sent so far, and the times."""
    link.send_line("STATUS\nPING")
    found = {}
    while (line := link.receive_line(10.0).decode()) != "PONG":
        name, _, value = line.strip().partition(": ")
        found[name] = value
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {
        "decisions": float(found["Decisions"]),
        "bytes": float(found["Bytes"]),
        "wall": time.perf_counter(),
        "cpu": time.process_time(),
        "server": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
    }
