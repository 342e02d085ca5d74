"""Nim on the host, as `examples.nim` has it compiled: take one to three sticks, taking the last one wins.

A heap of a multiple of 4 is lost for the seat that is to move, any other is won by leaving a multiple of 4.
"""

from __future__ import annotations

import struct

import numpy as np

from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame, python_engine

LARGEST = 12


def best(heap: int) -> set[int]:
    """Returns the actions that win (action a takes a + 1), none if the heap is lost."""
    return {heap % 4 - 1} if heap % 4 else set()


LAYOUT = "<iiiQIiI"  # heap, asked, winner + 1, seed, slot, episode, drawn


class Heap(PythonGame):
    """One game on the host."""

    heap = asked = winner = 0

    def start(self) -> None:
        super().start()
        self.heap, self.asked, self.winner = 5 + self.draw(LARGEST - 4), 0, -1

    def step(self, action: int) -> None:
        self.heap -= action + 1
        if self.heap == 0:
            self.winner = self.asked
        self.asked = 1 - self.asked

    def player(self) -> int:
        return -1 if self.winner >= 0 else self.asked

    def legal(self, action: int) -> bool:
        return self.winner >= 0 or action < self.heap

    def ended(self) -> int:
        return int(self.winner >= 0)

    def rewards(self) -> list[float]:
        return [0.0, 0.0] if self.winner < 0 else [1.0 - 2.0 * self.winner, 2.0 * self.winner - 1.0]

    def observe(self, seat: int) -> np.ndarray:
        return (np.arange(LARGEST + 1) == self.heap).astype(np.float32)

    def mask(self) -> list[bool]:
        return [self.legal(action) for action in range(3)]

    def save(self) -> bytes:
        return struct.pack(
            LAYOUT, self.heap, self.asked, self.winner + 1, self.seed, self.slot, self.episode, self.drawn
        )

    def load(self, data: bytes) -> None:
        fields = struct.unpack(LAYOUT, data)
        self.heap, self.asked, winner, self.seed, self.slot, self.episode, self.drawn = fields
        self.winner = winner - 1


class NimGame(HostGame):
    """Nim as a host game."""

    id, version = "host_nim", "1"
    num_players, num_actions, num_features, state_bytes = 2, 3, LARGEST + 1, struct.calcsize(LAYOUT)
    perfect_information = True

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        return python_engine(self, [Heap(seed, first_slot + game) for game in range(num_games)])


class HostNim(HostEnv):
    """The same as an `Env`."""

    id, version = NimGame.id, NimGame.version

    def __init__(self) -> None:
        super().__init__(NimGame())
