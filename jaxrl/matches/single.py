"""One game on the host, step by step, for people: `jaxrl play` and `jaxrl film`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxrl.envs.core import Env, Key, PyTree, State
from jaxrl.players import Player, no_memory

_OF_THE_MEMORY = 0xFFFFFFFF  # folded into a key for a memory, less the seat


class Saved(NamedTuple):
    """A moment of a game."""

    state: State
    memory: tuple[PyTree, ...]  # of each seat


class SingleGame:
    """A game between players, who remember; in a turn-based one some seats may be left to the caller."""

    def __init__(self, env: Env, players: Sequence[Player | None]):
        """Deals nothing yet.

        Args:
          env: the game.
          players: of the seats; None is the caller.
        """
        self._env, self._players = env, list(players)
        self._init, self._step = jax.jit(env.init), jax.jit(env.step)
        self._programs: dict[Callable, Callable] = {}
        self._memory: list[PyTree] = []
        self.state: State

    def deal(self, key: Key) -> State:
        """The first state of a new game."""
        self.state, self._memory = self._init(key), []
        for seat, player in enumerate(self._players):
            if player is None or player.init is no_memory:
                self._memory.append(())
            else:
                memory_key = jax.random.fold_in(key, np.uint32(_OF_THE_MEMORY - seat))
                self._memory.append(self._call(player.init)(player.params, self.state, np.int32(seat), memory_key))
        return self.state

    def answer(self, key: Key) -> int | np.ndarray:
        """What the player of the seat asked does; of all seats, i32[P], where they act at the same time."""
        if self._env.simultaneous:
            seats = range(self._env.num_players)
            return np.array([self._together(seat, jax.random.fold_in(key, seat)) for seat in seats], np.int32)
        seat, player = self._asked()
        action, self._memory[seat] = self._call(player.act)(player.params, self._memory[seat], self.state, key)
        return int(action)

    def _together(self, seat: int, key: Key) -> int:
        """What one of the seats that act at the same time does: its player answers for all, and only that counts."""
        player, seats = self._players[seat], self._env.num_players
        assert player is not None
        memory = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (seats, *leaf.shape)), self._memory[seat])
        actions, after = self._call(player.act)(player.params, memory, self.state, key)
        self._memory[seat] = jax.tree.map(lambda leaf: leaf[seat], after)
        return int(actions[seat])

    def advice(self, key: Key) -> tuple[int, np.ndarray | None]:
        """What the player of the seat asked would do, and f32[A] if it tells probabilities; nobody remembers it."""
        seat, player = self._asked()
        action, _ = self._call(player.act)(player.params, self._memory[seat], self.state, key)
        if player.odds is None:
            return int(action), None
        return int(action), np.asarray(self._call(player.odds)(player.params, self._memory[seat], self.state))

    def save(self) -> Saved:
        """The present, for `restore`."""
        return Saved(self.state, tuple(self._memory))

    def restore(self, saved: Saved) -> None:
        """Goes back to what was `save`d."""
        self.state, self._memory = saved.state, list(saved.memory)

    def step(self, action: int | np.ndarray, key: Key) -> State:
        """The state after an action of the seat asked, or after those of all seats, i32[P]."""
        before, number = self.state, np.asarray(action, np.int32)
        self.state = self._step(before, number, key)
        for seat, player in enumerate(self._players):
            if player is not None and player.observe is not None:
                memory_key = jax.random.fold_in(key, np.uint32(_OF_THE_MEMORY - seat))
                told = (before, number, self.state, np.int32(seat), memory_key)
                self._memory[seat] = self._call(player.observe)(player.params, self._memory[seat], *told)
        return self.state

    def _asked(self) -> tuple[int, Player]:
        seat = int(self.state.current_player)
        player = self._players[seat]
        if player is None:
            raise ValueError(f"nobody sits in seat {seat}")
        return seat, player

    def _call(self, function: Callable) -> Callable:
        if function not in self._programs:
            self._programs[function] = jax.jit(function)
        return self._programs[function]
