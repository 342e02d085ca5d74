"""Recorded games in memory, to learn from: every question, what was answered, and how the game ended.

Observations of games with many things are mostly zeros: what is not zero is kept with its place, exactly, and only
minibatches are written out. Shape letters: N questions, F features, A actions, B questions of a minibatch.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl_envs.host.game import Demonstrations, HostGame
from jaxrl_envs.shared.errors import UserError

_LIMITED = re.compile(r"(?P<path>.+)@(?=.)(?P<most>\d+)?(?:x(?P<weight>\d+(?:\.\d*)?|\.\d+))?")


class Questions(NamedTuple):
    """Some questions, written out; B may be several axes."""

    observation: np.ndarray  # f32[B, F]
    mask: np.ndarray  # bool[B, A]
    action: np.ndarray  # i32[B]
    value: np.ndarray  # f32[B], what the seat earned from here on, discounted


@dataclasses.dataclass(frozen=True)
class Examples:
    """All questions of some games."""

    place: np.ndarray  # u16[Z] or u32[Z], of each number that is not 0 in its observation
    number: np.ndarray  # f32[Z]
    start: np.ndarray  # i64[N + 1], where a question's numbers begin
    mask: np.ndarray  # u8[N, ceil(A / 8)], packed
    action: np.ndarray  # i32[N]
    value: np.ndarray  # f32[N]
    weight: np.ndarray  # f32[N], how much each counts
    kind: np.ndarray  # i32[N], of `HostGame.question_kinds`; -1: not told
    game: np.ndarray  # i32[N], from 0
    units: np.ndarray  # i64[N] or i64[R, q], what is learnt as one: questions, or rows of `sequences`
    features: int  # F
    actions: int  # A

    def __len__(self) -> int:
        return len(self.action)

    @property
    def games(self) -> int:
        """Number of games."""
        return int(self.game[-1]) + 1 if len(self.game) else 0

    def joined(self, other: Examples) -> Examples:
        """Joins these and others of the same game."""
        names = "place", "number", "mask", "action", "value", "weight", "kind"
        both: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        width = max(self.units.shape[-1], other.units.shape[-1])
        units = [_widened(self.units, width), _widened(other.units, width)]
        units[1] = np.where(units[1] >= 0, units[1] + len(self), -1)
        start = np.concatenate([self.start, self.start[-1] + other.start[1:]])
        game = np.concatenate([self.game, self.games + other.game])
        return dataclasses.replace(self, **both, start=start, game=game, units=np.concatenate(units))

    def units_of(self, questions: int) -> int:
        """Returns the number of units that have about `questions` questions."""
        return max(1, questions // self.units[0].size)

    def batch(self, index: np.ndarray) -> Questions:
        """Returns the questions with these numbers, i64[B]; those below 0 stand for none."""
        shape, index = index.shape, np.maximum(index.ravel(), 0)
        observation = np.zeros((len(index), self.features), np.float32)
        first, count = self.start[index], self.start[index + 1] - self.start[index]
        row = np.repeat(np.arange(len(index)), count)
        where = np.arange(len(row)) + np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
        observation[row, self.place[where]] = self.number[where]
        parts = observation, self.masks(index), self.action[index], self.value[index]
        return Questions(*(part.reshape(*shape, *part.shape[1:]) for part in parts))

    def masks(self, index: np.ndarray) -> np.ndarray:
        """Returns bool[B, A]."""
        return np.unpackbits(self.mask[index], axis=1, count=self.actions).astype(bool)


def _widened(units: np.ndarray, width: int) -> np.ndarray:
    """Returns `units` with rows of i64[width], filled up with -1; single questions stay single."""
    if units.ndim == 1:
        return units
    return np.pad(units, ((0, 0), (0, width - units.shape[1])), constant_values=-1)


@dataclasses.dataclass
class Found:
    """Demonstrations read so far."""

    games: list[Demonstrations] = dataclasses.field(default_factory=list)  # `observation` is empty: see `packed`
    packed: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = dataclasses.field(default_factory=list)
    """Place, number, how many of each question."""
    weights: list[float] = dataclasses.field(default_factory=list)  # of each game
    files: int = 0
    without_result: int = 0  # games that were cut off: nothing tells who would have won
    twice: int = 0  # games that were there already
    known: set[bytes] = dataclasses.field(default_factory=set)  # digests of games that are not to come again


class Source(NamedTuple):
    """Recordings that are named together."""

    text: str
    files: list[Path]
    most: int = 0  # games of it, the first ones; 0: all
    weight: float = 1.0  # of each decision


def source_of(game: HostGame, text: str) -> Source:
    """Parses `PATH`, `PATH@GAMES`, `PATH@xWEIGHT` or `PATH@GAMESxWEIGHT`. Raises UserError: a path does not exist, or
    there is no recording in it."""
    split = _LIMITED.fullmatch(text)
    if split is None or Path(text).expanduser().exists():
        return Source(text, files_of(game, [text]))
    path, most, weight = split["path"], int(split["most"] or 0), float(split["weight"] or 1.0)
    if weight == 0.0 or split["most"] == "0":
        raise UserError(f"--data: {text!r} would take nothing of it: leave it out.")
    return Source(path, files_of(game, [path]), most, weight)


def files_of(game: HostGame, paths: Sequence[str]) -> list[Path]:
    """Returns the recordings that are named, or lie in a folder that is named. Raises UserError: a path does not exist,
    or holds no recordings."""
    found: list[Path] = []
    for text in paths:
        path = Path(text).expanduser()
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
            fitting = [each for each in inside if not game.recordings or each.name.endswith(game.recordings)]
            if not fitting:
                kinds = " or ".join(game.recordings) or "files"
                raise UserError(f"--data: there are no recorded games ({kinds}) in {path}.")
            found += fitting
        elif path.is_file():
            found.append(path)
        else:
            raise UserError(f"--data: there is no file or folder {text!r} (a bot is bot:NAME).")
    return list(dict.fromkeys(found))


def read(game: HostGame, sources: Sequence[Source], tell: Callable[[str], None] = lambda text: None) -> Found:
    """Returns all games of some recordings. `sources`: results of `source_of`; `tell`: hears about the progress now and
    then."""
    found = Found()
    read_into(found, game, sources, tell)
    return found


def read_into(found: Found, game: HostGame, sources: Sequence[Source], tell: Callable[[str], None]) -> None:
    """Reads recordings as `read` does, beside what was found before."""
    count = sum(len(source.files) for source in sources)

    def told() -> None:
        tell(f"{len(found.games)} games from {found.files} of {count} files")

    for source in sources:
        end = len(found.games) + source.most
        for path in source.files:
            if source.most and len(found.games) >= end:
                break
            found.files += 1
            left = end - len(found.games) if source.most else 0
            take(found, game, str(path), game.demonstrations(path), told, left, source.weight)


def take(
    found: Found,
    game: HostGame,
    path: str,
    shown: Iterable[Demonstrations],
    told: Callable[[], None] = lambda: None,
    most: int = 0,
    weight: float = 1.0,
) -> None:
    """Adds the games `shown` to `found`. `path`: their origin, for messages. `told`: called now and then. `most`:
    number of games; 0: all. `weight`: of their decisions."""
    begun = len(found.games)
    for recorded in _useful(game, path, shown):
        if not np.isfinite(recorded.result).all():
            found.without_result += 1
            continue
        digest = hashlib.sha256(recorded.observation.tobytes() + recorded.action.tobytes()).digest()
        if digest in found.known:  # in another file too: a game must not be both learnt from and checked with
            found.twice += 1
            continue
        found.known.add(digest)
        found.packed.append(_packed(recorded.observation))
        found.games.append(recorded._replace(observation=np.empty((0, 0), np.float32)))
        found.weights.append(weight)
        if len(found.games) % 100 == 0:
            told()
        if most and len(found.games) - begun >= most:
            return


def _useful(game: HostGame, path: str, source: Iterable[Demonstrations]) -> Iterator[Demonstrations]:
    """Yields games with their real questions: those with a choice, and a legal answer."""
    for recorded in source:
        legal = recorded.mask[np.arange(len(recorded.action)), recorded.action]
        if not legal.all():
            raise UserError(f"{path} does not fit this version of {game.id}: a recorded answer is no legal action.")
        chosen = recorded.mask.sum(axis=1) > 1
        if chosen.any():
            observation, mask, action, seat = (part[chosen] for part in recorded[:4])
            before, kind = (None if part is None else part[chosen] for part in recorded[5:])
            yield Demonstrations(observation, mask, action, seat, recorded.result, before, kind)


def _packed(observation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packs the non-zero numbers of f32[n, F]: their places in the row, the numbers, and their count in each row."""
    row, place = np.nonzero(observation)
    small = np.uint16 if observation.shape[1] <= 1 << 16 else np.uint32
    return place.astype(small), observation[row, place], np.bincount(row, minlength=len(observation))


def examples_of(
    game: HostGame, found: Found, chosen: Sequence[int], gamma: float, *, in_order: bool = False
) -> Examples:
    """Returns some games to learn from. `gamma`: discounts per own decision of a seat, as the learner does; `in_order`:
    the questions of a game and seat are learnt together, as a network that remembers meets them."""
    games, packed = [found.games[i] for i in chosen], [found.packed[i] for i in chosen]
    counts = np.concatenate([each[2] for each in packed])
    sizes = [len(each.action) for each in games]
    return Examples(
        place=np.concatenate([each[0] for each in packed]),
        number=np.concatenate([each[1] for each in packed]),
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        mask=np.concatenate([np.packbits(each.mask, axis=1) for each in games]),
        action=np.concatenate([each.action for each in games]).astype(np.int32),
        value=np.concatenate([_values(each, gamma) for each in games]),
        weight=np.repeat(np.array([found.weights[i] for i in chosen], np.float32), sizes),
        kind=np.concatenate([np.full(len(each.action), -1) if each.kind is None else each.kind for each in games]),
        game=np.repeat(np.arange(len(games)), sizes).astype(np.int32),
        units=sequences([each.seat for each in games]) if in_order else np.arange(sum(sizes)),
        features=game.num_features,
        actions=game.num_actions,
    )


def sequences(seats: Sequence[np.ndarray]) -> np.ndarray:
    """Returns i64[R, q]: the numbers of the questions of each seat in each game, in order, and -1 behind the last one.
    `seats`: i32[n] for each game, who was asked; questions are numbered through all games."""
    rows, first = [], 0
    for seat in seats:
        rows += [first + np.flatnonzero(seat == number) for number in np.unique(seat)]
        first += len(seat)
    found = np.full((len(rows), max(map(len, rows))), -1)
    for row, numbers in zip(found, rows, strict=True):
        row[: len(numbers)] = numbers
    return found


def _values(game: Demonstrations, gamma: float) -> np.ndarray:
    """f32[n]: what the seat asked earns from there on, discounted by how many decisions of its own come before that."""
    value = np.zeros(len(game.seat))
    for seat, result in enumerate(game.result.astype(np.float64)):
        own, following = np.flatnonzero(game.seat == seat), 0.0
        before = np.zeros(len(own)) if game.before is None else game.before[own, seat]
        for number, earned in zip(own[::-1], np.diff(before, append=result)[::-1], strict=True):
            value[number] = following = earned + gamma * following
    return value.astype(np.float32)


class DemonstrationSplit:
    """Games to learn from and games to check with; more of them are divided in the same way."""

    def __init__(self, game: HostGame, gamma: float, in_order: bool, share: float, seed: int):
        """None yet; `share` of the games are to check with, for the others see `examples_of`."""
        self._game, self._gamma, self._in_order, self._share, self._seed = game, gamma, in_order, share, seed
        self._parts: list[Examples] = []
        self.known: set[bytes] = set()

    @property
    def train(self) -> Examples:
        """The games to learn from."""
        return self._parts[0]

    @property
    def check(self) -> Examples:
        """The games to check with."""
        return self._parts[1]

    def examples(self, found: Found, chosen: Sequence[int] | None = None) -> Examples:
        """Returns all games, or some."""
        numbers = range(len(found.games)) if chosen is None else chosen
        return examples_of(self._game, found, numbers, self._gamma, in_order=self._in_order)

    def add(self, found: Found) -> None:
        """Adds more games. Raises UserError: there are too few."""
        self.known |= found.known
        new = [self.examples(found, part) for part in split(len(found.games), self._share, self._seed)]
        both = zip(self._parts, new, strict=True) if self._parts else ()
        self._parts = [old.joined(more) for old, more in both] or new

    def summary(self, found: Found) -> str:
        """Returns a sentence for people, after these were added."""
        left = [f"{found.without_result} cut off"] if found.without_result else []
        left += [f"{found.twice} twice there"] if found.twice else []
        source = f" from {found.files} file(s)" if found.files else ""
        more = f" (left out: {' and '.join(left)})" if left else ""
        return (
            f"{len(found.games)} games{source}{more}: {self.train.games} with {len(self.train):,} decisions to "
            f"learn from, {self.check.games} with {len(self.check):,} to check with"
        )


def split(games: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Returns the numbers of the games to learn from and of those to check with: whole games, drawn by `seed`. Raises
    UserError: there are too few."""
    if games < 2:
        raise UserError(f"{games} recorded game(s): at least two are needed, one to learn from and one to check with.")
    order = np.random.default_rng(seed).permutation(games)
    check = min(max(1, round(share * games)), games - 1)
    return sorted(map(int, order[check:])), sorted(map(int, order[:check]))
