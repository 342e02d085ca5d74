"""Matches as one compiled program: any players in any seats, each with its memory. This is the fast path for batches;
games that people look at are played step by step (`jaxrl.matches.interactive`).

Shape letters: N games side by side, P seats, H holders (who holds a seat: numbers of `holders`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.players.player import MAX_STEPS, Player, no_memory
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over, select

_OF_THE_MEMORY = 0xFFFFFFFF  # less a number for each memory, folded into its key: above every player number and time


class Games(NamedTuple):
    """Finished games. N games, P seats."""

    figures: dict[str, Any]  # f32[N, P]: "return" (undiscounted) and every figure of env.episode_stats
    length: Any  # i32[N], steps
    over: Any  # bool[N], False = not ended within MAX_STEPS
    illegal: Any  # bool[N], ended by an illegal action
    surprise: Any = None  # f32[N], see `_ValueErrors`; None if it was not measured


class GameKeys(NamedTuple):
    """The random keys of N games."""

    deal: Key  # key[N], the deals
    step: Key  # key[N], chance during the game, where the deal does not fix it
    seat: Key  # key[N], the players' own randomness


# ---- seated players -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SeatedPlayer:
    """A player of a match and the seats it holds. Its memories have a leading axis [slots], one for each seat."""

    player: Player
    params: PyTree  # its parameters here; they may be traced
    # bool[H], the holders that it plays for. A NumPy array is known when the program is made; a traced one may be all
    # False, and then the player costs nothing
    holds: np.ndarray | jax.Array
    number: int = 0  # of its stream of random numbers
    slots: int = 1  # the most seats that it holds in a game
    # whether its parameters have a leading axis [H], one row for each holder; such a player has no memory
    by_holder: bool = False

    def begin(self, state: State, holder: jax.Array, key: Key) -> PyTree:
        """Returns the memories before the first action; `holder` is i32[P]."""
        if self.player.init is no_memory:
            return ()

        def one(seat: jax.Array, key: Key) -> PyTree:
            return self.player.init(self.params, state, seat, key)

        return self._each(one, self._seats(holder), self._keys(key, holder.shape[0]))

    def ask(self, state: State, holder: jax.Array, memory: PyTree, key: Key) -> tuple[jax.Array, PyTree]:
        """Returns the action, i32[] (i32[P] in a simultaneous game), and the memories afterwards.

        The player is asked in every seat, but only actions in its own seats change its memories.
        """
        asked, params = state.current_player, self.params
        if self.by_holder:
            params = jax.tree.map(lambda leaf: leaf[holder[asked]], params)
        if not jax.tree.leaves(memory):
            return self.player.act(params, memory, state, key)[0].astype(jnp.int32), memory
        mine, together = self._mine(holder), asked.ndim > 0
        slot = self._slot(mine, asked)
        before = jax.tree.map(lambda leaf: leaf[slot], memory)
        action, after = self.player.act(params, before, state, key)
        seats = self._seats(holder)
        here = mine[seats] if together else mine[asked] & (jnp.arange(self.slots) == slot)  # bool[slots]

        def kept(leaf: jax.Array, old: jax.Array, new: jax.Array) -> jax.Array:
            if new is old:
                return leaf
            new = new[seats] if together else new[None]
            return jnp.where(here.reshape(-1, *[1] * (leaf.ndim - 1)), new, leaf)

        return action.astype(jnp.int32), jax.tree.map(kept, memory, before, after)

    def expects(self, state: State, holder: jax.Array, memory: PyTree) -> tuple[jax.Array, jax.Array]:
        """Returns the player's values f32[P], and the seats of its own that are asked, bool[P]. The player has a
        `value` and one row of parameters."""
        asked, mine = state.current_player, self._mine(holder)
        slot = self._slot(mine, asked)
        assert self.player.value is not None
        value = self.player.value(self.params, jax.tree.map(lambda leaf: leaf[slot], memory), state)
        return jnp.broadcast_to(value, mine.shape), mine & (jnp.arange(mine.shape[0]) == asked)

    def see(
        self, memory: PyTree, before: State, action: jax.Array, after: State, holder: jax.Array, key: Key
    ) -> PyTree:
        """Returns the memories after a step by any seat."""
        observe = self.player.observe
        if observe is None:
            return memory

        def one(seat: jax.Array, key: Key, memory: PyTree) -> PyTree:
            return observe(self.params, memory, before, action, after, seat, key)

        keys = self._keys(key, holder.shape[0])
        return select(is_over(before), memory, self._each(one, self._seats(holder), keys, memory))

    def _slot(self, mine: jax.Array, asked: jax.Array) -> Any:
        """Returns the number of the memory of the seat asked; i32[P] if all seats are."""
        alone = self.slots == 1 and not asked.ndim
        return 0 if alone else jnp.where(mine, jnp.cumsum(mine) - 1, 0)[asked]

    def _mine(self, holder: jax.Array) -> jax.Array:
        """Returns the seats that the player holds, bool[P]."""
        return jnp.asarray(self.holds)[holder]

    def _seats(self, holder: jax.Array) -> jax.Array:
        """The seats that the player holds, i32[slots], padded with other seats, whose memories are never used."""
        mine = self._mine(holder)
        order = jnp.argmax(mine)[None] if self.slots == 1 else jnp.argsort(~mine, stable=True)[: self.slots]
        return order.astype(jnp.int32)

    def _keys(self, key: Key, seats: int) -> list[Key]:
        return [jax.random.fold_in(key, memory_number(seats, self.number, slot)) for slot in range(self.slots)]

    def _each(self, function: Callable[..., PyTree], seats: jax.Array, keys: list[Key], *memory: PyTree) -> PyTree:
        """Maps (seat, key, memory) -> memory over the slots; a single slot without a batch axis, which is cheaper for
        searches."""
        if self.slots == 1:
            one = function(seats[0], keys[0], *jax.tree.map(lambda leaf: leaf[0], memory))
            return jax.tree.map(lambda leaf: leaf[None], one)
        return jax.vmap(function)(seats, jnp.stack(keys), *memory)


def memory_number(seats: int, number: Any, slot: Any) -> jax.Array:
    """Returns the number folded into a key for the memory of a player's slot, u32[]; `seats` is P."""
    return jnp.uint32(_OF_THE_MEMORY) - jnp.uint32(seats) * jnp.uint32(number) - jnp.uint32(slot)


# ---- the match ----------------------------------------------------------------------------------------------------


class _ValueErrors(NamedTuple):
    """Errors of a player's values against the returns that followed: sums for every seat, f32[P].

    A decision with value v has the error d = v - return, where the return is discounted by the seat's own decisions. d
    is known only at the end of the game, but can be updated with every reward r: d <- d - w r, where w is the discount
    so far. The sum of d * d then needs only itself, the sum of w * d and the sum of w * w. The surprise of a game is
    the root mean square of d over the player's decisions.
    """

    squares: jax.Array  # of d * d
    cross: jax.Array  # of w * d
    weights: jax.Array  # of w * w
    decisions: jax.Array

    @classmethod
    def none(cls, seats: int) -> _ValueErrors:
        """Returns the sums before the first decision."""
        return cls(*[jnp.zeros(seats, jnp.float32)] * 4)

    def decided(self, value: jax.Array, asked: jax.Array, discount: float) -> _ValueErrors:
        """Returns the sums after decisions with values f32[P] in the seats `asked`, bool[P]."""
        return _ValueErrors(
            squares=self.squares + jnp.where(asked, value * value, 0.0),
            cross=jnp.where(asked, self.cross * discount + value, self.cross),
            weights=jnp.where(asked, self.weights * discount**2 + 1.0, self.weights),
            decisions=self.decisions + asked,
        )

    def earned(self, reward: jax.Array) -> _ValueErrors:
        """Returns the sums after rewards f32[P]."""
        squares = self.squares - 2.0 * reward * self.cross + reward * reward * self.weights
        return self._replace(squares=squares, cross=self.cross - reward * self.weights)

    @property
    def surprise(self) -> jax.Array:
        """The surprise over all seats, f32[...]."""
        mean = jnp.sum(self.squares, axis=-1) / jnp.maximum(jnp.sum(self.decisions, axis=-1), 1.0)
        return jnp.sqrt(jnp.maximum(mean, 0.0))


class _MatchCarry(NamedTuple):
    state: State
    returns: jax.Array  # f32[N, P]
    length: jax.Array  # i32[N]
    time: jax.Array  # i32[]
    memory: list[PyTree]  # by seated player, leading axis N
    gap: _ValueErrors  # f32[N, P]


def play_match(
    env: Env,
    seated: Sequence[SeatedPlayer],
    holders: jax.Array,
    keys: GameKeys,
    max_steps: int = MAX_STEPS,
    *,
    surprise: bool = False,
) -> Games:
    """Plays N games side by side, each to its end. `seated`: the players of all H holders; all are asked in every step,
    and the action of the seat's holder counts. `holders`: i32[N, P], the holder of each seat. `surprise`: whether to
    measure the surprise of the first player, if it has a `value`."""
    chex.assert_shape(holders, (None, env.num_players))
    surprise = surprise and seated[0].player.value is not None

    def running(carry: _MatchCarry) -> jax.Array:
        return jnp.any(~is_over(carry.state)) & (carry.time < max_steps)

    def body(carry: _MatchCarry) -> _MatchCarry:
        advance = functools.partial(_advance, env, seated, surprise)
        each = jax.vmap(advance, in_axes=(0, 0, 0, 0, 0, None))
        state, memory, gap = each(carry.state, carry.memory, carry.gap, holders, keys, carry.time)
        return _MatchCarry(
            state=state,
            returns=carry.returns + state.rewards,
            length=carry.length + ~is_over(carry.state),
            time=carry.time + 1,
            memory=memory,
            gap=gap,
        )

    state = jax.vmap(env.init_deal)(keys.deal)
    start = _MatchCarry(
        state=state,
        returns=jnp.zeros_like(state.rewards),
        length=jnp.zeros_like(state.terminated, jnp.int32),
        time=jnp.int32(0),
        memory=jax.vmap(lambda *each: begin(seated, *each))(state, holders, keys.seat),
        gap=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, state.rewards.shape), _ValueErrors.none(env.num_players)),
    )
    end = jax.lax.while_loop(running, body, start)
    stats = jax.vmap(env.episode_stats)(end.state)
    return Games(
        figures={**stats, "return": end.returns},
        length=end.length,
        over=is_over(end.state),
        illegal=end.state.illegal_action,
        surprise=end.gap.surprise if surprise else None,
    )


def _advance(
    env: Env,
    seated: Sequence[SeatedPlayer],
    surprise: bool,
    state: State,
    memory: list[PyTree],
    gap: _ValueErrors,
    holder: jax.Array,
    keys: GameKeys,
    time: jax.Array,
) -> tuple[State, list[PyTree], _ValueErrors]:
    """Returns one step of one game."""
    step_key, seat_key = jax.random.fold_in(keys.step, time), jax.random.fold_in(keys.seat, time)
    if surprise:
        value, asked = seated[0].expects(state, holder, memory[0])
        gap = gap.decided(value, asked & ~is_over(state), seated[0].player.discount)
    action, memory = choose(seated, state, holder, memory, seat_key)
    after = env.step(state, action, step_key)
    seen = see(seated, memory, state, action, after, holder, seat_key)
    return after, seen, gap.earned(after.rewards) if surprise else gap


def begin(seated: Sequence[SeatedPlayer], state: State, holder: jax.Array, key: Key) -> list[PyTree]:
    """Returns the memories of all players before the first action."""
    return [each.begin(state, holder, key) for each in seated]


def see(
    seated: Sequence[SeatedPlayer],
    memory: Sequence[PyTree],
    before: State,
    action: jax.Array,
    after: State,
    holder: jax.Array,
    key: Key,
) -> list[PyTree]:
    """Returns the memories of all players after a step."""
    step = before, action, after, holder, key
    return [each.see(remembered, *step) for each, remembered in zip(seated, memory, strict=True)]


def choose(
    seated: Sequence[SeatedPlayer], state: State, holder: jax.Array, memory: Sequence[PyTree], key: Key
) -> tuple[jax.Array, list[PyTree]]:
    """Returns the action of the holder of the seat asked, i32[] (i32[P] in a simultaneous game), and all memories
    afterwards."""
    asked = holder[state.current_player]
    action, kept = jnp.zeros(asked.shape, jnp.int32), []
    for each, remembered in zip(seated, memory, strict=True):
        ask = functools.partial(each.ask, state, holder, remembered, jax.random.fold_in(key, each.number))
        if isinstance(each.holds, np.ndarray):
            chosen, remembered = ask()
        else:  # the same in all games: a player without a seat costs nothing
            nothing = (jnp.zeros_like(action), remembered)
            chosen, remembered = jax.lax.cond(jnp.any(each.holds), ask, lambda nothing=nothing: nothing)
        action = jnp.where(jnp.asarray(each.holds)[asked], chosen, action)
        kept.append(remembered)
    return action, kept


def figure_names(env: Env) -> list[str]:
    """Returns the names of `Games.figures` in the game's own order, which compiled programs do not keep."""
    names: list[str] = []
    key = jax.eval_shape(lambda: jax.random.key(0))
    jax.eval_shape(lambda key: names.extend(env.episode_stats(env.init(key))), key)
    return [*names, "return"]
