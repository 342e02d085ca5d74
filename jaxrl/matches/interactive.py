"""A game between players on the host, step by step: for `jaxrl play`, `jaxrl film` and `jaxrl serve`."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl import xla
from jaxrl.players.player import Odds, Player, Value, no_memory
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over

PROGRAMS = 128  # compiled functions of a game that are kept: the most recently used
_OF_THE_MEMORY = 0xFFFFFFFF  # folded into a key for a memory, less the seat


class SavedGame(NamedTuple):
    """A position of a game with the players' memories."""

    state: State
    memory: tuple[PyTree, ...]  # of each seat
    time: int  # steps so far


class Advice(NamedTuple):
    """A player's view of a decision: its action, probabilities and value."""

    action: int  # its own
    odds: np.ndarray | None  # f32[A]; None if it gives no probabilities
    value: float | None  # expected return of the seat; None if it gives none


class Programs:
    """Compiled functions of one game, shared by any number of games and threads."""

    def __init__(self, env: Env, *, quick: bool = False):
        """Compiles nothing yet. `quick`: whether to use `xla.compile_quickly`; each function then has one signature."""
        self._fused, self._quick = env.multi_output_fusion, quick
        self._known: dict[tuple[Callable, bool], Callable] = {}
        self._lock = threading.Lock()

    def __call__(self, function: Callable, *, plain: bool = False) -> Callable[..., Any]:
        """Returns the compiled function. `plain`: whether to leave out the game's XLA options, with which XLA cannot
        compile every search."""
        with self._lock:
            if (function, plain) not in self._known:
                options = {} if self._fused and not plain else xla.plain_options()
                self._known[function, plain] = _compiled_once(jax.jit(function, compiler_options=options), self._quick)
            self._known[function, plain] = self._known.pop((function, plain))
            while len(self._known) > PROGRAMS:
                del self._known[next(iter(self._known))]
            return self._known[function, plain]


def _compiled_once(program: Any, quick: bool) -> Callable[..., Any]:
    """Makes threads that call a program for the first time wait for each other instead of compiling it twice."""
    lock, called = threading.Lock(), threading.Event()

    def call(*args: Any) -> Any:
        nonlocal program
        if called.is_set():
            return program(*args)
        with lock:
            if quick and not called.is_set():
                program = xla.compile_quickly(program.lower(*args))
            result = program(*args)
            called.set()
            return result

    return call


@functools.lru_cache(maxsize=64)
def telling(odds: Odds | None, value: Value | None) -> Callable[..., tuple[Any, Any]]:
    """Returns a function (params, memory, state) -> a player's probabilities and value of a decision, each None if it
    has none; one program, because both come from the same network."""

    def tell(params: PyTree, memory: PyTree, state: State) -> tuple[jax.Array | None, jax.Array | None]:
        about = params, memory, state
        return None if odds is None else odds(*about), None if value is None else value(*about)

    return tell


class InteractiveGame:
    """A game between players with memories; some seats may be left to the caller."""

    def __init__(self, env: Env, players: Sequence[Player | None], programs: Programs | None = None):
        """Deals nothing yet. `players`: players of the seats; None is the caller."""
        self._env, self._players = env, list(players)
        self._programs = programs or Programs(env)
        self._memory: list[PyTree] = []
        self.state: State
        self.time = 0

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return bool(is_over(self.state))

    def deal(self, key: Key, *, duplicate: bool = False) -> State:
        """Deals a new game; a `duplicate` deal fixes all chance of the game, see `Env.init_deal`."""
        first = self._programs(self._env.init_deal if duplicate else self._env.init)
        self.state, self._memory, self.time = first(key), [], 0
        for seat, player in enumerate(self._players):
            if player is None or player.init is no_memory:
                self._memory.append(())
            else:
                memory_key = jax.random.fold_in(key, np.uint32(_OF_THE_MEMORY - seat))
                self._memory.append(
                    self._call(player, player.init)(player.params, self.state, np.int32(seat), memory_key)
                )
        return self.state

    def answer(self, key: Key) -> int | np.ndarray:
        """Returns the action of the player of the seat asked; in a simultaneous game those of all seats, i32[P], 0 for
        the caller's."""
        if self._env.simultaneous:
            seats = range(self._env.num_players)
            return np.array([self._together(seat, jax.random.fold_in(key, seat)) for seat in seats], np.int32)
        seat, player = self._asked()
        action, self._memory[seat] = self._call(player, player.act)(player.params, self._memory[seat], self.state, key)
        return int(action)

    def _together(self, seat: int, key: Key) -> int:
        """Returns the action of one seat of a simultaneous game: its player answers for all seats, and its own answer
        counts."""
        player, seats = self._players[seat], self._env.num_players
        if player is None:
            return 0
        memory = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (seats, *leaf.shape)), self._memory[seat])
        actions, after = self._call(player, player.act)(player.params, memory, self.state, key)
        self._memory[seat] = jax.tree.map(lambda leaf: leaf[seat], after)
        return int(actions[seat])

    def advice(self, key: Key, at: SavedGame) -> Advice:
        """Asks the seat's player what it would do in a saved position; the game is left unchanged."""
        seat = int(at.state.current_player)
        player = self._player_of(seat)
        about = player.params, at.memory[seat], at.state
        action, _ = self._call(player, player.act)(*about, key)
        odds, value = self._call(player, telling(player.odds, player.value))(*about)
        return Advice(int(action), odds if odds is None else np.asarray(odds), value if value is None else float(value))

    def save(self) -> SavedGame:
        """Returns the present position, for `restore`."""
        return SavedGame(self.state, tuple(self._memory), self.time)

    def restore(self, saved: SavedGame) -> None:
        """Goes back to what was `save`d."""
        self.state, self._memory, self.time = saved.state, list(saved.memory), saved.time

    def step(self, action: int | np.ndarray, key: Key) -> State:
        """Returns the state after an action of the seat asked, or after those of all seats, i32[P]."""
        before, number = self.state, np.asarray(action, np.int32)
        self.state, self.time = self._programs(self._env.step)(before, number, key), self.time + 1
        for seat, player in enumerate(self._players):
            if player is not None and player.observe is not None:
                memory_key = jax.random.fold_in(key, np.uint32(_OF_THE_MEMORY - seat))
                told = (before, number, self.state, np.int32(seat), memory_key)
                self._memory[seat] = self._call(player, player.observe)(player.params, self._memory[seat], *told)
        return self.state

    def play(
        self,
        key: Key,
        ask: Callable[[Key], int | np.ndarray | None],
        record: Callable[[State, int | np.ndarray, State], None],
    ) -> None:
        """Plays a dealt game to its end. Keys are split one after the other from `key`; a game that is set back meets
        the same ones again. `ask`: the players' key -> the action; None if the game was set back instead. `record`:
        called with (before, action, after) of every step."""
        known: list[tuple[Key, Key]] = []  # by step: for the players, for chance
        while not self.over:
            while len(known) <= self.time:
                key, *both = jax.random.split(key, 3)
                known.append((both[0], both[1]))
            for_players, for_chance = known[self.time]
            action = ask(for_players)
            if action is not None:
                before = self.state
                record(before, action, self.step(action, for_chance))

    def _asked(self) -> tuple[int, Player]:
        seat = int(self.state.current_player)
        return seat, self._player_of(seat)

    def _player_of(self, seat: int) -> Player:
        player = self._players[seat]
        if player is None:
            raise ValueError(f"seat {seat} has no player")
        return player

    def _call(self, player: Player, function: Callable) -> Callable:
        return self._programs(function, plain=player.plain)
