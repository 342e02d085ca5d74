"""The contract of a game whose engine lives on the host: `HostGame`, and the `Buffers` its games are written into.

The batched mirror of `jaxrl_envs.contract.env`: the same field names, seat by seat, for N games side by side. An engine
(`jaxrl_envs.host.engine`) knows the rules, `jaxrl_envs.host.bridge.HostPool` steps N of its games with threads, and
`jaxrl_envs.host.env.HostEnv` makes the same engine a pure JAX function. Nothing here imports jax.

Shape letters: N games, P seats, A actions, F features, K statistics, I info numbers, T steps.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl_envs.host.engine import Engine

RANDOM = -1  # an action: the engine draws a legal one itself
NO_ANSWER = "asks a question to which its mask allows no answer: an engine must offer a legal action"
CACHE_LINE, PAGE = 64, 4096


class EngineError(RuntimeError):
    """An engine failed in one game; the message names the game, `__cause__` is what the engine raised, if it did."""

    def __init__(self, game: int, message: str):
        super().__init__(f"game {game}: {message}")
        self.game = game


def engine_failure(error: EngineError, id: str, first: int = 0) -> UserError:
    """Returns the error of a pool of games as one sentence for users.

    Args:
      error: the pool's error; it becomes the cause.
      id: id of the game that the engine plays.
      first: number of the pool's first game among those of all actors.
    """
    game = error.game + first if error.game >= 0 else error.game
    sentence = UserError(f"the engine of {id} failed in game {game}: {str(error).partition(': ')[2]}")
    sentence.__cause__ = error
    return sentence


class HungEngine(EngineError):
    """No game made progress within the timeout; the message names one that still runs."""


class IllegalAction(ValueError):
    """An action sent is not legal; nothing was stepped. `seat` is whose it is, None unless all seats were asked."""

    def __init__(self, game: int, action: int, seat: int | None = None):
        whose = "" if seat is None else f" of seat {seat}"
        super().__init__(f"game {game}: action {action}{whose} is not legal")
        self.game, self.action, self.seat = game, action, seat


class Demonstrations(NamedTuple):
    """One recorded game of another player as n questions and its answers."""

    observation: np.ndarray  # f32[n, F]
    mask: np.ndarray  # bool[n, A], at least two legal actions each
    action: np.ndarray  # i32[n], legal
    seat: np.ndarray  # i32[n], asked
    result: np.ndarray  # f32[P], what each seat earned in the whole game; NaN if unknown
    before: np.ndarray | None = None  # f32[n, P], earned before the question; None: paid at the end
    kind: np.ndarray | None = None  # i32[n], of each question, index into `HostGame.question_kinds`; None: unknown


class HostGame(abc.ABC):
    """A game played by a host engine: its sizes and names, its engine, and what people see.

    Attributes:
      id: the name in the registry.
      version: changes whenever a rule, the action numbering or the observation changes.
      num_players, num_actions, num_features: P, A and F (observations are f32[F]).
      state_bytes: S, the size of a saved state.
      simultaneous: every step asks all P seats at once, see `Buffers`.
      bots: names of the scripted players; a bot's number is its index, and ``bots[0]`` is "random".
      reference_bot: bot, as in `jaxrl_envs.contract.env.Env`.
      stat_names: names of the K figures of a finished game.
      info_names: names of the I numbers of a running one.
      may_truncate: games may be cut off; learners then bootstrap from `Buffers.final_observation`.
      public_actions: every seat is told every action.
      perfect_information: every seat sees all of the position (not the dice to come).
      remote: the engine is another process. Its steps mostly wait, so a pool uses one thread per game; stepping a state
        is cheap only while its game is alive, so matches are played by a pool too, not by `HostEnv`.
      delegated: actions A .. A + delegated - 1, never in a mask and chosen only by bots: after such an action the
        engine plays the seat itself.
      recordings: suffixes of files with recorded games (`demonstrations`); empty: any suffix.
      question_kinds: names of the kinds of questions in recorded games.
      how_to_play, colours, free_options: attributes as in `jaxrl_envs.contract.env.Env`.
      varieties: slot + episode modulo this number decides which of several set-ups is played (rosters, maps); a
        `HostEnv` deals all of them.
    """

    id: ClassVar[str]
    version: ClassVar[str]
    num_players: int
    num_actions: int
    num_features: int
    state_bytes: int
    simultaneous: bool = False
    bots: tuple[str, ...] = ("random",)
    reference_bot: str = "random"
    stat_names: tuple[str, ...] = ()
    info_names: tuple[str, ...] = ()
    may_truncate: bool = False
    public_actions: bool = True
    perfect_information: bool = False
    remote: bool = False
    delegated: int = 0
    recordings: tuple[str, ...] = ()
    question_kinds: tuple[str, ...] = ()
    how_to_play: str = ""
    colours: Mapping[str, str] = {}
    varieties: int = 1
    free_options: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of every seat, as `jaxrl_envs.contract.env.Env.sides`; by default each seat is a side of its own."""
        return tuple(range(self.num_players))

    @abc.abstractmethod
    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> Engine:
        """Returns an engine for `num_games` games; game i draws from the streams of (seed, slot ``first_slot + i``)."""

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        """Returns a saved state (u8[S]) as text: only what `seat` may see, or everything if `seat` is None."""
        raise NotImplementedError(f"{self.id} has no text rendering")

    def render_svg(self, state: np.ndarray, seat: int | None = None) -> str:
        """Returns a saved state as one SVG document: only what `seat` may see, or everything if `seat` is None."""
        raise NotImplementedError(f"{self.id} has no SVG rendering")

    def click_areas(
        self, state: np.ndarray, seat: int, legal: Sequence[int]
    ) -> Sequence[tuple[float, float, float, float, tuple[int, ...]]]:
        """(x, y, width, height, actions) of areas of the drawing that `seat`, who is asked, may click; see
        `jaxrl_envs.contract.env.ClickArea`. `legal` are the legal actions."""
        return ()

    def action_name(self, action: int) -> str:
        """Returns a short human-readable name of an action."""
        return str(action)

    def event(self, before: np.ndarray, action: Any, after: np.ndarray, seat: int | None = None) -> str:
        """Describes what happened between two saved states, in short sentences for people: what `seat` was told of it.

        `action` is an int, or i32[P] of a simultaneous game.
        """
        del before, after, seat
        if not self.simultaneous:
            return self.action_name(action)
        return ", ".join(f"seat {each}: {self.action_name(int(chosen))}" for each, chosen in enumerate(action))

    def deploy(self, **options: Any) -> None:
        """Configures where engines of another process run (section `forge` of a configuration); called before the first
        engine is made. Games that run in this process ignore it."""
        del options

    def meant_for(self, purpose: str) -> HostGame:
        """Returns the same game for "training" or "evaluation", with separate files for its recordings."""
        del purpose
        return self

    def seat(self, engine: Engine, names: Callable[[int], Sequence[str]]) -> None:
        """Tells an engine of this game who plays, if it records that.

        Args:
          engine: result of `engine`.
          names: a game's number in the engine -> the name of each seat's player in the game that begins.
        """
        del engine, names

    def ready(self) -> None:
        """Called before a training or a measurement; raises UserError if no game can be played on this machine."""
        return

    def demonstrations(self, path: Path) -> Iterator[Demonstrations]:
        """Yields the recorded games of a file, to learn from (`jaxrl imitate`).

        Raises:
          UserError: the game has no recordings, or the file is not one of them.
        """
        raise UserError(f"{self.id} has no recorded games to learn from: {path} cannot be read.")

    def advised(self, folder: Path) -> HostGame | None:
        """The same game on the same engine processes, which records every question in `folder` together with the answer
        of the game's own player; `demonstrations` reads these answers. None: the game has no player of its own."""
        del folder
        return None

    def capacity(self) -> int:
        """Returns the number of games that can be in play at a time without slowing each other down."""
        return 32

    def patience(self) -> float:
        """Seconds without progress that are not yet a fault, e.g. while its process is restarted."""
        return 0.0

    def counters(self) -> dict[str, Any]:
        """Metrics of this process about its engines, for `jaxrl.runs.prometheus`; each may be missing.

        games_started, games_finished, restarts, evictions: int, so far. faults_by_reason: {reason: int}.
        game_seconds: {"bounds": upper ends of classes, "counts": games in each and in one beyond, "sum": seconds}.
        daemons: of each engine process a dict with name, games and busy_seconds (so far).
        """
        return {}


@dataclasses.dataclass(frozen=True)
class Buffers:
    """The results of N games, written in place by the engine threads; allocated by `make_buffers` or by the caller.

    A row describes what happened since its last action: the action itself, the moves of bots after it, and the end of
    the game if it ended. If the game ended, the next one has begun and `current_player`, `observation` and
    `legal_action_mask` are those of its first question to an outside seat.

    A simultaneous game asks all seats at once: those marked (, P) gain that axis, and the row describes a step of
    all seats. Seats held by bots are asked too, but the answers for them are ignored.

    Arrays are C-contiguous. They belong to the engine threads from `send` to `recv`. On the CPU, jax may take an
    aligned array over without a copy: pass it a copy of arrays that are still read when the next step is written.

    Attributes:
      current_player: i32[N(, P)], the outside seat asked now; arange(P) in a simultaneous game.
      observation: f32[N(, P), F], what it may see.
      legal_action_mask: bool[N(, P), A].
      action: i32[N(, P)], the action taken, also if the engine drew it itself (`RANDOM`) or a bot chose it.
      rewards: f32[N, P], what each seat earned in the game of the action.
      opening: f32[N, P], what each seat has earned in the present game before its first question; 0 unless the game
        began in this step. No decision has earned it: count it in the result of the game, but credit it to no action.
      terminated, truncated: bool[N], the game of the action ended.
      final_player: i32[N(, P)], -1 unless the game ended: after a cut the seat that would have been asked (if the
        engine says so), else the one that decided last; arange(P) in a simultaneous game.
      final_observation: f32[N(, P), F], of the ended game for that seat; written where a game ended.
      stats: f32[N, P, K], of the ended game; written where a game ended.
      info: i32[N, I], of the ended game, else of the running one.
      length: i32[N], decisions by all seats of the ended game, else of the running one (one decision a step in a
        simultaneous game).
      controllers: i8[N, P], the holders of the seats in the game of the action.
    """

    current_player: np.ndarray
    observation: np.ndarray
    legal_action_mask: np.ndarray
    action: np.ndarray
    rewards: np.ndarray
    opening: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_player: np.ndarray
    final_observation: np.ndarray
    stats: np.ndarray
    info: np.ndarray
    length: np.ndarray
    controllers: np.ndarray
    bound: Any = dataclasses.field(default=None, init=False, repr=False, compare=False)  # checked once by the bridge

    def at(self, step: int) -> Buffers:
        """Row `step` of storage with a leading [T] axis; a view."""
        return Buffers(*(array[step] for array in self.arrays().values()))

    def rows(self, rows: slice) -> Buffers:
        """Returns some of the games (of storage without a [T] axis); a view."""
        return Buffers(*(array[rows] for array in self.arrays().values()))

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns all arrays by name, not copied."""
        return {name: getattr(self, name) for name in FIELDS}

    def copy(self) -> Buffers:
        """Returns the same values in memory of its own."""
        return Buffers(*(np.array(array) for array in self.arrays().values()))


FINITE = ("observation", "rewards", "opening", "final_observation")  # non-finite values mean that the engine has failed
FIELDS: tuple[str, ...] = tuple(field.name for field in dataclasses.fields(Buffers) if field.init)


def shapes(game: HostGame | Engine, num_games: int) -> dict[str, tuple[tuple[int, ...], type]]:
    """Returns the shape and dtype of every array of `Buffers` by name, for a game or an engine."""
    n, seats = num_games, game.num_players
    asked = (n, seats) if game.simultaneous else (n,)
    num_stats = len(game.stat_names) if isinstance(game, HostGame) else game.num_stats
    num_info = len(game.info_names) if isinstance(game, HostGame) else game.num_info
    return {
        "current_player": (asked, np.int32),
        "observation": ((*asked, game.num_features), np.float32),
        "legal_action_mask": ((*asked, game.num_actions), np.bool_),
        "action": (asked, np.int32),
        "rewards": ((n, seats), np.float32),
        "opening": ((n, seats), np.float32),
        "terminated": ((n,), np.bool_),
        "truncated": ((n,), np.bool_),
        "final_player": (asked, np.int32),
        "final_observation": ((*asked, game.num_features), np.float32),
        "stats": ((n, seats, num_stats), np.float32),
        "info": ((n, num_info), np.int32),
        "length": ((n,), np.int32),
        "controllers": ((n, seats), np.int8),
    }


def make_buffers(game: HostGame | Engine, num_games: int, steps: int | None = None) -> Buffers:
    """Buffers of zeros, aligned to cache lines and the big ones to pages.

    Args:
      game: game or engine that gives their sizes.
      num_games: N.
      steps: length of a leading [T] axis, storage for that number of steps; write into ``.at(t)``.
    """
    lead = () if steps is None else (steps,)
    forms = shapes(game, num_games)
    return Buffers(**{name: aligned((*lead, *shape), dtype) for name, (shape, dtype) in forms.items()})


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros whose memory begins at a multiple of a cache line, or of a page if there is at least one page of them."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    boundary = PAGE if size >= PAGE else CACHE_LINE
    memory = np.zeros(size + boundary, np.uint8)
    offset = -memory.ctypes.data % boundary
    return memory[offset : offset + size].view(dtype).reshape(shape)
