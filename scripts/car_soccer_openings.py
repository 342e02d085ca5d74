"""The book of openings of car soccer: the fastest ways to the ball from the places of a kickoff.

    python -m scripts.car_soccer_openings envs/jaxrl_envs/car_soccer/openings.npz --minutes 3

A genetic algorithm over sequences of decisions, of a car that is alone. See `jaxrl_envs.car_soccer.openings`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import cli, xla
from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.actions import NUM_ACTIONS, TABLE
from jaxrl_envs.car_soccer.env import CarSoccer

PLACES = (0, 2, 4)  # of `field.KICKOFFS`, those that are searched; the others are mirrored
STEPS = 44  # decisions, 2.9 s
AHEAD, FLIP = 18, (33, 41, 37)  # rows: straight on with boost; dodges to the front
JUMP, LEVEL = 57, (77, 73, 81, 69, 87, 35, AHEAD)  # rows: a jump with boost; rows that may end a dodge


def mirrored() -> np.ndarray:
    """i64[90], the row that does the same to the other side."""
    index = {tuple(row): number for number, row in enumerate(TABLE.tolist())}
    return np.array([index[tuple(row)] for row in (TABLE * [1, -1, 1, -1, -1, 1, 1, 1] + 0.0).tolist()])


def guess(rng: np.random.Generator) -> np.ndarray:
    """Returns rows i64[STEPS] of a drive with one or two dodges at random times."""
    rows = np.full(STEPS, AHEAD)
    at = rng.integers(1, 14)
    rows[:at] = rng.choice([AHEAD, AHEAD, AHEAD, 14, 22], at)
    for _ in range(rng.integers(1, 3)):
        wait, hold = rng.integers(0, 8), rng.integers(1, 10)
        dodge = [JUMP, rng.choice([35, 31, 39, AHEAD]), rng.choice(FLIP), *[rng.choice(LEVEL)] * hold]
        dodge = [*dodge, *[rng.choice([AHEAD, 53, 59, 51, 63])] * wait][: STEPS - at]
        rows[at : at + len(dodge)] = dodge
        at += len(dodge)
    return rows


def child(rng: np.random.Generator, pool: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns rows i64[STEPS] with some of them drawn again, left out or repeated, and sometimes another's end."""
    cut = rng.integers(1, STEPS) if rng.random() < 0.3 else STEPS
    rows = np.concatenate([rows[:cut], pool[rng.integers(len(pool)), cut:]])
    for _ in range(rng.integers(1, 5)):
        at, length = rng.integers(0, STEPS), rng.integers(1, 6)
        match rng.integers(0, 4):
            case 0:
                rows[at : at + length] = rng.integers(0, NUM_ACTIONS)
            case 1:
                rows[at : at + length] = rng.choice([AHEAD, 14, 22, 16, JUMP, *FLIP, 77, 35])
            case 2:
                rows[at + 1 :] = rows[at:-1].copy()
            case 3:
                rows[at:-1] = rows[at + 1 :].copy()
    return rows


class Track:
    """Kickoffs of a car that is alone, driven by given rows."""

    def __init__(self) -> None:
        options: dict[str, Any] = {"setters": {"kickoff": 1}, "terminations": (), "truncations": {"timeout": 60}}
        env = CarSoccer(teams=(1, 0), **options)
        states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 200))
        where = np.asarray(states.game.arena.cars.position.array[:, 0, :2])
        first = [np.argmin(np.abs(where - place[:2]).sum(axis=1)) for place in field.KICKOFFS]
        self._starts = jax.tree.map(lambda leaf: leaf[np.array(first)], states)

        def play(state: Any, rows: jax.Array) -> tuple[jax.Array, ...]:
            def step(state: Any, row: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
                after = env.driven(state, jnp.asarray(TABLE)[row][None])
                arena, place = after.game.arena, state.game.arena.cars.position.array[0, :2]
                ball, speed = arena.ball.velocity, arena.cars.velocity.length[0]
                return after, (arena.counts.last_touch[0], place, ball.y, ball.x, speed)

            return jax.lax.scan(step, state, rows)[1]

        self._play = jax.jit(jax.vmap(play))

    def drive(self, places: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        """Returns by decision of rows [N, STEPS]: tick of the last touch, place before, ball's velocity y, x, speed."""
        start = jax.tree.map(lambda leaf: leaf[places], self._starts)
        return [np.asarray(each) for each in self._play(start, rows)]

    def scores(self, places: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns scores f64[N] and ticks of the first touch, inf without one.

        A tick earlier is worth 1; of equal ones the ball that goes forwards and the faster car are better.
        """
        touch, place, forwards, sideways, speed = self.drive(places, rows)
        hit, at = (touch >= 0).any(-1), (touch >= 0).argmax(-1)[:, None]
        ball = [np.take_along_axis(each, np.minimum(at + 1, STEPS - 1), -1)[:, 0] for each in (forwards, sideways)]
        speed = np.take_along_axis(speed, np.maximum(at - 1, 0), -1)[:, 0]
        tick = np.where(hit, np.take_along_axis(touch, at, -1)[:, 0], np.inf)
        good = -tick + ball[0] / 400 - np.abs(ball[1]) / 1500 + 0.003 * (speed - 2000)
        return np.where(hit, good, -8 * STEPS - np.linalg.norm(place, axis=-1).min(-1) / 10), tick


def search(path: Path, minutes: float, seed: int, size: int = 320, parents: int = 48) -> None:
    """Searches for CPU minutes after compiling, and writes the book."""
    rng, track, places = np.random.default_rng(seed), Track(), np.repeat(PLACES, size)
    rows = np.stack([[guess(rng) for _ in range(size)] for _ in PLACES])
    generation, end = 0, np.inf
    while time.process_time() < end:
        found = track.scores(places, rows.reshape(-1, STEPS))
        values, ticks = (each.reshape(len(PLACES), size) for each in found)
        end = min(end, time.process_time() + 60 * minutes)  # after the first one, which compiles
        order = np.argsort(-values, axis=1, kind="stable")
        best, first = (each[np.arange(len(PLACES)), order[:, 0]] for each in (rows, ticks))
        for at, ranked in enumerate(order):
            kept = np.unique(rows[at, ranked[: 2 * parents]], axis=0, return_index=True)[1]
            pool = rows[at, ranked[np.sort(kept)[:parents]]]
            drawn = np.minimum(rng.exponential(parents / 4, size - len(pool) - 8).astype(int), len(pool) - 1)
            children = [child(rng, pool, pool[one]) for one in drawn]
            rows[at] = np.stack([*pool, *children, *(guess(rng) for _ in range(8))])
        generation += 1
        print(f"generation {generation}: first touch after {np.round(first / field.TICKS, 2)} s", flush=True)
    write(path, track, best)


def write(path: Path, track: Track, best: np.ndarray) -> None:
    """Writes rows i64[3, STEPS] as the book of all five places, to two decisions after the touch."""
    rows = best[[0, 0, 1, 1, 2]]
    rows[[1, 3]] = mirrored()[rows[[1, 3]]]
    touch, place, *_ = track.drive(np.arange(len(field.KICKOFFS)), rows)
    ends = (touch >= 0).argmax(-1) + 3
    rows[np.arange(STEPS) >= ends[:, None]] = -1
    longest = ends.max()
    path_of = np.round(place[:, :longest]).astype(np.int16)
    np.savez_compressed(path, rows=rows[:, :longest].astype(np.int8), path=path_of)


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.Parser(prog="python -m scripts.car_soccer_openings", description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="file of the book, .npz")
    parser.add_argument("--minutes", type=float, default=3.0, help="CPU minutes of the search (default: 3)")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def run(options: argparse.Namespace) -> int:
    """Searches and writes a book; returns the exit code."""
    xla.prepare_game("car_soccer")
    search(options.path, options.minutes, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(lambda: run(arguments().parse_args())))
