"""Trainings with actors for tests: small, and with engines that can be made to fail."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

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
    """Returns a program for TicTacToe, or for another game."""
    return make_program(config, env or HostTicTacToe(opening=True))


def threads_left() -> list[str]:
    """Returns the names of the threads that should have ended; waits a little for those that are ending."""
    names = "actor", "engine", "worker"

    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]

    wait_until(lambda: not left(), 20.0)
    return left()


# ---- engines that fail --------------------------------------------------------------------------------------------


class Trouble:
    """Raises at a move of game `game` once the file named in TROUBLE exists."""

    def __init__(self, game: int):
        self.game = game

    def __call__(self, board: Board, action: int) -> None:
        if board.slot == self.game and os.path.exists(os.environ["TROUBLE"]):
            raise ZeroDivisionError("the dice are lost")


class Troubled(HostEnv):
    """TicTacToe whose game 17 fails as soon as there is trouble."""

    id, version = "troubled", "1"

    def __init__(self) -> None:
        super().__init__(TicTacToeGame(opening=True, fault=Trouble(17)))
