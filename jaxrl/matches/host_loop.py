"""The game loop on the host: seats are asked, the game steps, and a recorder is shown every step.

It plays everything that people look at: `jaxrl play`, films, replays and highlights. Tables of `jaxrl serve` take the
same steps one by one, because they wait for browsers. Batches of matches are one compiled program instead, which is the
fast path (`jaxrl.matches.match`); engines in other processes answer when they are ready (`jaxrl.matches.remote`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax

from jaxrl_envs.contract.env import Key, State


class SteppedGame(Protocol):
    """A dealt game, or several side by side."""

    state: State
    time: int  # steps so far

    @property
    def over(self) -> bool:
        """Whether nothing is left to play."""

    def step(self, action: Any, key: Any) -> State:
        """Takes the action of the seat that is asked, or of all seats, and returns the new state."""


Keys = Callable[[int], tuple[Any, Any]]
"""time -> what the players draw from, and what chance draws from, at that step."""

Ask = Callable[[Any], Any]
"""what the players draw from -> the action; None if the game was set back instead."""

Record = Callable[[State, Any, State], None]
"""Is shown (before, action, after) of every step."""


def play_host_game(game: SteppedGame, keys: Keys, ask: Ask, record: Record) -> None:
    """Plays a game to its end."""
    while not game.over:
        for_players, for_chance = keys(game.time)
        action = ask(for_players)
        if action is not None:
            before = game.state
            record(before, action, game.step(action, for_chance))


class KeyChain:
    """`Keys` split one after the other from a single key; a game that was set back meets the same ones again."""

    def __init__(self, key: Key):
        """Splits nothing yet."""
        self._next, self._known = key, list[tuple[Key, Key]]()

    def __call__(self, time: int) -> tuple[Key, Key]:
        """Returns the keys of the players and of chance at a step."""
        while len(self._known) <= time:
            self._next, for_players, for_chance = jax.random.split(self._next, 3)
            self._known.append((for_players, for_chance))
        return self._known[time]
