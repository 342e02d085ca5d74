"""A small host game in plain Python: TicTacToe behind the whole host contract, with known values.

Uniformly random play: the first seat wins 0.585, the second 0.288 of the games.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from envs.errors import UserError
from envs.host.core import HostGame
from envs.host.engine import PythonEngine
from envs.host.env import HostEnv
from envs.host.python_game import PythonGame

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
LAYOUT = "<9bbbbQIiI"  # board, asked, how it ended, opening, seed, slot, episode, drawn


class Board(PythonGame):
    """One game. The opening, one random stone of each seat, makes deals differ; `faults` maps moves to exceptions."""

    def __init__(self, seed: int, slot: int, *, opening: bool = False, limit: int = 9, fault: Any = None):
        super().__init__(seed, slot)
        self.opening, self.limit, self.fault = opening, limit, fault
        self.cells, self.asked, self.how = [-1] * 9, 0, 0
        self.paid = [0.0, 0.0]

    def start(self) -> None:
        super().start()
        self.cells, self.asked, self.how, self.paid = [-1] * 9, 0, 0, [0.0, 0.0]
        if self.opening:
            for seat in (0, 1):
                free = [cell for cell in range(9) if self.cells[cell] < 0]
                self.cells[free[self.draw(len(free))]] = seat

    def step(self, action: int) -> None:
        if self.fault is not None:
            self.fault(self, action)
        seat = self.asked
        self.cells[action] = seat
        self.paid = [0.0, 0.0]
        if any(all(self.cells[cell] == seat for cell in line) for line in LINES):
            self.paid[seat], self.paid[1 - seat] = 1.0, -1.0
            self.how = 1
        elif min(self.cells) >= 0:
            self.how = 1
        elif sum(cell >= 0 for cell in self.cells) >= self.limit:
            self.how = 2
        self.asked = 1 - seat

    def bot(self, number: int) -> int:
        return self.cells.index(-1) if number == 1 else super().bot(number)

    def player(self) -> int:
        return -1 if self.how == 1 else self.asked

    def legal(self, action: int) -> bool:
        return self.how != 0 or self.cells[action] < 0

    def ended(self) -> int:
        return self.how

    def rewards(self) -> list[float]:
        return self.paid

    def observe(self, seat: int) -> np.ndarray:
        return np.array([[cell == seat, cell == 1 - seat] for cell in self.cells], np.float32).ravel()

    def mask(self) -> list[bool]:
        return [self.legal(action) for action in range(9)]

    def stats(self) -> list[list[float]]:
        return [[float(self.cells.count(seat)), float(self.paid[seat] > 0)] for seat in (0, 1)]

    def info(self) -> list[int]:
        return [sum(cell >= 0 for cell in self.cells), self.episode]

    def save(self) -> bytes:
        paid = int(self.paid[0])
        return struct.pack(
            LAYOUT, *self.cells, self.asked, self.how, paid, self.seed, self.slot, self.episode, self.drawn
        )

    def load(self, data: bytes) -> None:
        *self.cells, self.asked, self.how, paid, self.seed, self.slot, self.episode, self.drawn = struct.unpack(
            LAYOUT, data
        )
        self.paid = [float(paid), -float(paid)]


class TicTacToeGame(HostGame):
    """TicTacToe as a host game; bot "lowest" takes the lowest free cell."""

    id, version = "host_tic_tac_toe", "1"
    num_players, num_actions, num_features, state_bytes = 2, 9, 18, struct.calcsize(LAYOUT)
    bots, stat_names, info_names = ("random", "lowest"), ("stones", "won"), ("stones", "episode")
    perfect_information = True

    def __init__(self, *, opening: bool = False, limit: int = 9, fault: Any = None):
        if not 3 <= limit <= 9:
            raise UserError(f"host_tic_tac_toe: limit must be 3 to 9, not {limit}")
        self.opening, self.limit, self.fault = opening, limit, fault
        self.may_truncate = limit < 9

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        options = {"opening": self.opening, "limit": self.limit, "fault": self.fault}
        boards = [Board(seed, first_slot + game, **options) for game in range(num_games)]
        return PythonEngine(
            boards,
            num_players=2,
            num_actions=9,
            num_features=18,
            num_stats=2,
            num_info=2,
            num_bots=2,
            state_bytes=self.state_bytes,
        )

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        cells = ["XO."[cell] for cell in np.asarray(state)[:9].view(np.int8)]
        return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6))


class HostTicTacToe(HostEnv):
    """The same as an `Env`."""

    id, version = TicTacToeGame.id, TicTacToeGame.version

    def __init__(self, *, opening: bool = False, limit: int = 9):
        """A game with these rules.

        Args:
          opening: begin with one random stone of each seat, so that deals differ.
          limit: stones at which the game is cut off.
        """
        super().__init__(TicTacToeGame(opening=opening, limit=limit))
