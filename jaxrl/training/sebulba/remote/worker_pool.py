"""`WorkerPool`: the games of one actor on workers elsewhere, behind the `send` and `recv` of `HostPool`.

Every group of games is divided evenly among the workers. The orders to a block since its games were last saved (at most
one rollout) are kept and replayed on a new worker if the worker is lost. Actions are checked here, so that an illegal
one is reported before anything is sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jaxrl.runs.logs.run_log import LOG
from jaxrl.training.sebulba.remote.worker import (
    ENDED,
    Answer,
    Begin,
    Failure,
    Load,
    Order,
    Restart,
    Save,
    Send,
    Strange,
)
from jaxrl_envs.host.game import FIELDS, FINITE, Buffers, EngineError, HostGame, HungEngine, IllegalAction, shapes


class Lost(Exception):
    """A worker is gone, or cannot be reached, with whatever it was told; the message says how."""


class Worker(Protocol):
    """One worker, wherever it runs."""

    def ask(self, block: int, number: int, orders: Sequence[Order]) -> Any:
        """Starts executing orders (`EngineWorker.obey`) and returns a future at once."""

    def answer(self, asked: Any, orders: int) -> Answer | Strange | Failure:
        """Waits for the answer to `orders` orders. Raises Lost: there will be none; ask again, from the last saved
        states on."""

    def close(self) -> None:
        """Ends it."""


@dataclasses.dataclass
class _Tally:
    """Counters of one worker."""

    busy_ns: int = 0
    calls: int = 0  # that it has not answered yet
    losses: int = 0  # blocks that were lost with it


@dataclasses.dataclass(eq=False)
class _Part:
    """A block of games on a worker."""

    worker: Worker
    tally: _Tally
    block: int  # number within the worker
    lanes: slice  # of the pool
    orders: list[Order] = dataclasses.field(default_factory=list)  # since the games were last saved
    number: int = 0  # of the order that follows those
    asked: Any = None
    mask: np.ndarray | None = None  # bool[n, (P,) A], of the questions that stand


class WorkerPool:
    """N games in `groups` blocks, each played by all workers together; see `HostPool` for what the names mean.

    Attributes:
      controllers, next_controllers: i8[N, P].
      length: i32[N].
      threads: one entry for each engine thread, all elsewhere.
    """

    counters = {"step": (0, 0), "bots": (0, 0), "observe": (0, 0)}  # are not measured elsewhere

    def __init__(self, game: HostGame, workers: Sequence[Worker], share: int, groups: int, *, threads: int, tries: int):
        """Sets up a pool; no worker is asked yet. `workers`: workers, each with `groups` blocks of share / groups /
        len(workers) games; `tries`: number of times in a row that a block may be lost with its worker."""
        self.groups, self.threads = groups, [None] * threads
        self.controllers = np.full((share, game.num_players), -1, np.int8)
        self.next_controllers, self.length = self.controllers.copy(), np.zeros(share, np.int32)
        self._workers, self._tries, self._game = workers, tries, game
        self._tallies, self._closed = [_Tally() for _ in workers], False
        size, part = share // groups, share // groups // len(workers)

        def lanes(group: int, number: int) -> slice:
            first = group * size + number * part
            return slice(first, first + part)

        self._parts = [
            [_Part(worker, self._tallies[i], group, lanes(group, i)) for i, worker in enumerate(workers)]
            for group in range(groups)
        ]
        self._into: list[Buffers | None] = [None] * groups

    # ---- as HostPool ----------------------------------------------------------------------------------------------

    def start(self, into: Buffers) -> None:
        """Begins all games; writes all rows."""
        begun = {part: Begin(self.controllers[part.lanes].copy(), self._following(part)) for part in self._all}
        self._together(into, begun)

    def load(
        self, states: np.ndarray, controllers: np.ndarray, into: Buffers, length: np.ndarray | None = None
    ) -> None:
        """Continues all games from saved states u8[N, S]; writes all rows."""
        self.controllers[:] = controllers
        self.length[:] = 0 if length is None else length
        for part in self._all:
            part.orders.clear()  # nothing that was before matters
        self._together(into, {part: self._as_saved(part, states[part.lanes].copy()) for part in self._all})

    def restart(self, games: np.ndarray, into: Buffers) -> None:
        """Abandons some games (i32[k]) for their next ones; writes their rows."""
        abandoned = {}
        for part in self._all:
            within = games[(games >= part.lanes.start) & (games < part.lanes.stop)] - part.lanes.start
            if len(within):
                abandoned[part] = Restart(within.astype(np.int32), self._following(part))
        self._together(into, abandoned)

    def send(self, actions: np.ndarray, into: Buffers, group: int = 0) -> None:
        """Steps a group; returns at once. Raises IllegalAction: one of the actions is; nothing was sent."""
        first = self._parts[group][0].lanes.start
        for part in self._parts[group]:
            self._require_legal(part, actions[part.lanes.start - first : part.lanes.stop - first])
        self._into[group] = into
        for part in self._parts[group]:
            chosen = actions[part.lanes.start - first : part.lanes.stop - first]
            self._order(part, Send(np.array(chosen), self._following(part)))

    def recv(self, group: int = 0) -> None:
        """Waits until a group's rows are written. Raises EngineError: an engine failed, or its worker was lost too
        often."""
        into, first = self._into[group], self._parts[group][0].lanes.start
        assert into is not None  # it was sent
        for part in self._parts[group]:
            answer = self._answer(part)
            rows = slice(part.lanes.start - first, part.lanes.stop - first)
            for name, values in answer.rows.items():
                getattr(into, name)[rows] = values
        self._into[group] = None

    def save(self, out: np.ndarray | None = None) -> np.ndarray:
        """Returns the states of all games u8[N, S]; from here on a lost worker is replaced."""
        for part in self._all:
            self._order(part, Save())
        return np.concatenate([self._saved(part) for part in self._all], out=out)  # parts stand in the order of lanes

    @property
    def busy_ns(self) -> np.ndarray:
        """i64[1]: that the engines have worked."""
        return np.array([sum(tally.busy_ns for tally in self._tallies)], np.int64)

    def told(self) -> list[dict[str, float]]:
        """Returns counters of each worker, see `jaxrl.training.program.Program.counters`."""
        threads = len(self.threads) / len(self._tallies)
        return [
            {"threads": threads, "busy_seconds": each.busy_ns / 1e9, "calls": each.calls, "losses": each.losses}
            for each in self._tallies
        ]

    def close(self) -> None:
        """Ends the workers; a second call does nothing."""
        if not self._closed:
            self._closed = True
            for worker in self._workers:
                worker.close()

    def __enter__(self) -> WorkerPool:
        """Returns the pool, closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- parts ----------------------------------------------------------------------------------------------------

    @property
    def _all(self) -> list[_Part]:
        return [part for group in self._parts for part in group]

    def _following(self, part: _Part) -> np.ndarray:
        return self.next_controllers[part.lanes].copy()

    def _saved(self, part: _Part) -> np.ndarray:
        """Returns the states of a part that was told to save; what it was told before is forgotten."""
        states = self._answer(part).states
        assert states is not None
        part.orders[:] = [self._as_saved(part, states)]
        return states

    def _as_saved(self, part: _Part, states: np.ndarray) -> Load:
        """Returns the order that brings a part's games back, from their states."""
        return Load(states, self.controllers[part.lanes].copy(), self.length[part.lanes].copy())

    def _order(self, part: _Part, order: Order) -> None:
        """Begins an order."""
        part.orders.append(order)
        part.tally.calls += 1
        part.asked = part.worker.ask(part.block, part.number, [order])
        part.number += 1

    def _together(self, into: Buffers, orders: Mapping[_Part, Order]) -> None:
        """One order for each of some parts at once; writes their rows, or those of the games that are restarted."""
        for part, order in orders.items():
            self._order(part, order)
        for part, order in orders.items():
            answer = self._answer(part)
            within = order.games if isinstance(order, Restart) else slice(None)
            for name, values in answer.rows.items():
                getattr(into, name)[part.lanes][within] = values[within]

    def _answer(self, part: _Part) -> Answer:
        """Waits for the last order of a part, which another worker gets with all before it if the first is lost."""
        answer: Any = Strange()
        lost, orders = 0, 1
        while isinstance(answer, Strange):
            try:
                answer = part.worker.answer(part.asked, orders)
                if isinstance(answer, Strange):
                    raise Lost("the worker was started again")
            except Lost as error:
                lost += 1
                part.tally.losses += 1
                if self._closed:
                    raise HungEngine(part.lanes.start, "its workers have been ended") from error
                if lost > self._tries:
                    raise HungEngine(part.lanes.start, f"its worker was lost {lost} times in a row: {error}") from error
                LOG.warning("games %d to %d are played again: %s", part.lanes.start, part.lanes.stop - 1, error)
                orders = len(part.orders)
                part.asked = part.worker.ask(part.block, part.number - orders, part.orders)
        part.tally.calls -= 1
        if isinstance(answer, Failure):
            kind = HungEngine if answer.hung else EngineError
            raise kind(part.lanes.start + answer.game, answer.message)
        if wrong := unsound(answer, part.number, self._game, part.lanes.stop - part.lanes.start):
            raise EngineError(part.lanes.start, f"its worker has answered {wrong}")
        part.mask = answer.rows["legal_action_mask"]
        self.controllers[part.lanes], self.length[part.lanes] = answer.controllers, answer.length
        part.tally.busy_ns += answer.busy_ns
        return answer

    def _require_legal(self, part: _Part, actions: np.ndarray) -> None:
        """Raises IllegalAction; negative numbers leave the choice to the engine."""
        assert part.mask is not None  # its questions were asked before they are answered
        clipped = np.clip(actions, 0, part.mask.shape[-1] - 1)
        legal = np.take_along_axis(part.mask, clipped[..., None], axis=-1)[..., 0] & (actions < part.mask.shape[-1])
        outside = np.ones(legal.shape, bool)
        if self._game.simultaneous:
            outside = self.controllers[part.lanes] < 0  # what is answered for others is not looked at
        wrong = np.argwhere(~legal & (actions >= 0) & outside)
        if len(wrong):
            game, *seat = (int(each) for each in wrong[0])
            raise IllegalAction(part.lanes.start + game, int(actions[tuple(wrong[0])]), seat[0] if seat else None)


def unsound(answer: Answer, number: int, game: HostGame, games: int) -> str:
    """Says what is wrong with an answer, "" if nothing is: the learner gets arrays of the right shapes and kinds,
    finite where they must be, and of the orders that stand. `number`: number of the order that follows."""
    if answer.next != number:
        return f"up to order {answer.next}, not {number}"
    forms = shapes(game, games) | {"states": ((games, game.state_bytes), np.dtype(np.uint8))}
    given = [*answer.rows.items(), ("controllers", answer.controllers), ("length", answer.length)]
    for name, array in given if answer.states is None else [*given, ("states", answer.states)]:
        shape, dtype = forms.get(name, ((), np.void))
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            return f"with {name} that is not {np.dtype(dtype).name}{list(shape)}"
        if name in FINITE and not np.isfinite(array).all():
            return f"with {name} that is not finite"
    over = bool(np.any(answer.rows.get("terminated", True)) or np.any(answer.rows.get("truncated", True)))
    if missing := [name for name in FIELDS if name not in answer.rows and (over or name not in ENDED)]:
        return f"without {missing[0]}"
    return _out_of_range(answer, game)


def _out_of_range(answer: Answer, game: HostGame) -> str:
    """Checks, as `unsound`, the ranges of seats, actions, holders, lengths and masks."""
    rows = answer.rows
    ranges = {
        "current_player": (rows["current_player"], 0, game.num_players),
        "final_player": (rows["final_player"], -1, game.num_players),
        "action": (rows["action"], -1, game.num_actions + game.delegated),
        "controllers": (np.stack([rows["controllers"], answer.controllers]), -1, len(game.bots)),
        "length": (np.stack([rows["length"], answer.length]), 0, np.iinfo(np.int32).max),
    }
    for name, (values, low, high) in ranges.items():
        if ((values < low) | (values >= high)).any():
            return f"with {name} that is not from {low} to {high - 1}"
    return "" if rows["legal_action_mask"].any(axis=-1).all() else "with a legal_action_mask that allows nothing"
