"""Agreement of two policies: how often they choose the same action, e.g. before and after rounding to float16."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl_envs.contract.env import Env, PyTree, State, is_over

GAMES, MOST = 32, 2000  # games side by side; steps after which unfinished games are cut off


class ChoiceCounts(NamedTuple):
    """Counts of decisions of two policies in the same situations."""

    decisions: int
    equal: int  # in which both choose the same action


class _AgreementCarry(NamedTuple):
    state: State  # leading axis N
    memory: PyTree  # leading axes [N, 2, P]
    counts: jax.Array  # i32[2], as in `ChoiceCounts`
    time: jax.Array  # i32[]


def _running(carry: _AgreementCarry) -> jax.Array:
    return jnp.any(~is_over(carry.state)) & (carry.time < MOST)


def count_equal_choices(config: Config, env: Env, first: PyTree, second: PyTree, *, games: int = GAMES) -> ChoiceCounts:
    """Counts equal greedy choices of two policies in games in which the first one holds all seats and samples."""
    algorithm, seats = make_algorithm(config, env), env.num_players
    greedy = algorithm.player("greedy", None, greedy=True)
    sampled = algorithm.player("sampled", None, greedy=False)

    def begin(params: PyTree, state: State, key: jax.Array) -> PyTree:
        """Returns the memories of one policy, leading axis P."""
        return jax.vmap(lambda seat: greedy.init(params, state, seat, key))(jnp.arange(seats))

    def advance(params: PyTree, state: State, memory: PyTree, key: jax.Array) -> tuple[State, PyTree, jax.Array]:
        """Returns one step of one game."""
        asked = state.current_player  # i32[P] where all are
        before = jax.tree.map(lambda leaf: leaf[:, asked], memory)
        actions, after = jax.vmap(greedy.act, in_axes=(0, 0, None, None))(params, before, state, key)
        memory = jax.tree.map(lambda leaf, new: leaf.at[:, asked].set(new), memory, after)
        counts = jnp.stack([jnp.int32(asked.size), jnp.sum(actions[0] == actions[1], dtype=jnp.int32)])
        own, remembered = jax.tree.map(lambda leaf: leaf[0], (params, before))
        action, _ = sampled.act(own, remembered, state, key)
        return env.step(state, action, key), memory, jnp.where(is_over(state), 0, counts)

    def play(params: PyTree, keys: jax.Array) -> jax.Array:
        state = jax.vmap(env.init)(keys)
        memory = jax.vmap(lambda state, key: jax.vmap(begin, in_axes=(0, None, None))(params, state, key))(state, keys)

        def step(carry: _AgreementCarry) -> _AgreementCarry:
            each = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, carry.time)
            state, memory, counts = jax.vmap(advance, in_axes=(None, 0, 0, 0))(params, carry.state, carry.memory, each)
            return _AgreementCarry(state, memory, carry.counts + counts.sum(axis=0), carry.time + 1)

        start = _AgreementCarry(state, memory, jnp.zeros(2, jnp.int32), jnp.int32(0))
        return jax.lax.while_loop(_running, step, start).counts

    both = jax.tree.map(lambda *leaves: np.stack(leaves), first, second)
    return ChoiceCounts(*map(int, jax.jit(play)(both, jax.random.split(jax.random.key(0), games))))
