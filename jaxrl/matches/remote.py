"""Matches of games whose engine is another process: games in a pool, not states in a compiled program.

The deals, the players' random numbers and the results are those of `deals`: deal d is episode 0 of slot d of an engine,
played once from every side, and a player's random numbers depend on the deal, its seat and the time alone. So neither
the number of games side by side nor the order in which they answer changes a result. Bots play their seats inside the
engine.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them), L games side by side, B rows of
a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.matches.match import Games, memory_number
from jaxrl.players.player import MAX_STEPS, Act, Player, endless
from jaxrl.runs.logs.console import ProgressLine
from jaxrl.runs.metric_log import duration, rate
from jaxrl_envs.contract.env import Env, Key, PyTree, State, select
from jaxrl_envs.contract.sides import of_sides
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import Buffers, EngineError, HostGame, IllegalAction, engine_failure, make_buffers
from jaxrl_envs.host.pure import blank_states
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError

ROWS = 8  # decisions in a call of a network: a fixed number, or rounding would depend on the order of answers
PATIENCE = 600.0  # seconds without progress in any game after which an engine counts as hung; games may raise it
QUIET = 10.0  # seconds before progress is shown
_ENGINES = 0xFFFFFFFF  # folded into the key of the deals for the seed of the engine: no deal has this number


def is_remote(env: Env) -> bool:
    """Returns whether matches of this game are played by a pool of remote games; games that ask all seats at once are
    played as states, like any other game."""
    return env.remote and not env.simultaneous


class RemoteDeals:
    """Plays D deals, each once in every rotation of the sides: `jaxrl.matches.deals.DuplicateDeals` for remote
    games."""

    def __init__(self, env: Env, *, deals: int, lanes: int = 0, max_steps: int = MAX_STEPS):
        """Compiles and starts nothing. `env`: the game, a `HostEnv`. `lanes`: games side by side; 0: the capacity of
        the game."""
        self._env, self._deals = env, deals
        self.game: HostGame = env.game.meant_for("evaluation")  # type: ignore[attr-defined]
        self.max_steps, self._lanes = max_steps, lanes
        self._programs: dict[Act, Callable[..., tuple[jax.Array, PyTree]]] = {}

    def __call__(self, players: Sequence[Player], base: Key, title: str = "") -> Games:
        """Returns the games with leading axes [D, rotation]. Raises UserError: a player chose an illegal action, a game
        did not end, or the engine failed. `players`: the candidate, and the opponent on all other seats, both without
        `observe`; bots play in the engine. `base`: key[], from which all deals are made."""
        players = [player.named(player.name, jax.device_put(player.params)) for player in players]
        words = np.asarray(jax.random.bits(jax.random.fold_in(base, np.uint32(_ENGINES)), (2,), jnp.uint32))
        seed = int(words[0]) << 32 | int(words[1])
        lanes = min(self._lanes or self.game.capacity(), self._deals * self._env.num_sides)
        engine = self.game.engine(lanes, seed)
        patience = max(PATIENCE, self.game.patience())
        with HostPool(engine, threads=lanes, mode="async", timeout=patience, follow=False) as pool:
            progress = GamesProgress(title, self._deals, self._env)
            match = _RemoteMatch(self, pool, players, base, self._blanks(seed, lanes), progress, self._env)
            try:
                return match.play()
            except EngineError as error:
                raise engine_failure(error, self.game.id) from error
            except IllegalAction as error:
                raise UserError(
                    f"a player chose an illegal action: it breaks the rules ({error}); "
                    f"run `jaxrl check` on {self._env.id}, which tries all its bots."
                ) from error

    def _blanks(self, seed: int, most: int) -> np.ndarray:
        """Returns u8[D, S]: the deals before their first episode, made by engines of `most` games at most."""
        blanks = np.empty((self._deals, self.game.state_bytes), np.uint8)
        for first in range(0, self._deals, most):
            part = blanks[first : first + most]
            blank_states(self.game.engine(len(part), seed, first_slot=first), part)
        return blanks

    def program(self, player: Player) -> Callable[..., tuple[jax.Array, PyTree]]:
        """Returns a function (params, memory [B], base key, player's number, rows) -> actions i32[B], memory [B]; see
        `_act`."""
        if player.act not in self._programs:
            self._programs[player.act] = jax.jit(lambda *arguments: _act(player, self._env.num_players, *arguments))
        return self._programs[player.act]


class _Rows(NamedTuple):
    """Questions to one player, leading axis B; NumPy arrays outside of programs."""

    observation: Any  # f32[B, F]
    mask: Any  # bool[B, A]
    seat: Any  # i32[B]
    deal: Any  # u32[B]
    rotation: Any  # i32[B]
    time: Any  # i32[B], decisions of the game so far
    slot: Any  # i32[B], the number of the seat among the player's seats
    first: Any  # bool[B], whether it is the seat's first question, where its memory begins


def _act(
    player: Player, seats: int, params: PyTree, memory: PyTree, base: Key, number: jax.Array, rows: _Rows
) -> tuple[jax.Array, PyTree]:
    """The actions of player `number` of a match, i32[B], and its memories; random as in `jaxrl.matches.match`."""

    def one(row: _Rows, memory: PyTree) -> tuple[jax.Array, PyTree]:
        deal = jax.random.split(jax.random.fold_in(base, row.deal), 3)[2]
        game = prng.from_key(jax.random.fold_in(deal, row.rotation))
        key = jax.random.fold_in(jax.random.fold_in(game, row.time), number)
        state = _public(row, seats)
        if jax.tree.leaves(memory):
            begun = player.init(
                params, state, row.seat, jax.random.fold_in(game, memory_number(seats, number, row.slot))
            )
            memory = select(row.first, begun, memory)
        action, memory = player.act(params, memory, state, key)
        return action.astype(jnp.int32), memory

    return jax.vmap(one)(rows, memory)


def _public(row: _Rows, seats: int) -> State:
    """Returns the public part of a remote game at a question."""
    return State(
        current_player=row.seat,
        observation=row.observation,
        legal_action_mask=row.mask,
        rewards=jnp.zeros(seats, jnp.float32),
        terminated=jnp.bool_(False),
        truncated=jnp.bool_(False),
        illegal_action=jnp.bool_(False),
    )


class _RemoteMatch:
    """One match in progress: the game in each lane, and the results so far."""

    def __init__(
        self,
        deals: RemoteDeals,
        pool: HostPool,
        players: Sequence[Player],
        base: Key,
        blanks: np.ndarray,
        progress: GamesProgress,
        env: Env,
    ):
        self._env = env
        self._deals, self._pool, self._players, self._base, self._blanks = deals, pool, players, base, blanks
        self._progress = progress
        engine = pool.engine
        self._game = deals.game
        self._side_of = np.array(self._game.sides)  # [P]
        self._rotations = self._side_of.max() + 1
        self._total, self._next = len(blanks) * self._rotations, 0
        self._rows: Buffers = make_buffers(engine, engine.num_games)
        self._number = np.zeros(engine.num_games, np.int64)  # [L], the game in each lane: deal * n + rotation
        # Nothing that the engine is told may hold the match, or the engine would outlive it.
        number, sides, rotations = self._number, self._side_of, self._rotations
        self._game.seat(engine, lambda lane: [players[int(side != number[lane] % rotations)].name for side in sides])
        self._earned = np.zeros((engine.num_games, engine.num_players), np.float32)
        self._returns = np.zeros((self._total, engine.num_players), np.float32)
        self._stats = np.zeros((self._total, engine.num_players, engine.num_stats), np.float32)
        self._length = np.zeros(self._total, np.int32)
        self._begun = np.zeros((engine.num_games, engine.num_players), bool)  # seats that have a memory of their game
        self._memory = [self._room(player) for player in players]  # of every player in every seat, [L, P, ...]

    def play(self) -> Games:
        """Plays all games."""
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
        """Begins the next games, if there are any left, in idle lanes."""
        lanes = lanes[: self._total - self._next]
        if not len(lanes):
            return
        self._number[lanes] = np.arange(self._next, self._next + len(lanes))
        self._next += len(lanes)
        self._earned[lanes], self._begun[lanes] = 0.0, False
        bots = self._game.bots
        numbers = np.array([bots.index(player.bot) if player.bot else -1 for player in self._players], np.int8)
        self._pool.next_controllers[lanes] = numbers[self._holders(lanes)]
        self._pool.begin(lanes, self._rows, self._blanks[self._number[lanes] // self._rotations])

    def _holders(self, lanes: np.ndarray) -> np.ndarray:
        """Returns the holder of each seat, i64[n, P]; the candidate, 0, holds the side of the rotation."""
        rotation = self._number[lanes] % self._rotations
        return (self._side_of != rotation[:, None]).astype(np.int64)

    def _answer(self, lanes: np.ndarray) -> None:
        """Asks the players and sends their actions."""
        if not len(lanes):
            return
        if int(self._rows.length[lanes].max()) >= self._deals.max_steps:
            raise endless(self._game.id, self._deals.max_steps)
        asked = self._holders(lanes)[np.arange(len(lanes)), self._rows.current_player[lanes]]
        for number in range(len(self._players)):
            mine = lanes[asked == number]
            for first in range(0, len(mine), ROWS):
                part = mine[first : first + ROWS]
                self._pool.send(self._ask(number, part), part)

    def _ask(self, number: int, lanes: np.ndarray) -> np.ndarray:
        """Returns the actions of a player in at most ROWS games, i32[n]; its memories are updated."""
        player, memory = self._players[number], self._memory[number]
        seats = self._rows.current_player[lanes]
        filled = np.concatenate([lanes, np.full(ROWS - len(lanes), lanes[0], lanes.dtype)])
        at = filled, self._rows.current_player[filled]
        rows = jax.tree.map(lambda leaf: leaf[at], memory)
        program = self._deals.program(player)
        chosen, after = program(player.params, rows, self._base, np.int32(number), self._questions(filled))
        for leaf, new in zip(jax.tree.leaves(memory), jax.tree.leaves(after), strict=True):
            leaf[lanes, seats] = np.asarray(new)[: len(lanes)]
        self._begun[lanes, seats] = True
        return np.asarray(chosen)[: len(lanes)]

    def _room(self, player: Player) -> PyTree:
        """Buffers for a player's memories in every seat of every lane."""

        def begin(rows: _Rows) -> PyTree:
            row = jax.tree.map(lambda leaf: leaf[0], rows)
            return player.init(player.params, _public(row, len(self._side_of)), row.seat, jax.random.key(0))

        form = jax.eval_shape(begin, self._questions(np.zeros(1, np.int32)))
        return jax.tree.map(lambda leaf: np.zeros((*self._begun.shape, *leaf.shape), leaf.dtype), form)

    def _questions(self, lanes: np.ndarray) -> _Rows:
        """Returns the questions of some lanes."""
        rows, seat = self._rows, self._rows.current_player[lanes]
        holders = self._holders(lanes)
        own = holders == np.take_along_axis(holders, seat[:, None], axis=1)
        return _Rows(
            observation=rows.observation[lanes],
            mask=rows.legal_action_mask[lanes],
            seat=seat,
            deal=(self._number[lanes] // self._rotations).astype(np.uint32),
            rotation=(self._number[lanes] % self._rotations).astype(np.int32),
            time=rows.length[lanes],
            slot=(np.cumsum(own, axis=1) - 1)[np.arange(len(lanes)), seat].astype(np.int32),
            first=~self._begun[lanes, seat],
        )

    def _finish(self, lanes: np.ndarray) -> None:
        """Records the results of ended games."""
        numbers = self._number[lanes]
        self._returns[numbers] = self._earned[lanes]
        self._stats[numbers] = self._rows.stats[lanes]
        self._length[numbers] = self._rows.length[lanes]
        own = np.arange(self._rotations) == (numbers % self._rotations)[:, None]
        earned = of_sides(self._earned[lanes], self._game.sides)
        won = self._env.outcome(earned)[own] > 0 if self._rotations > 1 else np.zeros(len(lanes), bool)
        self._progress.add(len(lanes), int(won.sum()))


class GamesProgress:
    """A progress line for games that take seconds each."""

    def __init__(self, title: str, deals: int, env: Env, line: ProgressLine | None = None):
        """Shows nothing in the first seconds: most evaluations are over by then. `deals`, `env`: deals, and the game,
        which give the number of games. `line`: the progress line; None: a new one on standard error."""
        self._title, self._total, self._sides = title, deals * env.num_sides, env.num_sides
        self._line = line or ProgressLine(quiet=QUIET)
        self._done = self._won = 0
        self.close = self._line.close

    def add(self, games: int, won: int) -> None:
        """Counts games that have ended, and those of them that the candidate won."""
        self._done, self._won = self._done + games, self._won + won
        self._line.show(self.text)

    def text(self, seconds: float) -> str:
        """Returns the line, `seconds` after the beginning."""
        speed = rate(self._done, seconds)
        won = f", {100 * self._won / max(self._done, 1):.1f} % won" if self._sides > 1 else ""
        left = duration((self._total - self._done) / speed) if speed > 0 else "-"
        return f"{self._title}: {self._done} of {self._total} games{won}, {speed:.2g} games/s, {left} left"
