"""A pool of games of Magic played by a replay server, step by step, and all that came of it."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.forge.fleet import Fleet
from envs.forge.game import ForgeGame
from envs.forge.settings import Deployment
from envs.host.bridge import HostPool
from envs.host.core import RANDOM, Buffers, make_buffers

DECKS = ("aggro", "aggro")  # nobody recorded these: every seed chooses among all recordings
STEPS = 220
BOTS = [[-1, -1], [-1, 1], [3, -1], [-1, -1]]  # who holds the seats: the learner, or Forge's AI


class Played(NamedTuple):
    """What happened."""

    rows: list[list[tuple[Any, ...]]]  # by game, then by step: all that a learner gets
    counters: dict[str, Any]  # of the fleet
    replays: dict[str, int]  # how often a game was played again, by reason
    state: np.ndarray  # u8[N, S]
    length: np.ndarray  # i32[N], of the running games

    @property
    def ended(self) -> int:
        """Games that ended."""
        return sum(row[6] or row[7] for rows in self.rows for row in rows)


def row_of(buffers: Buffers, game: int) -> tuple[Any, ...]:
    """A row of the buffers; the observations by their checksums."""
    over = bool(buffers.terminated[game] or buffers.truncated[game])
    return (
        int(buffers.current_player[game]),
        zlib.crc32(buffers.observation[game].tobytes()),
        zlib.crc32(buffers.legal_action_mask[game].tobytes()),
        int(buffers.action[game]),
        tuple(buffers.rewards[game].tolist()),
        tuple(buffers.opening[game].tolist()),
        bool(buffers.terminated[game]),
        bool(buffers.truncated[game]),
        int(buffers.final_player[game]),
        zlib.crc32(buffers.final_observation[game].tobytes()) if over else 0,
        tuple(buffers.stats[game].ravel().tolist()) if over else (),
        tuple(buffers.info[game].tolist()),
        int(buffers.length[game]),
    )


@contextlib.contextmanager
def fleet_of(addresses: Sequence[str], **settings: Any) -> Iterator[Fleet]:
    """A fleet of remote daemons."""
    with Fleet(Deployment(daemons=tuple(addresses), **settings)) as fleet:
        yield fleet


def play(
    fleet: Fleet,
    *,
    games: int = 8,
    steps: int = STEPS,
    threads: int = 4,
    first_slot: int = 0,
    after: Played | None = None,
    watch: Callable[[int], None] = lambda step: None,
    **options: Any,
) -> Played:
    """Random play of all games at once; games 0, 4, ... and 3, 7, ... by themselves, the others against Forge's AI.

    Args:
      fleet: lends daemons.
      games, steps, threads: how many.
      first_slot: of the games.
      after: what was played before, to go on from there.
      watch: called before every step, with its number.
      options: of the game. A daemon may be silent for twice `game_limit` when Forge's AI plays, so it is a short one.
    """
    game = ForgeGame(**({"decks": DECKS, "game_limit": 1.0} | options))
    game.deploy(fleet.deployment)
    engine = game.engine_on(fleet, games, 7, first_slot=first_slot)
    controllers = np.array([BOTS[i % 4] for i in range(games)], np.int8)
    buffers, actions = make_buffers(game, games), np.full(games, RANDOM, np.int32)
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(games)]
    with HostPool(engine, threads=threads, controllers=controllers, timeout=60.0) as pool:
        if after is None:
            pool.start(buffers)
        else:
            pool.load(after.state, controllers, buffers, length=after.length)
        for step in range(steps):
            watch(step)
            pool.send(actions, buffers)
            pool.recv()
            for i in range(games):
                rows[i].append(row_of(buffers, i))
        state, length = np.array(pool.save()), pool.length.copy()
    return Played(rows, fleet.counters(), dict(engine.replays), state, length)
