"""Workers that lie and games that change: one clear error, and nothing wrong reaches the learner."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jaxrl.training.sebulba.remote.worker import Answer, EngineBlock, EngineWorker, Failure
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import EngineError, make_buffers
from tests.support.host_games import TicTacToeGame

# ---- workers of a fleet that lie -------------------------------------------------------------------------------------


class Liar:
    """A worker in this process; `lie` makes something else of what it answers."""

    def __init__(self, game: Any, games: int):
        self.worker, self.lie = EngineWorker(lambda: game, [EngineBlock(0, games, 7, 1, 30.0)]), lambda answer: answer

    def ask(self, block: int, number: int, orders: list) -> Any:
        return self.worker.obey(block, number, orders)

    def answer(self, asked: Any, orders: int) -> Any:
        return self.lie(asked)

    def close(self) -> None:
        self.worker.close()


def with_row(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Answer], Answer]:
    """Returns a lie: another array of that name, from a copy of the true one."""
    return lambda answer: answer._replace(rows=answer.rows | {name: change(answer.rows[name].copy())})


def without(name: str) -> Callable[[Answer], Answer]:
    return lambda answer: answer._replace(rows={key: row for key, row in answer.rows.items() if key != name})


def filled(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda row: np.full_like(row, value)


GAMES = 4
LIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nan": (with_row("observation", filled(np.nan)), "with observation that is not finite"),
    "an infinite reward": (with_row("rewards", filled(np.inf)), "with rewards that is not finite"),
    "a game less": (with_row("observation", lambda row: row[:-1]), "with observation that is not float32\\[4, 18\\]"),
    "a feature less": (with_row("observation", lambda row: row[:, :-1]), "with observation that is not float32"),
    "a single row": (with_row("rewards", lambda row: row[0]), "with rewards that is not float32\\[4, 2\\]"),
    "numbers for a mask": (with_row("legal_action_mask", lambda row: row.astype(np.int8)), "is not bool\\[4, 9\\]"),
    "text": (with_row("length", lambda row: "many"), "with length that is not int32\\[4\\]"),
    "nothing allowed": (with_row("legal_action_mask", filled(False)), "that allows nothing"),
    "a third seat": (with_row("current_player", filled(2)), "with current_player that is not from 0 to 1"),
    "no seat": (with_row("current_player", filled(-1)), "with current_player that is not from 0 to 1"),
    "a tenth action": (with_row("action", filled(9)), "with action that is not from -1 to 8"),
    "a negative length": (with_row("length", filled(-5)), "with length that is not from 0"),
    "a bot of a number below -1": (with_row("controllers", filled(9)), "with controllers that is not from -1"),
    "no rewards": (without("rewards"), "without rewards"),
    "no masks": (without("legal_action_mask"), "without legal_action_mask"),
    "more": (lambda answer: answer._replace(rows=answer.rows | {"extra": np.zeros(4)}), "with extra that is not"),
    "an old round": (lambda answer: answer._replace(next=answer.next - 1), "up to order 1, not 2"),
    "a later round": (lambda answer: answer._replace(next=answer.next + 9), "up to order 11, not 2"),
    "holders of other games": (lambda answer: answer._replace(controllers=answer.controllers[:2]), "with controllers"),
    "ended games without their end": (with_row("terminated", filled(True)), "without final_observation"),
    "a failure": (lambda answer: Failure(2, "the dice are lost", False), "game 2: the dice are lost"),
}


@pytest.fixture
def pools() -> Iterator[list[WorkerPool]]:
    made: list[WorkerPool] = []
    yield made
    for pool in made:
        pool.close()


def begun(pools: list[WorkerPool], game: Any) -> tuple[WorkerPool, Liar, Any]:
    """Returns a pool of one worker whose games have begun, and their rows."""
    liar = Liar(game, GAMES)
    pools.append(WorkerPool(game, [liar], GAMES, 1, threads=1, tries=3))
    rows = make_buffers(game, GAMES)
    pools[-1].start(rows)
    return pools[-1], liar, rows


@pytest.mark.parametrize("name", LIES)
def test_a_worker_that_lies(name, pools):
    pool, liar, rows = begun(pools, TicTacToeGame())
    before, (liar.lie, message) = rows.copy().arrays(), LIES[name]
    pool.send(np.zeros(GAMES, np.int32), rows)
    with pytest.raises(EngineError, match=message):
        pool.recv()
    assert all(np.array_equal(row, before[field]) for field, row in rows.arrays().items())


def test_a_worker_that_lies_about_states(pools):
    pool, liar, _ = begun(pools, TicTacToeGame())
    liar.lie = lambda answer: answer._replace(states=answer.states[:, :-1])
    with pytest.raises(EngineError, match="game 0: its worker has answered with states that is not uint8"):
        pool.save()


# ---- host games ------------------------------------------------------------------------------------------------------


def game_of(**changes: Callable[..., Any]) -> Any:
    """Engines of four games of TicTacToe of which number 2 has other methods."""
    engine = TicTacToeGame(opening=True).engine(GAMES, 0)
    board = engine.games[2]
    for name, change in changes.items():
        setattr(board, name, functools.partial(change, getattr(board, name)))
    return engine


def play(pool: HostPool, rows: Any, steps: int) -> None:
    for _ in range(steps):
        pool.send(np.full(GAMES, -1, np.int32), rows)
        pool.recv()


def later(after: int, other: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that answers `other` from its call number `after` on."""
    calls = [0]

    def method(truth: Callable[..., Any], *arguments: Any) -> Any:
        calls[0] += 1
        return truth(*arguments) if calls[0] <= after else other(truth(*arguments))

    return method


CHANGES: dict[str, tuple[dict[str, Callable[..., Any]], str]] = {
    "a shorter mask": ({"mask": later(9, lambda mask: mask[:-1])}, "array of shape \\(8,\\)"),
    "one row more": ({"rewards": later(3, lambda paid: [*paid, 0.0])}, "array of shape \\(3,\\)"),
    "other figures": ({"stats": later(0, lambda stats: stats[:1])}, "array of shape \\(1, 2\\)"),
    "a larger state": ({"save": later(0, lambda data: data * 9)}, "more than state_bytes"),
    "a text": ({"player": later(9, lambda seat: "first")}, "an integer is required"),
    "an endless array": ({"observe": later(9, lambda seen: np.broadcast_to(seen, (1 << 40, 18)))}, "array of shape"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_game_that_changes_shape_in_the_middle(name):
    changes, message = CHANGES[name]
    with HostPool(engine := game_of(**changes), threads=2) as pool:
        pool.start(rows := make_buffers(engine, GAMES))
        with pytest.raises(EngineError, match=f"game 2: .*{message}"):
            play(pool, rows, 60)
            pool.save()
