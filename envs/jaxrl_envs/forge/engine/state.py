"""The saved state of a game: its key and its actions, which determine everything, and its progress."""

from __future__ import annotations

import array
import dataclasses
import struct
from collections.abc import Sequence

RUNNING, WON, DRAWN, OUT_OF_TIME, BROKEN, TOO_LONG = range(6)  # how a game ended
ENDS = ("running", "won", "draw", "timeout", "error", "cut")  # the same for `Fleet.game_finished`
MISSING = -1
LARGEST = 2**31 - 1
MAGIC = b"JXFORGE1"
_HEAD = struct.Struct("<8sQQQqqddI18i")


@dataclasses.dataclass(slots=True)
class GameProgress:
    """Progress of a game: counts and scores that follow from its key and its actions.

    Attributes:
      digest: CRC-32 of all DECISION lines.
      potential: potential of seat 0.
      seen: DECISION lines.
      partial: actions that the open decision has taken.
      asked: the seat, -1: no seat; type: the number of the decision's type.
      cards_cut: the most cards without a row at any time.
      refused: answers that the daemon did not take.
      held: bit by seat, that Forge's AI holds it to the end.
    """

    digest: int = 0
    potential: float = 0.0
    life: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    decisions: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    seen: int = 0
    partial: int = 0
    asked: int = MISSING
    type: int = MISSING
    turn: int = 0
    options_cut: int = 0
    cards_cut: int = 0
    unknown_types: int = 0
    refused: int = 0
    held: int = 0

    def numbers(self) -> tuple[int, ...]:
        """Returns all integers, in the order of `of`."""
        counts = (self.options_cut, self.cards_cut, self.unknown_types, self.refused, self.held)
        return (self.seen, self.partial, self.asked, self.type, self.turn, *counts, *self.life, *self.decisions)

    @classmethod
    def of(cls, digest: int, potential: float, numbers: Sequence[int]) -> GameProgress:
        """Returns the progress from saved numbers."""
        *counts, life, other_life, decisions, other_decisions = numbers
        return cls(digest, potential, [life, other_life], [decisions, other_decisions], *counts)

    def same_lines(self, other: GameProgress) -> bool:
        """Returns whether both have seen the same decisions."""
        return (self.seen, self.digest) == (other.seen, other.digest)

    def copy(self) -> GameProgress:
        """Returns another one with the same values."""
        return GameProgress.of(self.digest, self.potential, self.numbers())


@dataclasses.dataclass(slots=True)
class GameState:
    """A game at one of its positions.

    Attributes:
      seed, slot, episode, drawn: sources of random numbers, see `jaxrl_envs.host.python_game`.
      key: key of the game.
      actions: all of both seats.
      how: RUNNING, or how it ended; winner: a seat or -1.
      reward: reward of seat 0, by the last step.
    """

    seed: int
    slot: int
    episode: int = -1
    drawn: int = 0
    key: int = 0
    how: int = RUNNING
    winner: int = MISSING
    reward: float = 0.0
    progress: GameProgress = dataclasses.field(default_factory=GameProgress)
    actions: list[int] = dataclasses.field(default_factory=list)

    def pack(self, mark: int) -> bytes:
        """Returns all of it, for a kind of game with this mark."""
        progress, actions = self.progress, array.array("h", self.actions)
        numbers = (self.drawn, self.how, self.winner, *progress.numbers(), len(actions))
        place = (self.seed, self.key, self.slot, self.episode)
        return (
            _HEAD.pack(MAGIC, mark, *place, progress.potential, self.reward, progress.digest, *numbers)
            + actions.tobytes()
        )

    @classmethod
    def unpack(cls, data: bytes, mark: int) -> GameState | None:
        """Reads what `pack` gave, with anything behind it; None: it is damaged, or a game of another kind."""
        magic, its_mark, seed, key, slot, episode, potential, reward, digest, *numbers = _HEAD.unpack_from(data)
        drawn, how, winner, *counts, count = numbers
        if (magic, its_mark) != (MAGIC, mark) or not 0 <= count <= (len(data) - _HEAD.size) // 2:
            return None
        actions = array.array("h", data[_HEAD.size : _HEAD.size + 2 * count]).tolist()
        progress = GameProgress.of(digest, potential, counts)
        return cls(seed, slot, episode, drawn, key, how, winner, reward, progress, actions)


def state_bytes_of(max_decisions: int) -> int:
    """Returns the size of a saved game."""
    return _HEAD.size + 2 * max_decisions
