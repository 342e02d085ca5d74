"""`HostEnv`: a host engine as a pure JAX game, for search, evaluation and tests rather than for fast training.

The state of a game is its saved bytes. A step passes whole states to the engine and gets whole states back, all
randomness comes from the key, and the engine keeps no state in between. So `vmap`, `scan`, search, evaluation,
tournaments and the conformance suite work as with a compiled game, which an ordered callback to a stateful engine would
not allow. `HostPool` (`jaxrl_envs.host.bridge`) is the fast way to play many games.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Bot, ClickArea, Env, Key, State, is_over
from jaxrl_envs.host.callbacks import Outputs, call_host
from jaxrl_envs.host.engine import Engine
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.pure import (
    ask_bots,
    blank_states,
    init_states,
    observe_states,
    permute_states,
    play_on_states,
    reset_states,
    step_states,
)
from jaxrl_envs.shared.resources import cores

_OPEN_SEED = 0  # of engines that are reseeded before they draw anything
_PORTION = 8  # simulated games that a thread takes at a time
_MOST = 20_000  # steps of a simulated game


@struct.dataclass
class SavedState(State):
    """The public leaves, and the game itself as the engine saves it."""

    blob: jax.Array  # u8[S]
    stats: jax.Array  # f32[P, K], zeros while the game runs
    info: jax.Array  # i32[I]
    owed: jax.Array  # f32[P], earned before the first question; a first state has no rewards, so the first step adds it


class HostEnv(Env):
    """A `HostGame` as an `Env`.

    Every function is one callback for a whole batch, and `step` brings seat, observation and mask along with it. An
    exception in the engine ends the program in which it happens; its message names the place in the batch.
    """

    id = "host"
    version = "1"
    host: ClassVar[bool] = True

    def __init__(self, game: HostGame):
        """Wraps the game as a pure function."""
        self.game = game
        self.id, self.version = game.id, game.version  # type: ignore[misc]
        self.num_players, self.num_actions = game.num_players, game.num_actions
        self.simultaneous, self.delegated = game.simultaneous, game.delegated
        self.may_truncate, self.public_actions = game.may_truncate, game.public_actions  # type: ignore[misc]
        self.perfect_information = game.perfect_information
        self.how_to_play, self.colours = game.how_to_play, game.colours
        self.reference_bot, self.free_options = game.reference_bot, game.free_options
        self._play, self._deal = _Engines(game, 1), _Engines(game, game.varieties)
        self._crew = _Engines(game, cores())  # a game for every thread

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides of the host game."""
        return self.game.sides

    @property
    def remote(self) -> bool:
        """Whether the engine is another process."""
        return self.game.remote

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _init(self, key: Key) -> SavedState:
        return self._dealt(call_host(self._host_init, self._outputs(), _seeds(key)))

    def _step(self, state: State, action: jax.Array, key: Key) -> State:
        action = jnp.asarray(action, jnp.int32)
        blob, *fields = call_host(_Call(self._play, step_states), self._outputs(), state.blob, action, _seeds(key))
        player, observation, mask, rewards, terminated, truncated, stats, info = fields
        return state.replace(
            current_player=player,
            observation=observation,
            legal_action_mask=mask,
            rewards=rewards + state.owed,
            terminated=terminated,
            truncated=truncated,
            blob=blob,
            stats=stats,
            info=info,
            owed=jnp.zeros_like(state.owed),
        )

    def reset(self, state: State, key: Key) -> State:
        """Returns the next episode of a finished game; the engine computes it for finished games only."""
        arrays = state.blob, is_over(state), _seeds(key)
        return self._dealt(call_host(_Call(self._play, reset_states), self._outputs(), *arrays))

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        """f32[F]."""
        form = jax.ShapeDtypeStruct((self.game.num_features,), jnp.float32)
        return call_host(_Call(self._play, observe_states), (form,), state.blob, jnp.asarray(seat, jnp.int32))[0]

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> State | None:
        """The private state of bots is all that a game of perfect information hides; the engine draws it again."""
        if not self.perfect_information:
            return None
        form = jax.ShapeDtypeStruct((self.game.state_bytes,), jnp.uint8)
        seat = jnp.asarray(seat, jnp.int32)
        permute = _Call(self._play, permute_states)
        return state.replace(blob=call_host(permute, (form,), state.blob, seat, _seeds(key))[0])

    def play_on(
        self, state: State, action: jax.Array, bots: jax.Array, seat: jax.Array, turns: jax.Array, key: Key
    ) -> tuple[State, jax.Array]:
        """Plays a simulated game in one call: bots inside the engine, games of a batch in a thread for every core.

        Args:
          state: a running game that asks `seat`; for any other the results are meaningless.
          action: i32[], what `seat` does first.
          bots: i32[P], the bot of each seat afterwards, by its index in `bots`.
          seat: i32[].
          turns: i32[], how many more times `seat` moves before it is left to be asked; negative: to the end.
          key: all the randomness.

        Returns:
          The state then, and what every seat earned on the way, f32[P].
        """
        forms = (*self._outputs(), jax.ShapeDtypeStruct((self.num_players,), jnp.float32))
        numbers = [jnp.asarray(each, jnp.int32) for each in (action, bots, seat, turns)]
        *fields, returns = call_host(self._host_play_on, forms, state.blob, *numbers, _seeds(key))
        return self._dealt(fields).replace(owed=jnp.zeros_like(state.owed)), returns + state.owed

    def deploy(self, **options: Any) -> None:
        """Configures where the engine runs; call it before the first state is made."""
        self.game.deploy(**options)

    def _with_observation(self, state: Any) -> Any:
        return state  # the step has set it

    def is_legal(self, state: State, action: jax.Array) -> jax.Array:
        action = jnp.asarray(action)
        handed_over = (action >= self.num_actions) & (action < self.num_actions + self.delegated)
        return super().is_legal(state, action) | handed_over

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        return {name: state.stats[:, k] for k, name in enumerate(self.game.stat_names)}

    # ---- players ----------------------------------------------------------------------------------------------------

    @property
    def bots(self) -> Mapping[str, Bot]:
        """The engine's scripted players; "random" needs no engine."""
        scripted = {name: functools.partial(self._ask, number) for number, name in enumerate(self.game.bots)}
        return scripted | {"random": self.random_action}

    def bot_switch(self, names: Sequence[str]) -> Callable[[State, jax.Array, Key], jax.Array]:
        """As in `Env`, by one call of the engine."""
        self._require_bots(names)
        numbers = np.array([self.game.bots.index(name) for name in names], np.int32)

        def play(state: State, index: jax.Array, key: Key) -> jax.Array:
            return self._ask(jnp.asarray(numbers)[index], state, key)

        return play

    def _ask(self, number: jax.Array | int, state: State, key: Key) -> jax.Array:
        form = jax.ShapeDtypeStruct(self._asked, jnp.int32)
        numbers = jnp.broadcast_to(jnp.asarray(number, jnp.int32), self._asked)
        return call_host(_Call(self._play, ask_bots), (form,), state.blob, numbers, _seeds(key))[0]

    # ---- people -----------------------------------------------------------------------------------------------------

    def render(self, state: State, seat: int | None = None) -> str:
        return self.game.render(_bytes(state), seat)

    def render_svg(self, state: State, seat: int | None = None) -> str:
        return self.game.render_svg(_bytes(state), seat)

    def click_areas(self, state: State, seat: int) -> Sequence[ClickArea]:
        legal = np.flatnonzero(np.asarray(state.legal_action_mask)).tolist()
        return [ClickArea(*area) for area in self.game.click_areas(_bytes(state), seat, legal)]

    def action_name(self, action: int) -> str:
        return self.game.action_name(action)

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        if bool(after.illegal_action):
            return "an illegal action ends the game"
        action = np.asarray(action) if self.simultaneous else int(action)
        return self.game.event(_bytes(before), action, _bytes(after), seat)

    # ---- on the host ------------------------------------------------------------------------------------------------

    def _host_init(self, outputs: Outputs, seeds: np.ndarray) -> None:
        with self._deal.lend() as (engine, blank):
            init_states(engine, seeds, blank, outputs)

    def _host_play_on(self, outputs: Outputs, blobs: np.ndarray, *arrays: np.ndarray) -> None:
        *fields, returns = outputs
        count = len(blobs)
        portions = iter([(first, min(first + _PORTION, count)) for first in range(0, count, _PORTION)])

        def work(game: int) -> None:
            for first, last in portions:
                play_on_states(engine, game, first, last, blobs, *arrays, fields, returns, _MOST)

        with self._crew.lend() as (engine, _), ThreadPoolExecutor(engine.num_games) as threads:
            for done in [threads.submit(work, game) for game in range(engine.num_games)]:
                done.result()

    @property
    def _asked(self) -> tuple[int, ...]:
        """The leading axis of arrays about the seats asked."""
        return (self.num_players,) if self.simultaneous else ()

    def _outputs(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Returns the arrays that an engine writes for one state, in the order of `Rows` in pure.pyx."""
        game, seats = self.game, self.num_players
        return (
            jax.ShapeDtypeStruct((game.state_bytes,), jnp.uint8),
            jax.ShapeDtypeStruct(self._asked, jnp.int32),
            jax.ShapeDtypeStruct((*self._asked, game.num_features), jnp.float32),
            jax.ShapeDtypeStruct((*self._asked, game.num_actions), jnp.bool_),
            jax.ShapeDtypeStruct((seats,), jnp.float32),
            jax.ShapeDtypeStruct((), jnp.bool_),
            jax.ShapeDtypeStruct((), jnp.bool_),
            jax.ShapeDtypeStruct((seats, len(game.stat_names)), jnp.float32),
            jax.ShapeDtypeStruct((len(game.info_names),), jnp.int32),
        )

    def _dealt(self, fields: Sequence[jax.Array]) -> SavedState:
        blob, player, observation, mask, rewards, terminated, truncated, stats, info = fields
        return SavedState(
            current_player=player,
            observation=observation,
            legal_action_mask=mask,
            rewards=jnp.zeros_like(rewards),
            terminated=terminated,
            truncated=truncated,
            illegal_action=jnp.zeros_like(terminated),
            blob=blob,
            stats=stats,
            info=info,
            owed=rewards,
        )


class _Engines:
    """Engines that are lent to one callback at a time; callbacks of several devices run side by side."""

    def __init__(self, game: HostGame, num_games: int):
        self._game, self._num_games = game, num_games
        self._idle: queue.SimpleQueue[tuple[Engine, np.ndarray]] = queue.SimpleQueue()

    @contextlib.contextmanager
    def lend(self) -> Iterator[tuple[Engine, np.ndarray]]:
        """An engine, and its games as they were when it was made, u8[V, S]. An engine that fails is not used again."""
        try:
            lent = self._idle.get_nowait()
        except queue.Empty:
            lent = self._make()
        yield lent
        self._idle.put(lent)

    def _make(self) -> tuple[Engine, np.ndarray]:
        game = self._game
        engine = game.engine(self._num_games, _OPEN_SEED)
        said = (game.num_players, game.num_actions, game.num_features, game.state_bytes)
        sizes = (*said, len(game.stat_names), len(game.info_names))
        if game.simultaneous != engine.simultaneous:
            raise ValueError(f"{game.id}: the game and its engine do not agree whether all seats are asked at once")
        known = (engine.num_players, engine.num_actions, engine.num_features, engine.state_bytes)
        found = (*known, engine.num_stats, engine.num_info)
        if sizes != found:
            raise ValueError(f"{game.id}: the game says (P, A, F, S, K, I) = {sizes}, its engine {found}")
        blank = np.empty((self._num_games, game.state_bytes), np.uint8)
        blank_states(engine, blank)
        return engine, blank


@dataclasses.dataclass(frozen=True)
class _Call:
    """A function of pure.pyx on one of the engines; hashable, so that a program is compiled once."""

    engines: _Engines
    function: Callable[..., None]

    def __call__(self, outputs: Outputs, *arrays: np.ndarray) -> None:
        with self.engines.lend() as (engine, _):
            self.function(engine, *arrays, outputs if len(outputs) > 1 else outputs[0])


def _seeds(key: Key) -> jax.Array:
    """u32[2] for an engine."""
    return jax.random.bits(key, (2,), jnp.uint32)


def _bytes(state: State) -> np.ndarray:
    return np.asarray(state.blob)
