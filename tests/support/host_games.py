"""Small host games in plain Python behind the whole host contract: TicTacToe, two against two, and all seats at once.

TicTacToe has known values. Uniformly random play: the first seat wins 0.585, the second 0.288 of the games.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame, SimultaneousPythonGame, python_engine
from jaxrl_envs.shared.errors import UserError
from tests.support.games import CHOICES, TALKS, Signals

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
TALK = f"<{2 * TALKS}bbbbbbbQIiI"  # numbers, words, scores, time, who scored last, seed, slot, episode, drawn
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
        return [self.how != 0 or cell < 0 for cell in self.cells]

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
        return python_engine(self, boards)

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


# ---- all seats at once ----------------------------------------------------------------------------------------------

NUMBERS, ROUNDS = 4, 5
PICKS = "<bbb3b3b3bQIiI"  # round, how it ended, lucky number, picks, paid, won; seed, slot, episode, drawn


class Picks(SimultaneousPythonGame):
    """Every seat picks a number, not the one it has just picked. The highest that no other seat picked wins, and wins
    double if it is the lucky number of the round; the others pay for it together."""

    def __init__(self, seed: int, slot: int, *, num_players: int, limit: int, fault: Any = None):
        super().__init__(seed, slot)
        self.num_players, self.limit, self.fault = num_players, limit, fault
        self.round = self.how = self.lucky = 0
        self.picks, self.paid, self.won = [-1] * num_players, [0] * num_players, [0] * num_players

    def start(self) -> None:
        super().start()
        seats = self.num_players
        self.round, self.how, self.lucky = 0, 0, self.draw(NUMBERS)
        self.picks, self.paid, self.won = [-1] * seats, [0] * seats, [0] * seats

    def step(self, actions: Sequence[int]) -> None:
        if self.fault is not None:
            self.fault(self, actions)
        self.picks = list(actions)
        winner = max((pick for pick in actions if actions.count(pick) == 1), default=None)
        self.paid = [0] * self.num_players
        if winner is not None:
            stake = 2 if winner == self.lucky else 1
            self.paid = [stake * (self.num_players - 1) if pick == winner else -stake for pick in actions]
            self.won[actions.index(winner)] += 1
        self.round, self.lucky = self.round + 1, self.draw(NUMBERS)
        cut = self.round >= self.limit and self.lucky < 2
        self.how = 1 if self.round == ROUNDS else 2 if cut else 0

    def bot(self, seat: int, number: int) -> int:
        legal = self.mask(seat)
        return max(a for a in range(NUMBERS) if legal[a]) if number == 1 else super().bot(seat, number)

    def legal(self, seat: int, action: int) -> bool:
        return self.how != 0 or self.picks[seat] != action

    def mask(self, seat: int) -> list[bool]:
        return [self.legal(seat, action) for action in range(NUMBERS)]

    def ended(self) -> int:
        return self.how

    def rewards(self) -> list[float]:
        return [float(each) for each in self.paid]

    def observe(self, seat: int) -> np.ndarray:
        order = [(seat + i) % self.num_players for i in range(self.num_players)]
        rows = [[self.picks[each] == number for number in range(NUMBERS)] for each in order]
        lucky = [self.lucky == number for number in range(NUMBERS)]
        return np.array([*np.ravel(rows), *lucky, self.round], np.float32)

    def stats(self) -> list[list[float]]:
        return [[float(each)] for each in self.won]

    def info(self) -> list[int]:
        return [self.round, self.episode]

    def save(self) -> bytes:
        rest = [0] * (3 - self.num_players)
        lists = (*self.picks, *rest, *self.paid, *rest, *self.won, *rest)
        streams = (self.seed, self.slot, self.episode, self.drawn)
        return struct.pack(PICKS, self.round, self.how, self.lucky, *lists, *streams)

    def load(self, data: bytes) -> None:
        self.round, self.how, self.lucky, *lists, self.seed, self.slot, self.episode, self.drawn = struct.unpack(
            PICKS, data
        )
        self.picks, self.paid, self.won = (lists[first : first + self.num_players] for first in (0, 3, 6))


class PicksGame(HostGame):
    """`Picks` for two or three seats; bot "highest" takes the highest number it may."""

    id, version = "host_picks", "1"
    num_actions, state_bytes, simultaneous = NUMBERS, struct.calcsize(PICKS), True
    bots, stat_names, info_names = ("random", "highest"), ("won",), ("round", "episode")
    perfect_information = True

    def __init__(self, *, num_players: int = 2, limit: int = ROUNDS, fault: Any = None):
        self.num_players, self.num_features = num_players, num_players * NUMBERS + NUMBERS + 1
        self.limit, self.may_truncate, self.fault = limit, limit < ROUNDS, fault

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        options = {"num_players": self.num_players, "limit": self.limit, "fault": self.fault}
        return python_engine(self, [Picks(seed, first_slot + game, **options) for game in range(num_games)])

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        how, lucky, *picks = np.asarray(state)[1 : 3 + self.num_players].view(np.int8).tolist()
        return f"picked {picks}, lucky is {lucky}" + " (over)" * (how > 0)


class HostPicks(HostEnv):
    """The same as an `Env`."""

    id, version = PicksGame.id, PicksGame.version

    def __init__(self, *, num_players: int = 2, limit: int = ROUNDS):
        """A game with these rules.

        Args:
          num_players: 2 or 3.
          limit: rounds after which the game may be cut off, by chance; 5 of them end it.
        """
        super().__init__(PicksGame(num_players=num_players, limit=limit))


# ---- Signals --------------------------------------------------------------------------------------------------------


class Talk(PythonGame):
    """One game of `tests.support.games.Signals`, by its rules."""

    def __init__(self, seed: int, slot: int):
        super().__init__(seed, slot)
        self.numbers, self.word, self.right, self.time, self.scored = [0] * (2 * TALKS), [-1, -1], [0, 0], -1, -1

    def start(self) -> None:
        super().start()
        self.numbers = [self.draw(CHOICES) for _ in range(2 * TALKS)]
        self.word, self.right, self.time, self.scored = [-1, -1], [0, 0], 0, -1

    def step(self, action: int) -> None:
        turn, side = self.time % 4, self.time % 2
        self.scored = -1
        if turn < 2:
            self.word[side] = action
        elif action == self.numbers[2 * (self.time // 4) + side]:
            self.right[side] += 1
            self.scored = side
        self.time += 1
        if turn == 3:
            self.word = [-1, -1]

    def bot(self, number: int) -> int:
        if number == 0:
            return super().bot(0)
        side = self.time % 2
        return self.numbers[2 * (self.time // 4) + side] if self.time % 4 < 2 else self.word[side]

    def player(self) -> int:
        return -1 if self.ended() else self.time % 4

    def legal(self, action: int) -> bool:
        return True

    def ended(self) -> int:
        return int(self.time == 4 * TALKS)

    def rewards(self) -> list[float]:
        if self.scored < 0:
            return [0.0] * 4
        return [(1.0 if side == self.scored else -1.0) / TALKS for side in Signals.sides]

    def observe(self, seat: int) -> np.ndarray:
        number = self.numbers[2 * min(self.time // 4, TALKS - 1) + seat % 2] if seat < 2 else -1
        seen = np.array([number, self.word[seat % 2], self.word[1 - seat % 2]])
        return (seen[:, None] == np.arange(CHOICES)).astype(np.float32).ravel()

    def mask(self) -> list[bool]:
        return [True] * CHOICES

    def stats(self) -> list[list[float]]:
        return [[float(self.right[side])] for side in Signals.sides]

    def save(self) -> bytes:
        rest = (*self.word, *self.right, self.time, self.scored, self.seed, self.slot, self.episode, self.drawn)
        return struct.pack(TALK, *self.numbers, *rest)

    def load(self, data: bytes) -> None:
        *numbers, first, second, left, right, self.time, self.scored, self.seed, self.slot, self.episode, self.drawn = (
            struct.unpack(TALK, data)
        )
        self.numbers, self.word, self.right = numbers, [first, second], [left, right]


class SignalsGame(HostGame):
    """Signals as a host game."""

    id, version = "host_signals", "1"
    num_players, num_actions, num_features, state_bytes = 4, CHOICES, 3 * CHOICES, struct.calcsize(TALK)
    bots, stat_names = ("random", "optimal"), ("right",)
    sides = Signals.sides

    def event(self, before: np.ndarray, action: int, after: np.ndarray, seat: int | None = None) -> str:
        asked = int(before[2 * TALKS + 4]) % 4
        return str(action) if asked < 2 or seat in (None, asked) else "a number"

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        return python_engine(self, [Talk(seed, first_slot + game) for game in range(num_games)])


class HostSignals(HostEnv):
    """The same as an `Env`; `remote` plays its matches live, as those of an engine in another process."""

    id, version = SignalsGame.id, SignalsGame.version

    def __init__(self, *, remote: bool = False):
        """A game.

        Args:
          remote: say that the engine is another process.
        """
        game = SignalsGame()
        game.remote = remote
        super().__init__(game)
