"""Playouts from many worlds at once, to the end of the game or until the searching seat is asked again.

All functions take a batch of N games explicitly instead of running under `jax.vmap`, so that a branch which no game
needs (the network, while the other seat is asked in all games) is skipped.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxrl.players.player import MAX_STEPS
from jaxrl.search.policies import PlayoutPolicy, SearchParams
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over, select

TO_THE_END = -1


@dataclasses.dataclass(frozen=True)
class Lineup:
    """A game and its policies: that of the searching seat, and the opponent model (None: the same policy).

    With a model of several types (`PlayoutPolicy.types`) the own policy is one more type, the last. Rewards are
    discounted like the guide's values where these follow them: by `discount` for each decision of the searching seat.
    """

    env: Env
    own: PlayoutPolicy
    model: PlayoutPolicy | None
    discount: float = 1.0

    def others(self, params: SearchParams) -> tuple[PlayoutPolicy, PyTree]:
        """Returns the policy of the other seats, and its parameters."""
        return (self.own, params.own) if self.model is None else (self.model, params.model)

    @property
    def types(self) -> int:
        """T, the number of types of players that each of the other seats may be."""
        return 1 + self.model.types if self.model is not None else 1

    def likelihoods(self, params: SearchParams, state: State, action: jax.Array, key: Key) -> jax.Array:
        """Returns the likelihood of `action` (i32[]) in a state under each type, f32[T]; see `PlayoutPolicy`."""
        policy, its_params = self.others(params)
        likely = jnp.atleast_1d(policy.likelihood(its_params, state, action, key))
        if self.types == 1:
            return likely
        return jnp.append(likely, self.own.likelihood(params.own, state, action, key))

    def bots(self, params: SearchParams, seat: jax.Array) -> jax.Array | None:
        """Returns the bots that hold the seats, i32[N, P] numbers in `Env.bots`, if a host game can play them all
        inside its engine, else None; `seat` i32[N] are the searching seats."""
        policy, its_params = self.others(params)
        if not self.env.host or self.own.bot is None or policy.bot is None:
            return None
        mine = jnp.arange(self.env.num_players) == seat[:, None]
        return jnp.where(mine, self.own.bot(params.own), policy.bot(its_params)).astype(jnp.int32)

    def memories(
        self,
        params: SearchParams,
        own: PyTree,
        state: State,
        seat: jax.Array,
        keys: Key,
        types: jax.Array | None = None,
    ) -> list[PyTree]:
        """Returns the memories of each policy (`own`, and the model if there is one) for all seats, [N, P, ...], where
        simulated games begin: that of the searching seat is `own` [N, ...], the others' are unknown and start empty,
        or are their types i32[N, P]."""
        seats = jnp.arange(self.env.num_players)

        def empty(policy: PlayoutPolicy, its_params: PyTree) -> PyTree:
            by_seat = jax.vmap(policy.memory, in_axes=(None, None, 0, None))
            return jax.vmap(by_seat, in_axes=(None, 0, None, 0))(its_params, state, seats, keys)

        mine = put(empty(self.own, params.own), seat, own)
        if self.model is None:
            return [mine]
        return [mine, types if self.types > 1 else empty(self.model, params.model)]


def of_seat(memory: PyTree, seat: jax.Array) -> PyTree:
    """Selects the memories of `seat` (i32[N]), [N, ...], from those of all seats, [N, P, ...]."""
    return jax.tree.map(lambda leaf: leaf[jnp.arange(seat.shape[0]), seat], memory)


def put(memory: PyTree, seat: jax.Array, new: PyTree) -> PyTree:
    """Replaces the memories of `seat` (i32[N]) in [N, P, ...] by `new`, [N, ...]."""
    return jax.tree.map(lambda leaf, value: leaf.at[jnp.arange(seat.shape[0]), seat].set(value), memory, new)


class Playout(NamedTuple):
    """N simulated games."""

    state: State
    returns: jax.Array  # f32[N, P], rewards of every seat, summed
    moves: jax.Array  # i32[N], of the searching seat after the first action; 0 in games that are not stopped there
    memories: list[PyTree]  # see `Lineup.memories`
    time: jax.Array  # i32[], steps; 0 of games played inside an engine


def choose(
    lineup: Lineup, params: SearchParams, state: State, memories: list[PyTree], seat: jax.Array, keys: Key
) -> tuple[jax.Array, list[PyTree]]:
    """Returns the next action of N games, i32[N], and the memories afterwards.

    Args:
      state: N games.
      memories: memories as of `Lineup.memories`.
      seat: i32[N], the searching seats.
      keys: key[N].
    """
    mine, running = state.current_player == seat, ~is_over(state)

    def ask(policy: PlayoutPolicy, its_params: PyTree, memory: PyTree, wanted: jax.Array) -> tuple[jax.Array, PyTree]:
        def play(games: tuple[State, PyTree, Key]) -> tuple[jax.Array, PyTree]:
            state, memory, keys = games
            before = of_seat(memory, state.current_player)
            action, after = jax.vmap(policy.act, in_axes=(None, 0, 0, 0))(its_params, before, state, keys)
            after = jax.vmap(select)(wanted, after, before)
            return action.astype(jnp.int32), put(memory, state.current_player, after)

        def nothing(games: tuple[State, PyTree, Key]) -> tuple[jax.Array, PyTree]:
            return jnp.zeros_like(seat), games[1]

        return jax.lax.cond(jnp.any(wanted), play, nothing, (state, memory, keys))

    if lineup.model is None:
        action, memory = ask(lineup.own, params.own, memories[0], running)
        return action, [memory]
    if lineup.types > 1:
        mine |= of_seat(memories[1], state.current_player) == lineup.types - 1
    own, memory = ask(lineup.own, params.own, memories[0], mine & running)
    other, others = ask(*lineup.others(params), memories[1], ~mine & running)
    return jnp.where(mine, own, other), [memory, others]


def play_on(
    lineup: Lineup,
    params: SearchParams,
    state: State,
    memories: list[PyTree],
    action: jax.Array,
    seat: jax.Array,
    keys: Key,
    *,
    turns: int,
    in_part: bool = False,
    discount: float = 1.0,
) -> Playout:
    """Takes `action` in N games and plays them on.

    Args:
      lineup, params, state, memories, seat: arguments of `choose`; the memory of the searching seat includes `state`.
      action: i32[N], the first action.
      keys: key[N], all the randomness; games with equal keys and worlds have equal chance events.
      turns: further moves of the searching seat; then the game stops where it is asked again. `TO_THE_END`
        does not stop.
      in_part: whether the game also stops where another part of it begins (`Env.part`).
      discount: discount of the rewards, for each move of the searching seat before them but the first.
    """
    bots = None if in_part or discount < 1.0 else lineup.bots(params, seat)  # engines do not discount
    if bots is not None:
        return _inside_engine(lineup.env, state, memories, action, bots, seat, turns, keys)
    part = jax.vmap(lineup.env.part)(state) if in_part else None

    def moves_on(games: State, left: jax.Array) -> jax.Array:
        running = _running(lineup.env, games, part)
        return running if turns == TO_THE_END else running & ((games.current_player != seat) | (left > 0))

    def more(carry: tuple[Playout, jax.Array]) -> jax.Array:
        played, left = carry
        return (played.time == 0) | (jnp.any(moves_on(played.state, left)) & (played.time < MAX_STEPS))

    def one(carry: tuple[Playout, jax.Array]) -> tuple[Playout, jax.Array]:
        played, left = carry
        now = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, played.time)))(keys)

        def answer() -> tuple[jax.Array, list[PyTree]]:
            return choose(lineup, params, played.state, played.memories, seat, now[:, 0])

        # The first action is taken inside the loop too, so that the rules are compiled once.
        first = played.time == 0
        chosen, memories = jax.lax.cond(first, lambda: (action.astype(jnp.int32), played.memories), answer)
        after = jax.vmap(lineup.env.step)(played.state, chosen, now[:, 1])
        rewards = after.rewards
        if turns != TO_THE_END or in_part:  # a finished game does not change by itself, one that waits would
            moves = moves_on(played.state, left) | first
            rewards = jnp.where(moves[:, None], rewards, 0.0)
            left = left - (moves & (played.state.current_player == seat) & ~first)
            if discount < 1.0:
                rewards = rewards * (discount ** (turns - left))[:, None]
            after, memories = jax.vmap(select)(moves, (after, memories), (played.state, played.memories))
        return Playout(after, played.returns + rewards, turns - left, memories, played.time + 1), left

    begin = Playout(state, jnp.zeros_like(state.rewards), jnp.zeros_like(seat), memories, jnp.int32(0))
    return jax.lax.while_loop(more, one, (begin, jnp.full_like(seat, turns)))[0]


def _running(env: Env, games: State, part: jax.Array | None) -> jax.Array:
    """Returns bool[N], whether games are not over and still in their `part`, if one is given."""
    running = ~is_over(games)
    return running if part is None else running & (jax.vmap(env.part)(games) == part)


def _inside_engine(env, state, memories, action, bots, seat, turns: int, keys) -> Playout:
    """Plays games on like `play_on`, inside the engine of a host game, by its own bots i32[N, P]."""
    end, returns = jax.vmap(env.play_on, in_axes=(0, 0, 0, 0, None, 0))(
        state, action, bots, seat, jnp.int32(turns), keys
    )
    return Playout(end, returns, jnp.zeros_like(seat), memories, jnp.int32(0))


def won(env: Env, returns: jax.Array, seat: jax.Array) -> jax.Array:
    """Returns whether `seat` (i32[N]) has won (`Env.outcome`), bool[N], from the returns f32[N, P]."""
    chex.assert_rank(returns, 2)
    return jnp.take_along_axis(env.outcome(returns), seat[:, None], axis=1)[:, 0] > 0
