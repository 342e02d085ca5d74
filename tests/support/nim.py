"""Nim with one heap, compiled and on the host: take one to three sticks, taking the last one wins.

A heap of a multiple of 4 is lost for the seat that is to move, any other is won by leaving a multiple of 4.
"""

from __future__ import annotations

import struct as bytes_of

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame

LARGEST = 12


def best(heap: int) -> set[int]:
    """The actions that win (action a takes a + 1); empty if none does."""
    return {heap % 4 - 1} if heap % 4 else set()


def win_rate_against_random(q: np.ndarray, games: int, seed: int = 0) -> float:
    """Of the greedy player with the action values f32[LARGEST, 3] (row h - 1: heap h), from both seats in turn."""
    random, won = np.random.default_rng(seed), 0
    for game in range(games):
        heap, seat = int(random.integers(5, LARGEST + 1)), 0
        while heap:
            greedy = seat == game % 2
            heap -= 1 + (int(np.argmax(q[heap - 1])) if greedy else int(random.integers(min(heap, 3))))
            won += greedy and not heap
            seat = 1 - seat
    return won / games


@struct.dataclass
class NimState(State):
    heap: jax.Array  # i8[]


class Nim(Env):
    """Heaps of 5 to LARGEST sticks."""

    id = "nim"
    version = "1"

    def __init__(self) -> None:
        self.num_players, self.num_actions = 2, 3

    def _init(self, key: Key) -> NimState:
        heap = jax.random.randint(key, (), 5, LARGEST + 1).astype(jnp.int8)
        return NimState(observation=None, heap=heap, **public_fields(num_players=2, num_actions=3))

    def _step(self, state: NimState, action: jax.Array, key: Key) -> NimState:
        heap = (state.heap - 1 - action).astype(jnp.int8)
        won = heap == 0
        sign = jnp.where(jnp.arange(2) == state.current_player, 1.0, -1.0)
        return state.replace(
            current_player=1 - state.current_player,
            heap=heap,
            legal_action_mask=jnp.arange(3) < heap,
            rewards=jnp.where(won, sign, 0.0).astype(jnp.float32),
            terminated=won,
        )

    def observe(self, state: NimState, seat: jax.Array) -> jax.Array:
        """bool[LARGEST + 1]: the size of the heap."""
        return jnp.arange(LARGEST + 1) == state.heap

    def permute_hidden(self, state: NimState, seat: jax.Array, key: Key) -> NimState:
        return state


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
        return bytes_of.pack(
            LAYOUT, self.heap, self.asked, self.winner + 1, self.seed, self.slot, self.episode, self.drawn
        )

    def load(self, data: bytes) -> None:
        fields = bytes_of.unpack(LAYOUT, data)
        self.heap, self.asked, winner, self.seed, self.slot, self.episode, self.drawn = fields
        self.winner = winner - 1


class NimGame(HostGame):
    """Nim as a host game."""

    id, version = "host_nim", "1"
    num_players, num_actions, num_features, state_bytes = 2, 3, LARGEST + 1, bytes_of.calcsize(LAYOUT)
    perfect_information = True

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        heaps = [Heap(seed, first_slot + game) for game in range(num_games)]
        sizes = {"num_players": 2, "num_actions": 3, "num_features": LARGEST + 1, "num_stats": 0, "num_info": 0}
        return PythonEngine(heaps, **sizes, num_bots=1, state_bytes=self.state_bytes)


class HostNim(HostEnv):
    """The same as an `Env`."""

    id, version = NimGame.id, NimGame.version

    def __init__(self) -> None:
        super().__init__(NimGame())
