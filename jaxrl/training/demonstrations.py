"""Recorded games in memory, to learn from: every question, what was answered, and how the game ended.

Observations of games with many things are mostly zeros: what is not zero is kept with its place, exactly, and only
minibatches are written out. Shape letters: N questions, F features, A actions, B questions of a minibatch.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxrl.envs.core import Key, State, is_over
from jaxrl.envs.errors import UserError
from jaxrl.envs.host.core import Demonstrations, HostGame
from jaxrl.envs.host.env import HostEnv

AT_A_TIME = 256  # games of bots side by side


class Questions(NamedTuple):
    """Some questions, written out; B may be several axes."""

    observation: np.ndarray  # f32[B, F]
    mask: np.ndarray  # bool[B, A]
    action: np.ndarray  # i32[B]
    value: np.ndarray  # f32[B], what the seat earned from here on, discounted


@dataclasses.dataclass(frozen=True)
class Examples:
    """All questions of some games."""

    place: np.ndarray  # u32[Z], of each number that is not 0 in its observation
    number: np.ndarray  # f32[Z]
    start: np.ndarray  # i64[N + 1], where a question's numbers begin
    mask: np.ndarray  # u8[N, ceil(A / 8)], packed
    action: np.ndarray  # i32[N]
    value: np.ndarray  # f32[N]
    game: np.ndarray  # i32[N], from 0
    units: np.ndarray  # i64[N] or i64[R, q], what is learnt as one: questions, or rows of `sequences`
    features: int  # F
    actions: int  # A

    def __len__(self) -> int:
        return len(self.action)

    @property
    def games(self) -> int:
        """How many there are."""
        return int(self.game[-1]) + 1 if len(self.game) else 0

    def units_of(self, questions: int) -> int:
        """How many units have about so many questions."""
        return max(1, questions // self.units[0].size)

    def batch(self, index: np.ndarray) -> Questions:
        """The questions with these numbers, i64[B]; those below 0 stand for none."""
        shape, index = index.shape, np.maximum(index.ravel(), 0)
        observation = np.zeros((len(index), self.features), np.float32)
        first, count = self.start[index], self.start[index + 1] - self.start[index]
        row = np.repeat(np.arange(len(index)), count)
        where = np.arange(len(row)) + np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
        observation[row, self.place[where]] = self.number[where]
        parts = observation, self.masks(index), self.action[index], self.value[index]
        return Questions(*(part.reshape(*shape, *part.shape[1:]) for part in parts))

    def masks(self, index: np.ndarray) -> np.ndarray:
        """bool[B, A]."""
        return np.unpackbits(self.mask[index], axis=1, count=self.actions).astype(bool)


class Found(NamedTuple):
    """What was read."""

    games: list[Demonstrations]  # with `observation` empty: it is in `packed`
    packed: list[tuple[np.ndarray, np.ndarray, np.ndarray]]  # place, number, how many of each question
    files: int
    without_result: int  # games that were cut off: nothing tells who would have won
    twice: int  # games that were there already


def files_of(game: HostGame, paths: Sequence[str]) -> list[Path]:
    """The recordings that are named, or lie in a folder that is named.

    Raises:
      UserError: a path does not exist, or there is none in it.
    """
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


def read(
    game: HostGame,
    files: Sequence[Path],
    tell: Callable[[str], None] = lambda text: None,
    shown: Iterable[Demonstrations] = (),
) -> Found:
    """All games of some files, and games that somebody shows.

    Args:
      game: that they are of.
      files: of `files_of`.
      tell: hears about the progress now and then.
      shown: more games, e.g. of `played_by_bots`.
    """
    games: list[Demonstrations] = []
    packed: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    known: set[bytes] = set()
    without_result = twice = questions = 0
    sources = [(str(path), game.demonstrations(path)) for path in files]
    for number, (source, games_of_it) in enumerate([*sources, ("a bot", shown)], start=1):
        for recorded in _useful(game, source, games_of_it):
            if not np.isfinite(recorded.result).all():
                without_result += 1
                continue
            digest = hashlib.sha256(recorded.observation.tobytes() + recorded.action.tobytes()).digest()
            if digest in known:  # in another file too: a game must not be both learnt from and checked with
                twice += 1
                continue
            known.add(digest)
            questions += len(recorded.action)
            packed.append(_packed(recorded.observation))
            games.append(recorded._replace(observation=np.empty((0, 0), np.float32)))
            if len(games) % 100 == 0:
                part = f" from {number} of {len(files)} files" if number <= len(files) else ""
                tell(f"{len(games)} games with {questions:,} decisions{part}")
    return Found(games, packed, len(files), without_result, twice)


def played_by_bots(env: HostEnv, names: Sequence[str], games: int, seed: int) -> Iterator[Demonstrations]:
    """Games in which bots hold all seats, each seat of each game one of them, drawn at random.

    Args:
      env: the game, which asks one seat at a time.
      names: of the bots.
      games: how many.
      seed: of everything random.

    Returns:
      The games; the result of one that was cut off is not known.

    Raises:
      UserError: there is no such bot, or the game is none for this: all seats act at once, or it is played elsewhere.
    """
    if env.simultaneous or env.game.remote:
        raise UserError(f"--data: bots of {env.id} show nothing: all seats act at once, or another process plays.")
    play = env.bot_switch(tuple(names))

    def step(state: State, holders: jax.Array, key: Key) -> tuple[State, jax.Array]:
        bot_key, step_key = jax.random.split(key)
        action = play(state, holders[state.current_player], bot_key)
        return env.step(state, action, step_key), action

    begin, go_on = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(step))
    for first in range(0, games, AT_A_TIME):
        deal_key, seat_key, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), first), 3)
        holders = jax.random.randint(seat_key, (AT_A_TIME, env.num_players), 0, len(names))
        state = begin(jax.random.split(deal_key, AT_A_TIME))
        rows: list[tuple[np.ndarray, ...]] = []
        while not (over := np.asarray(is_over(state))).all():
            after, action = go_on(state, holders, jax.random.split(jax.random.fold_in(key, len(rows)), AT_A_TIME))
            asked = state.observation, state.legal_action_mask, action, state.current_player
            rows.append((*map(np.asarray, asked), np.asarray(after.rewards), ~over))
            state = after
        parts, ended = [np.stack(part) for part in zip(*rows, strict=True)], np.asarray(state.terminated)
        for game in range(min(AT_A_TIME, games - first)):
            running = parts[5][:, game]
            observation, mask, action, seat, earned = (part[running, game] for part in parts[:5])
            total = np.cumsum(earned, axis=0)
            result = np.where(ended[game], total[-1], np.float32(np.nan))
            yield Demonstrations(observation, mask, action, seat, result, before=total - earned)


def _useful(game: HostGame, path: str, source: Iterable[Demonstrations]) -> Iterator[Demonstrations]:
    """Games with their real questions: those with a choice, and a legal answer."""
    for recorded in source:
        legal = recorded.mask[np.arange(len(recorded.action)), recorded.action]
        if not legal.all():
            raise UserError(f"{path} does not fit this version of {game.id}: a recorded answer is no legal action.")
        chosen = recorded.mask.sum(axis=1) > 1
        if chosen.any():
            observation, mask, action, seat = (part[chosen] for part in recorded[:4])
            before = None if recorded.before is None else recorded.before[chosen]
            yield Demonstrations(observation, mask, action, seat, recorded.result, before)


def _packed(observation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is not 0, f32[n, F] -> its place in the row, the number itself, and how many of them in each row."""
    row, place = np.nonzero(observation)
    return place.astype(np.uint32), observation[row, place], np.bincount(row, minlength=len(observation))


def examples_of(
    game: HostGame, found: Found, chosen: Sequence[int], gamma: float, *, in_order: bool = False
) -> Examples:
    """Some games to learn from.

    Args:
      game: that they are of.
      found: all games.
      chosen: the numbers of those wanted.
      gamma: discounts per own decision of a seat, as the learner does.
      in_order: the questions of a game and seat are learnt together, as a network that remembers meets them.
    """
    games, packed = [found.games[i] for i in chosen], [found.packed[i] for i in chosen]
    counts = np.concatenate([each[2] for each in packed])
    questions = sum(len(each.action) for each in games)
    return Examples(
        place=np.concatenate([each[0] for each in packed]),
        number=np.concatenate([each[1] for each in packed]),
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        mask=np.concatenate([np.packbits(each.mask, axis=1) for each in games]),
        action=np.concatenate([each.action for each in games]).astype(np.int32),
        value=np.concatenate([_values(each, gamma) for each in games]),
        game=np.repeat(np.arange(len(games)), [len(each.action) for each in games]).astype(np.int32),
        units=sequences([each.seat for each in games]) if in_order else np.arange(questions),
        features=game.num_features,
        actions=game.num_actions,
    )


def sequences(seats: Sequence[np.ndarray]) -> np.ndarray:
    """i64[R, q]: the numbers of the questions of each seat in each game, in order, and -1 behind the last one.

    Args:
      seats: i32[n] for each game, who was asked; questions are numbered through all games.
    """
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


def split(games: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of the games to learn from and of those to check with: whole games, drawn by `seed`.

    Raises:
      UserError: there are too few.
    """
    if games < 2:
        raise UserError(f"{games} recorded game(s): at least two are needed, one to learn from and one to check with.")
    order = np.random.default_rng(seed).permutation(games)
    check = min(max(1, round(share * games)), games - 1)
    return sorted(map(int, order[check:])), sorted(map(int, order[:check]))
