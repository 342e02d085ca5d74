"""A remote worker: executes orders on blocks of games. It holds no policy, and no state except the games.

Games are deterministic given their saved states and the actions since. To replace a lost worker, another one gets the
saved states and all orders since, and reaches the same games bit by bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl_envs.host.game import Buffers, EngineError, HostGame, HungEngine, make_buffers
from jaxrl_envs.shared.errors import UserError


class EngineBlock(NamedTuple):
    """Games that are stepped together."""

    slot: int  # of the first game: its number among all games of the training
    games: int
    seed: int
    threads: int
    timeout: float  # seconds without progress in any game after which the engine is taken to hang


class Begin(NamedTuple):
    """All games of a block begin. n games, P seats."""

    controllers: np.ndarray  # i8[n, P]
    following: np.ndarray  # i8[n, P], of the next games


class Load(NamedTuple):
    """All games go on from saved states."""

    states: np.ndarray  # u8[n, S]
    controllers: np.ndarray  # i8[n, P]
    length: np.ndarray  # i32[n]


class Restart(NamedTuple):
    """Some games are abandoned for their next ones."""

    games: np.ndarray  # i32[k], numbers within the block
    following: np.ndarray  # i8[n, P]


class Send(NamedTuple):
    """All games are stepped."""

    actions: np.ndarray  # i32[n], or i32[n, P] of a simultaneous game
    following: np.ndarray  # i8[n, P]


class Save(NamedTuple):
    """The states of all games are returned."""


ENDED = ("final_observation", "stats")  # mean something where a game ended
Order = Begin | Load | Restart | Send | Save


class Answer(NamedTuple):
    """The result of the last order for a block."""

    next: int  # number of the order that follows
    rows: dict[str, np.ndarray]  # of `Buffers` by name; those of ended games only if one has ended
    controllers: np.ndarray  # i8[n, P], of the running games
    length: np.ndarray  # i32[n]
    states: np.ndarray | None  # u8[n, S], after `Save`
    busy_ns: int  # that the engine has worked for these orders


class Strange(NamedTuple):
    """The orders do not continue the previous ones: the worker was restarted and has lost its games."""


class Failure(NamedTuple):
    """An engine has failed; the block cannot recover."""

    game: int  # within the block
    message: str
    hung: bool


class EngineWorker:
    """The games of one worker."""

    def __init__(self, make_game: Callable[[], HostGame], blocks: Sequence[EngineBlock]):
        """Makes the game and its engines; `make_game` is called where they run."""
        from jaxrl_envs.host.bridge import HostPool

        game, games = make_game().meant_for("training"), sum(block.games for block in blocks)
        if game.remote and games > game.capacity():
            raise UserError(f"{games} games for a worker with room for {game.capacity()}: raise fleet.workers.")
        self._pools = [
            HostPool(
                game.engine(block.games, block.seed, first_slot=block.slot),
                threads=block.games if game.remote else block.threads,
                timeout=block.timeout,
            )
            for block in blocks
        ]
        self._rows = [make_buffers(game, block.games) for block in blocks]
        self._one_at_a_time = [threading.Lock() for _ in blocks]  # orders may come again while the first still run
        self._next = [-1] * len(blocks)  # number of the order that follows

    def obey(self, block: int, number: int, orders: Sequence[Order]) -> Answer | Strange | Failure:
        """Executes orders in sequence and returns the result of the last one. `number`: number of the first order,
        among all that the block was given; games begin with one of any number."""
        pool, rows = self._pools[block], self._rows[block]
        with self._one_at_a_time[block]:
            if number != self._next[block] and not isinstance(orders[0], (Begin, Load)):
                return Strange()
            self._next[block] = number + len(orders)
            busy = int(pool.busy_ns.sum())
            try:
                for order in orders:
                    _obey(pool, rows, order)
                states = pool.save() if isinstance(orders[-1], Save) else None
            except EngineError as error:
                return Failure(error.game, str(error).partition(": ")[2], isinstance(error, HungEngine))
            busy = int(pool.busy_ns.sum()) - busy
            return Answer(
                self._next[block], _told(rows), np.array(pool.controllers), np.array(pool.length), states, busy
            )

    def close(self) -> None:
        """Ends the engine threads."""
        for pool in self._pools:
            pool.close()


def _obey(pool: Any, rows: Buffers, order: Order) -> None:
    """Executes one order on a `HostPool` of one group."""
    match order:
        case Begin(controllers, following):
            pool.controllers[:], pool.next_controllers[:] = controllers, following
            pool.start(rows)
        case Load(states, controllers, length):
            pool.load(states, controllers, rows, length)
        case Restart(games, following):
            pool.next_controllers[:] = following
            pool.restart(games, rows)
        case Send(actions, following):
            pool.next_controllers[:] = following
            pool.send(actions, rows)
            pool.recv()


def _told(rows: Buffers) -> dict[str, np.ndarray]:
    """Copies of the rows that have a meaning."""
    over = bool((rows.terminated | rows.truncated).any())
    return {name: np.array(row) for name, row in rows.arrays().items() if over or name not in ENDED}
