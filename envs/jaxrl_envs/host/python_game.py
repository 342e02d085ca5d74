"""Games of a host engine in plain Python: the easiest way to try rules, and referees of faster engines.

class Nim(PythonGame): ...

class NimGame(HostGame):
    def engine(self, num_games, seed, *, first_slot=0):
        return python_engine(self, [Nim(seed, first_slot + i) for i in range(num_games)])
"""

from __future__ import annotations

import abc
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jaxrl_envs.host.engine import PythonEngine, random_below, random_word
from jaxrl_envs.host.game import HostGame


def python_engine(game: HostGame, games: Iterable[_Episodes]) -> PythonEngine:
    """Returns an engine of these games in Python, with the sizes that their `HostGame` says."""
    return PythonEngine(
        games,
        num_players=game.num_players,
        num_actions=game.num_actions,
        num_features=game.num_features,
        num_stats=len(game.stat_names),
        num_info=len(game.info_names),
        num_bots=len(game.bots),
        state_bytes=game.state_bytes,
        simultaneous=game.simultaneous,
        delegated=game.delegated,
    )


class _Episodes(abc.ABC):
    """The members of every game, whether it asks one seat or all of them.

    Attributes:
      seed, slot, episode: the source of the game's random numbers; `draw` counts in `drawn`. A subclass saves all
        of them with its state.
    """

    def __init__(self, seed: int, slot: int):
        self.seed, self.slot, self.episode = seed, slot, -1
        self.drawn = 0

    def draw(self, n: int) -> int:
        """Returns one of 0 .. n - 1, uniformly, from the game's own stream."""
        word = random_word(self.seed, self.slot, self.episode, 1, self.drawn)
        self.drawn += 1
        return random_below(word, n)

    def start(self) -> None:
        """Begins the next episode; a subclass sets up its position after this."""
        self.episode += 1
        self.drawn = 0

    def reseed(self, seed: int) -> None:
        """Draws everything later, also in the next `start`, from this seed; the position stays."""
        self.seed, self.drawn = seed, 0

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
    def save(self) -> bytes:
        """At most state_bytes bytes: the position, `seed`, `slot`, `episode`, `drawn`; equal states, equal bytes."""

    @abc.abstractmethod
    def load(self, data: bytes) -> None:
        """Restores what `save` returned, padded with zeros to state_bytes."""

    def stats(self) -> Any:
        """f32[P, K] of a finished game."""
        return ()

    def info(self) -> Any:
        """i32[I] of a running or finished game."""
        return ()

    def _random(self, mask: Iterable[bool], bot: int) -> int:
        """Returns the action of bot 0, which every game has."""
        if bot != 0:
            raise ValueError(f"there is no bot {bot}")
        choices = [action for action, legal in enumerate(mask) if legal]
        return choices[self.draw(len(choices))]


class PythonGame(_Episodes):
    """One game that asks one seat at a time, the Python side of `jaxrl_envs.host.engine.PythonEngine`; its methods are
    those of `engine.pxd`."""

    @abc.abstractmethod
    def step(self, action: int) -> None:
        """Applies a legal action of the seat asked and runs to the next question or the end."""

    @abc.abstractmethod
    def player(self) -> int:
        """Returns the seat asked. When the game is over: -1, or after a cut the seat that would have been asked."""

    @abc.abstractmethod
    def legal(self, action: int) -> bool:
        """Returns whether 0 <= action < A is legal now."""

    @abc.abstractmethod
    def mask(self) -> Any:
        """bool[A], what `legal` says; at least one True, all True when the game is over.

        The two are compared for every action where a game begins, later only for the chosen actions.
        """

    def bot(self, number: int) -> int:
        """Returns the action of scripted player `number` for the seat asked; 0 is random."""
        return self._random(self.mask(), number)


class SimultaneousPythonGame(_Episodes):
    """One game that asks all seats at once: `PythonGame` with a seat in its questions. Its engine is made with
    ``simultaneous=True``."""

    @abc.abstractmethod
    def step(self, actions: Sequence[int]) -> None:
        """Applies a legal action of every seat (P of them) and runs to the next question or the end."""

    @abc.abstractmethod
    def legal(self, seat: int, action: int) -> bool:
        """Returns whether 0 <= action < A is legal for `seat` now."""

    @abc.abstractmethod
    def mask(self, seat: int) -> Any:
        """bool[A] of `seat`, what `legal` says; at least one True, all True when the game is over."""

    def bot(self, seat: int, number: int) -> int:
        """Returns the action of scripted player `number` for `seat`; 0 is random."""
        return self._random(self.mask(seat), number)


class ReplayedGame(_Episodes):
    """A game that cannot be saved, but follows from numbers 0 .. 2**32 - 1: what chance drew, and the actions.

    A saved state is these numbers, and loading plays them again: only the new ones where they continue the game that is
    loaded into. Mix it into `PythonGame`, with state_bytes of `saved_bytes`.

    Attributes:
      played: the numbers so far; a subclass empties it in `start` and appends to it in `_replay`.
    """

    _HEAD = struct.Struct("<QQqqQ")  # seed, slot, episode, drawn, number of the numbers

    def __init__(self, seed: int, slot: int):
        super().__init__(seed, slot)
        self.played: list[int] = []

    @classmethod
    def saved_bytes(cls, numbers: int) -> int:
        """Returns the size of a saved state of at most this many numbers."""
        return cls._HEAD.size + 4 * numbers

    @abc.abstractmethod
    def _replay(self, numbers: list[int]) -> None:
        """Goes on by these numbers; while `played` is empty, from the beginning of a game."""

    def save(self) -> bytes:
        head = self._HEAD.pack(self.seed, self.slot, self.episode, self.drawn, len(self.played))
        return head + np.array(self.played, "<u4").tobytes()

    def load(self, data: bytes) -> None:
        self.seed, self.slot, self.episode, self.drawn, count = self._HEAD.unpack_from(data)
        numbers = np.frombuffer(data, "<u4", count, self._HEAD.size).tolist()
        if numbers[: len(self.played)] != self.played:
            self.played = []
        self._replay(numbers[len(self.played) :])
