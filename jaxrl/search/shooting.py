"""Search in simultaneous games: sequences of own actions, drawn from the policy, are tried in simulated games.

Model-predictive control by random shooting, with a policy as proposal (Wang and Ba 2019, arXiv:1906.08649) and its
value where the simulated games stop (Lowrey et al. 2018, arXiv:1811.01848). The best sequence is kept: the next
decision tries what is left of it again, and sequences that leave it somewhere.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algorithms.base import Algorithm
from jaxrl.networks import distributions
from jaxrl.networks.factory import Network
from jaxrl.players.player import Player
from jaxrl.search.belief import permuted
from jaxrl.search.policies import SearchParams
from jaxrl.search.settings import SEQUENCE, SearchSettings
from jaxrl.search.sparse import where_needed
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over
from jaxrl_envs.shared.errors import UserError


class Sequence(NamedTuple):
    """The memory of a seat: H actions that it means to take next."""

    seat: jax.Array  # i32[]
    actions: jax.Array  # i32[H]


@dataclasses.dataclass(frozen=True)
class Shooting:
    """A search for the seats that its player holds, one by one; all others are taken for the policy's likeliest moves.

    Attributes:
      settings: numbers of sequences (`simulations`) and of their actions (`depth`).
      env: the game that is played.
      model: the game of simulated games, whose rewards the network's values estimate.
      network: the policy, without a memory.
      discount: discount of its values, for each decision.
    """

    settings: SearchSettings
    env: Env
    model: Env
    network: Network
    discount: float

    particles = 0  # it keeps no belief

    def player(self, name: str = "search", params: PyTree = None) -> Player:
        """Returns the search as a player with parameters `SearchParams`."""

        def init(params: PyTree, state: State, seat: jax.Array, key: Key) -> Sequence:
            return Sequence(jnp.asarray(seat, jnp.int32), jnp.zeros(self.settings.depth, jnp.int32))

        return Player(name, self.act, params, init=init)

    def act(self, params: SearchParams, memory: Sequence, state: State, key: Key) -> tuple[jax.Array, Sequence]:
        """Returns the first actions of the best sequences, i32[P], and what remains; 0 in seats of others. An action
        that is forced (`Env.policy_mask`) is not searched."""
        mask, position = self.env.policy_mask(state), self.model.adopted(state)
        shift = jnp.concatenate([memory.actions[:, 1:], memory.actions[:, -1:]], axis=1)

        def of_seat(each: tuple[jax.Array, jax.Array, jax.Array, jax.Array, Key]) -> jax.Array:
            seat, owner, mask, actions, key = each
            needed = (owner == seat) & (jnp.sum(mask) > 1) & ~is_over(state)
            unsearched = actions.at[0].set(jnp.argmax(mask))
            chunk = max(1, self.settings.batch // self.settings.simulations)
            return where_needed(self._best, chunk)(needed, unsearched, params.own, (position, seat, actions, key))

        seats = jnp.arange(self.env.num_players, dtype=jnp.int32)
        each = (seats, memory.seat, mask, shift, jax.random.split(key, self.env.num_players))
        actions = jax.lax.map(of_seat, each)  # not vmapped: a seat of others costs nothing
        return actions[:, 0], memory._replace(actions=actions)

    def _best(self, params: PyTree, lanes: tuple[State, jax.Array, jax.Array, Key]) -> jax.Array:
        """Returns the best sequences of C games, i32[C, H]. `lanes`: states, seats i32[C], sequences, keys."""

        def one(state: State, seat: jax.Array, actions: jax.Array, key: Key) -> jax.Array:
            count, depth = self.settings.simulations, self.settings.depth
            world_key, leave_key, key = jax.random.split(key, 3)
            world = permuted(self.model, state, seat, world_key)  # and what the others would see there
            world = world.replace(observation=jax.vmap(self.model.observe, (None, 0))(world, world.current_player))
            number = jnp.arange(count)
            leaves = jax.random.randint(leave_key, (count,), 0, depth)
            follows = jnp.where(number == 0, depth, jnp.where(number < count // 2, leaves, 0))
            tried = jax.vmap(self._simulate, in_axes=(None, None, None, None, 0, 0))
            results, sequences = tried(params, world, seat, actions, follows, jax.random.split(key, count))
            return sequences[jnp.argmax(results)]

        return jax.vmap(one)(*lanes)

    def _simulate(
        self, params: PyTree, state: State, seat: jax.Array, actions: jax.Array, follows: jax.Array, key: Key
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the result of one simulated game, f32[], and its sequence, i32[H]: the first `follows` (i32[]) of
        `actions` where they are legal, then what the policy draws."""

        def step(
            carry: tuple[State, jax.Array, jax.Array], now: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[State, jax.Array, jax.Array], jax.Array]:
            state, result, weight = carry
            time, planned = now
            draw_key, step_key = jax.random.split(jax.random.fold_in(key, time))
            logits, _ = self._evaluate(params, state)
            drawn = distributions.sample(logits[seat], jax.random.uniform(draw_key))
            kept = (time < follows) & state.legal_action_mask[seat, planned]
            action = jnp.where(kept, planned, drawn).astype(jnp.int32)
            after = self.model.step(state, distributions.greedy(logits).at[seat].set(action), step_key)
            result += weight * self._lead(after.rewards, seat)
            return (after, result, jnp.where(is_over(after), 0.0, weight * self.discount)), action

        begin = state, jnp.float32(0.0), jnp.float32(1.0)
        (end, result, weight), taken = jax.lax.scan(step, begin, (jnp.arange(self.settings.depth), actions))
        return result + weight * self._lead(self._evaluate(params, end)[1], seat), taken

    def _lead(self, amounts: jax.Array, seat: jax.Array) -> jax.Array:
        """Returns what a seat gets of f32[P]; of two sides half of what it is ahead of the mean of the other one: the
        same in a zero-sum game, where two values of a position are less noisy than one."""
        if self.env.num_sides != 2:
            return amounts[seat]
        sides = jnp.asarray(self.env.sides)
        others = sides != sides[seat]
        return 0.5 * (amounts[seat] - jnp.sum(jnp.where(others, amounts, 0.0)) / jnp.sum(others))

    def _evaluate(self, params: PyTree, state: State) -> tuple[jax.Array, jax.Array]:
        """Returns the logits f32[P, A] and values f32[P] of all seats."""
        evaluate = jax.vmap(self.network.evaluate, in_axes=(None, None, 0, 0))
        _, logits, values = evaluate(params, self.network.memory(()), state.observation, state.legal_action_mask)
        return logits, values


def make_shooting(env: Env, model: Env, algorithm: Algorithm | None, settings: SearchSettings) -> Shooting:
    """Returns the search of a simultaneous game, see `Shooting`; a depth of 0 stands for `SEQUENCE`. `algorithm`: the
    policy's, None for a bot. Raises UserError: a bot or a network that remembers, settings of other searches, or a game
    that does not say what is hidden."""
    if algorithm is None or algorithm.network.remembers:
        raise UserError(f"{env.id} is searched with the values of a policy's network, one that remembers nothing.")
    used = {name: getattr(settings, name) for name in ("simulations", "depth", "batch", "doubt", "prior")}
    if settings != SearchSettings(**used):
        raise UserError(f"{env.id} asks all seats at once: of a search give --search and --search-depth alone.")
    jax.eval_shape(lambda key: permuted(model, model.init(key), jnp.int32(0), key), jax.random.key(0))
    settings = dataclasses.replace(settings, depth=settings.depth or SEQUENCE)
    return Shooting(settings, env, model, algorithm.network, algorithm.discount)
