"""One game of a host engine in plain Python: the easiest way to try rules, and the referee of faster engines.

class Nim(PythonGame): ...
engine = PythonEngine([Nim(seed, slot) for slot in range(64)], num_players=2, ...)
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from envs.host.engine import random_below, random_word


class PythonGame(abc.ABC):
    """One game, the Python side of `envs.host.engine.PythonEngine`; its methods are those of `engine.pxd`.

    Attributes:
      seed, slot, episode: what the game's random numbers come from; `draw` counts in `drawn`. A subclass saves all of
        them with its state.
    """

    def __init__(self, seed: int, slot: int):
        self.seed, self.slot, self.episode = seed, slot, -1
        self.drawn = 0

    def draw(self, n: int) -> int:
        """One of 0 .. n - 1, uniformly, from the game's own stream."""
        word = random_word(self.seed, self.slot, self.episode, 1, self.drawn)
        self.drawn += 1
        return random_below(word, n)

    def start(self) -> None:
        """Begins the next episode; a subclass sets up its position after this."""
        self.episode += 1
        self.drawn = 0

    def reseed(self, seed: int) -> None:
        """All that is drawn later, by the next `start` too, comes from this seed; the position stays."""
        self.seed, self.drawn = seed, 0

    @abc.abstractmethod
    def step(self, action: int) -> None:
        """Applies a legal action of the seat asked and runs to the next question or the end."""

    @abc.abstractmethod
    def player(self) -> int:
        """The seat asked. When the game is over: -1, or after a cut the seat that would have been asked."""

    @abc.abstractmethod
    def legal(self, action: int) -> bool:
        """Whether 0 <= action < A is legal now."""

    @abc.abstractmethod
    def ended(self) -> int:
        """0 running, 1 terminated, 2 truncated."""

    @abc.abstractmethod
    def rewards(self) -> Sequence[float]:
        """f32[P], what each seat earned by the last `start` or `step`."""

    @abc.abstractmethod
    def observe(self, seat: int) -> Any:
        """f32[F], what `seat` may see; also asked of a finished game."""

    @abc.abstractmethod
    def mask(self) -> Any:
        """bool[A]; all True when the game is over."""

    @abc.abstractmethod
    def save(self) -> bytes:
        """At most state_bytes bytes: the position, `seed`, `slot`, `episode`, `drawn`; equal states, equal bytes."""

    @abc.abstractmethod
    def load(self, data: bytes) -> None:
        """Continues from what `save` gave, filled up with zeros to state_bytes."""

    def bot(self, number: int) -> int:
        """The action of scripted player `number` for the seat asked; 0 is random."""
        if number != 0:
            raise ValueError(f"there is no bot {number}")
        choices = [action for action, legal in enumerate(self.mask()) if legal]
        return choices[self.draw(len(choices))]

    def stats(self) -> Any:
        """f32[P, K] of a finished game."""
        return ()

    def info(self) -> Any:
        """i32[I] of a running or finished game."""
        return ()
