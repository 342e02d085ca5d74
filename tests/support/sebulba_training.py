"""Trainings with actors for tests: small, and with engines that can be made to fail."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from typing import Any

import numpy as np

from jaxrl.config import Config
from jaxrl.league.config import LeagueConfig
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl.training.sebulba.loop import Sebulba
from jaxrl_envs.host.env import HostEnv
from tests.support.host_games import Board, HostTicTacToe, TicTacToeGame
from tests.support.training import small_config
from tests.support.waiting import wait_until


def sebulba_config(*, league: LeagueConfig | None = None, sebulba: dict[str, Any] | None = None, **settings) -> Config:
    """`small_config` with these keys of the section `sebulba`."""
    config = small_config(**({"num_envs": 16, "calls": 50, "stagger": 5} | settings))
    actors = SebulbaConfig(**({"threads": 2, "timeout": 30.0} | (sebulba or {})))
    return dataclasses.replace(config, league=league or LeagueConfig(), sebulba=actors)


def sebulba_program(config: Config, env: HostEnv | None = None) -> Sebulba:
    """A program for TicTacToe, or for another game."""
    return make_program(config, env or HostTicTacToe(opening=True))


def threads_left(names: tuple[str, ...] = ("actor", "engine")) -> list[str]:
    """Names of the threads that should have ended; waits a little for those that are ending."""

    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]

    wait_until(lambda: not left(), 20.0)
    return left()


# ---- engines that fail --------------------------------------------------------------------------------------------


class Trouble:
    """What a board does at each move: nothing, until the file named in TROUBLE exists (or from the start, if it is
    empty); then game `game` raises or hangs."""

    def __init__(self, game: int, kind: str):
        self.game, self.kind = game, kind

    def __call__(self, board: Board, action: int) -> None:
        if board.slot != self.game or not os.path.exists(os.environ["TROUBLE"]):
            return
        if self.kind == "raise":
            raise ZeroDivisionError("the dice are lost")
        while os.path.exists(os.environ["TROUBLE"]):
            time.sleep(0.01)


class Troubled(HostEnv):
    """TicTacToe whose game 17 fails as soon as there is trouble."""

    id, version = "troubled", "1"

    def __init__(self, *, kind: str = "raise", game: int = 17):
        """A game.

        Args:
          kind: raise or hang.
          game: which of the games.
        """
        super().__init__(TicTacToeGame(opening=True, fault=Trouble(game, kind)))


class Slow(HostEnv):
    """TicTacToe that takes its time."""

    id, version = "slow", "1"

    def __init__(self, *, milliseconds: float = 5.0):
        """A game.

        Args:
          milliseconds: for each move.
        """
        super().__init__(TicTacToeGame(opening=True, fault=lambda board, action: time.sleep(milliseconds / 1e3)))


def same_leaves(left: Any, right: Any) -> bool:
    """Whether two flat records of arrays agree bit by bit."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)
