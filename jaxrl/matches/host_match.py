"""Matches of games whose engine is another process: live games in a pool, not whole states in a compiled program.

The deals, the players' random numbers and what comes out are those of `match`: deal d is episode 0 of slot d of
an engine, played once from every side, and what a player draws depends on the deal, its seat and the time alone. So
neither the number of games side by side nor the order in which they answer changes a result. Bots play their seats
inside the engine.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them), L games side by side, B rows of
a call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from envs import prng
from envs.core import Env, Key, PyTree, State
from envs.errors import UserError
from envs.host.bridge import HostPool
from envs.host.core import Buffers, EngineError, HostGame, IllegalAction, make_buffers
from envs.host.pure import blank_states
from jaxrl.matches.match import FINAL_DEALS, LANES, MAX_STEPS, Act, Games, Matchup, Player, Samples, samples_of
from jaxrl.matches.outcomes import compare, of_sides
from jaxrl.runs.metrics import duration, rate
from jaxrl.training.sebulba.faults import explained

ROWS = 8  # decisions in a call of a network: always as many, or rounding would depend on who is ready when
PATIENCE = 600.0  # seconds without progress in any game after which an engine hangs, or more if the game says so
QUIET = 10.0  # seconds before there is a word about the progress
_ENGINES = 0xFFFFFFFF  # folded into the key of the deals for the seed of the engine: no deal has this number


class Side(NamedTuple):
    """Who holds a seat: a bot of the engine, or a network with its parameters."""

    bot: str = ""
    act: Act | None = None
    params: PyTree = None


def is_remote(env: Env) -> bool:
    """Whether matches of this game are played by a pool of live games."""
    return bool(getattr(env, "host", False)) and bool(env.game.remote)  # type: ignore[attr-defined]  # a HostEnv


def make_matchup(
    env: Env,
    candidate: Player,
    opponents: Sequence[Player],
    *,
    deals: int,
    seed: int,
    stream: int = FINAL_DEALS,
    lanes: int = LANES,
) -> Matchup | HostMatchup:
    """The matchup that fits the game; arguments as for `Matchup`, whose parameters `candidate` and `opponents` bring no
    part of: those are arguments of its call."""
    settings: dict[str, Any] = {"deals": deals, "seed": seed, "stream": stream}
    if is_remote(env) and candidate.memory is None:
        return HostMatchup(env, candidate, opponents, **settings)
    acts = [player.act for player in opponents]
    return Matchup(env, candidate.act, acts, memory=candidate.memory, lanes=lanes, **settings)


class HostMatchup:
    """Candidate against equal opponents on fixed deals; called like `jaxrl.matches.match.Matchup`."""

    def __init__(
        self,
        env: Env,
        candidate: Player,
        opponents: Sequence[Player],
        *,
        deals: int,
        seed: int,
        stream: int = FINAL_DEALS,
        lanes: int = 0,
        max_steps: int = MAX_STEPS,
    ):
        """A matchup.

        Args:
          env: the game, a `HostEnv`.
          candidate: the player in question; its parameters come with each call.
          opponents: players of whom one fills all other seats; empty in a one-seat game.
          deals, seed, stream, max_steps: as for `Matchup`.
          lanes: games side by side; 0: as many as the game has room for.
        """
        self._env, self._candidate, self._opponents = env, candidate, list(opponents)
        self._base = jax.random.fold_in(jax.random.key(seed), stream)
        self._games = HostDeals(env, deals=deals, lanes=lanes, max_steps=max_steps)

    def __call__(self, candidate: PyTree, opponents: Sequence[PyTree] = (), opponent: int = 0) -> Samples:
        """Plays all deals; see `Matchup`."""
        sides = [side_of(self._candidate, candidate)]
        title = self._candidate.name
        if self._opponents:
            rival = self._opponents[opponent]
            sides.append(side_of(rival, opponents[opponent] if opponent < len(opponents) else None))
            title = f"against {rival.name}"
        games = self._games(sides, self._base, title)
        return samples_of(games.figures, games.length, self._env)


def side_of(player: Player, params: PyTree) -> Side:
    """The player with these parameters."""
    return Side(bot=player.bot) if player.bot else Side(act=player.act, params=params)


class HostDeals:
    """Plays D deals, each once in every rotation of the sides: `jaxrl.matches.match.DuplicateDeals` with live games."""

    def __init__(self, env: Env, *, deals: int, lanes: int = 0, max_steps: int = MAX_STEPS):
        """Compiles and starts nothing.

        Args:
          env: the game, a `HostEnv`.
          deals: D.
          lanes: games side by side; 0: as many as the game has room for.
          max_steps: decisions after which a game is given up.
        """
        self._env, self._deals = env, deals
        self.game: HostGame = env.game  # type: ignore[attr-defined]
        self.max_steps, self._lanes = max_steps, lanes
        self._programs: dict[Act, Callable[..., jax.Array]] = {}

    def __call__(self, sides: Sequence[Side], base: Key, title: str = "") -> Games:
        """The games with leading axes [D, rotation].

        Args:
          sides: the candidate, and who fills all other seats.
          base: key[], from which all deals are made.
          title: of the line about the progress.

        Raises:
          UserError: a player chose an illegal action, a game did not end, or the engine failed.
        """
        sides = [side._replace(params=jax.device_put(side.params)) for side in sides]
        words = np.asarray(jax.random.bits(jax.random.fold_in(base, np.uint32(_ENGINES)), (2,), jnp.uint32))
        seed = int(words[0]) << 32 | int(words[1])
        lanes = min(self._lanes or self.game.capacity(), self._deals * self._env.num_sides)
        engine = self.game.engine(lanes, seed)
        patience = max(PATIENCE, self.game.patience())
        with HostPool(engine, threads=lanes, mode="async", timeout=patience, follow=False) as pool:
            progress = ProgressLine(title, self._deals, self._env)
            table = _Table(self, pool, sides, base, self._blanks(seed, lanes), progress)
            try:
                return table.play()
            except EngineError as error:
                raise explained(error, 0) from error
            except IllegalAction as error:
                raise UserError(
                    f"a player chose an illegal action: it breaks the rules ({error}); "
                    f"run `jaxrl check` on {self._env.id}, which tries all its bots."
                ) from error

    def _blanks(self, seed: int, most: int) -> np.ndarray:
        """u8[D, S]: the deals before their first episode, made by engines of `most` games at most."""
        blanks = np.empty((self._deals, self.game.state_bytes), np.uint8)
        for first in range(0, self._deals, most):
            part = blanks[first : first + most]
            blank_states(self.game.engine(len(part), seed, first_slot=first), part)
        return blanks

    def program(self, act: Act) -> Callable[..., jax.Array]:
        """(params, base key, player's number, rows) -> i32[B], actions; see `_act`."""
        if act not in self._programs:
            self._programs[act] = jax.jit(lambda *arguments: _act(act, self._env.num_players, *arguments))
        return self._programs[act]


class _Rows(NamedTuple):
    """Questions to one player, leading axis B; NumPy arrays outside of programs."""

    observation: Any  # f32[B, F]
    mask: Any  # bool[B, A]
    seat: Any  # i32[B]
    deal: Any  # u32[B]
    rotation: Any  # i32[B]
    time: Any  # i32[B], decisions of the game so far


def _act(act: Act, seats: int, params: PyTree, base: Key, number: jax.Array, rows: _Rows) -> jax.Array:
    """i32[B]: what player `number` of a match answers, with the random numbers that it has in `jaxrl.matches.match`."""

    def one(row: _Rows) -> jax.Array:
        deal = jax.random.split(jax.random.fold_in(base, row.deal), 3)[2]
        key = jax.random.fold_in(prng.from_key(jax.random.fold_in(deal, row.rotation)), row.time)
        state = State(
            current_player=row.seat,
            observation=row.observation,
            legal_action_mask=row.mask,
            rewards=jnp.zeros(seats, jnp.float32),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            illegal_action=jnp.bool_(False),
        )
        return act(params, state, jax.random.fold_in(key, number)).astype(jnp.int32)

    return jax.vmap(one)(rows)


class _Table:
    """One match while it is played: which lane plays which game, and what the games have brought so far."""

    def __init__(
        self,
        deals: HostDeals,
        pool: HostPool,
        sides: Sequence[Side],
        base: Key,
        blanks: np.ndarray,
        progress: ProgressLine,
    ):
        self._deals, self._pool, self._sides, self._base, self._blanks = deals, pool, sides, base, blanks
        self._progress = progress
        engine = pool.engine
        self._game = deals.game
        self._side_of = np.array(self._game.sides)  # [P]
        self._rotations = self._side_of.max() + 1
        self._total, self._next = len(blanks) * self._rotations, 0
        self._rows: Buffers = make_buffers(engine, engine.num_games)
        self._number = np.zeros(engine.num_games, np.int64)  # [L], the game in each lane: deal * n + rotation
        self._earned = np.zeros((engine.num_games, engine.num_players), np.float32)
        self._returns = np.zeros((self._total, engine.num_players), np.float32)
        self._stats = np.zeros((self._total, engine.num_players, engine.num_stats), np.float32)
        self._length = np.zeros(self._total, np.int32)

    def play(self) -> Games:
        """All games, from the first to the last."""
        done = 0
        self._begin(np.arange(self._pool.engine.num_games, dtype=np.int32))
        while done < self._total:
            lanes = self._pool.recv(max(1, self._pool.num_ready))
            self._earned[lanes] += self._rows.rewards[lanes] + self._rows.opening[lanes]
            over = (self._rows.terminated | self._rows.truncated)[lanes]
            self._answer(lanes[~over])
            if over.any():
                self._finish(lanes[over])
                done += int(over.sum())
                self._begin(lanes[over])
        self._progress.close()
        names = [*self._game.stat_names, "return"]
        values = np.concatenate([self._stats, self._returns[..., None]], axis=-1)
        shape = (len(self._blanks), self._rotations, len(self._side_of))
        return Games(
            figures={name: values[..., k].reshape(shape) for k, name in enumerate(names)},
            length=self._length.reshape(shape[:2]),
            over=np.ones(shape[:2], bool),
            illegal=np.zeros(shape[:2], bool),
        )

    def _begin(self, lanes: np.ndarray) -> None:
        """The next games, as far as there are any, in lanes that have none."""
        lanes = lanes[: self._total - self._next]
        if not len(lanes):
            return
        self._number[lanes] = np.arange(self._next, self._next + len(lanes))
        self._next += len(lanes)
        self._earned[lanes] = 0.0
        bots = self._game.bots
        numbers = np.array([bots.index(side.bot) if side.bot else -1 for side in self._sides], np.int8)
        self._pool.next_controllers[lanes] = numbers[self._holders(lanes)]
        self._pool.begin(lanes, self._rows, self._blanks[self._number[lanes] // self._rotations])

    def _holders(self, lanes: np.ndarray) -> np.ndarray:
        """i64[n, P]: who holds each seat; the candidate, 0, holds the side of the rotation."""
        rotation = self._number[lanes] % self._rotations
        return (self._side_of != rotation[:, None]).astype(np.int64)

    def _answer(self, lanes: np.ndarray) -> None:
        """Asks the players and sends their actions."""
        if not len(lanes):
            return
        if int(self._rows.length[lanes].max()) >= self._deals.max_steps:
            raise UserError(
                f"a game did not end within {self._deals.max_steps} steps: a game of {self._game.id} must terminate or "
                "be truncated whoever plays."
            )
        asked = self._holders(lanes)[np.arange(len(lanes)), self._rows.current_player[lanes]]
        for number, side in enumerate(self._sides):
            mine = lanes[asked == number]
            for first in range(0, len(mine), ROWS):
                part = mine[first : first + ROWS]
                assert side.act is not None  # a bot's seats are not asked
                chosen = self._deals.program(side.act)(side.params, self._base, np.int32(number), self._questions(part))
                self._pool.send(np.asarray(chosen)[: len(part)], part)

    def _questions(self, lanes: np.ndarray) -> _Rows:
        """Their questions, filled up to ROWS with the first one."""
        lanes = np.concatenate([lanes, np.full(ROWS - len(lanes), lanes[0], lanes.dtype)])
        rows = self._rows
        return _Rows(
            observation=rows.observation[lanes],
            mask=rows.legal_action_mask[lanes],
            seat=rows.current_player[lanes],
            deal=(self._number[lanes] // self._rotations).astype(np.uint32),
            rotation=(self._number[lanes] % self._rotations).astype(np.int32),
            time=rows.length[lanes],
        )

    def _finish(self, lanes: np.ndarray) -> None:
        """Writes down what ended games have brought."""
        numbers = self._number[lanes]
        self._returns[numbers] = self._earned[lanes]
        self._stats[numbers] = self._rows.stats[lanes]
        self._length[numbers] = self._rows.length[lanes]
        own = np.arange(self._rotations) == (numbers % self._rotations)[:, None]
        earned = of_sides(self._earned[lanes], self._game.sides)
        rivals = np.where(own, -np.inf, earned).max(axis=1)
        won = compare(earned[own], rivals) > 0 if self._rotations > 1 else np.zeros(len(lanes), bool)
        self._progress.add(len(lanes), int(won.sum()))


class ProgressLine:
    """One line about games that take seconds each: redrawn on a terminal, one line now and then elsewhere."""

    def __init__(self, title: str, deals: int, env: Env, *, stream: TextIO | None = None, interval: float = 30.0):
        """Nothing is shown in the first seconds: most evaluations are over by then.

        Args:
          title: what is played.
          deals, env: how much of it.
          stream: where the line goes; standard error if None.
          interval: seconds between lines where `stream` is not a terminal.
        """
        self._title, self._total, self._sides = title, deals * env.num_sides, env.num_sides
        self._stream = stream if stream is not None else sys.stderr
        self._interval = 1.0 if self._stream.isatty() else interval
        self._start = time.monotonic()
        self._shown = self._start + QUIET - self._interval
        self._done = self._won = self._width = 0

    def add(self, games: int, won: int) -> None:
        """Games have ended, and so many of them were won by the candidate."""
        self._done, self._won = self._done + games, self._won + won
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        if self._stream.isatty():
            self._stream.write("\r" + self.text().ljust(self._width))
            self._width = len(self.text())
        else:
            self._stream.write(self.text() + "\n")
        self._stream.flush()

    def text(self) -> str:
        """The line."""
        speed = rate(self._done, time.monotonic() - self._start)
        won = f", {100 * self._won / max(self._done, 1):.1f} % won" if self._sides > 1 else ""
        left = duration((self._total - self._done) / speed) if speed > 0 else "-"
        return f"{self._title}: {self._done} of {self._total} games{won}, {speed:.2g} games/s, {left} left"

    def close(self) -> None:
        """Clears the line on a terminal."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
