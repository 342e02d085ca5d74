"""A host game whose engine sleeps: fleets of any size can be tried on a small machine."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from tests.support.host_games import Board, TicTacToeGame

FEATURES = 1536  # 6 KB, as engines that are worth a fleet have them


class SlowBoard(Board):
    """TicTacToe with a wait before every move and a long observation."""

    def observe(self, seat: int) -> np.ndarray:
        return np.pad(super().observe(seat), (0, FEATURES - 18))


class SlowGame(TicTacToeGame):
    """The game; a decision takes `ms` milliseconds."""

    id = "slow_tic_tac_toe"
    num_features = FEATURES

    def __init__(self, ms: float = 1.0):
        super().__init__()
        self.ms = ms

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        def wait(board: Any, action: int) -> None:
            time.sleep(self.ms / 1e3)

        boards = [SlowBoard(seed, first_slot + game, fault=wait) for game in range(num_games)]
        sizes = {"num_stats": 2, "num_info": 2, "num_bots": 2, "state_bytes": self.state_bytes}
        return PythonEngine(boards, num_players=2, num_actions=9, num_features=FEATURES, **sizes)


class Slow(HostEnv):
    """The same as an `Env`."""

    id, version = SlowGame.id, SlowGame.version

    def __init__(self, *, ms: float = 1.0):
        """A game with an engine that waits.

        Args:
          ms: milliseconds of a decision.
        """
        super().__init__(SlowGame(ms))
