"""The search player: a player of `jaxrl.matches.match` that looks ahead."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from envs.core import Env, Key, State, is_over
from envs.errors import UserError
from jaxrl.matches.match import MemoryFns
from jaxrl.search.belief import Belief, Memory, can_believe
from jaxrl.search.halving import Plan, halving_plan, rounds_and_slots
from jaxrl.search.playout import Table
from jaxrl.search.policies import Guide, Policy, SearchParams
from jaxrl.search.settings import SearchSettings
from jaxrl.search.sparse import where_needed
from jaxrl.search.tree import tree_plan


@dataclasses.dataclass(frozen=True)
class Search:
    """A search player's functions of one game; vmapped, only the games in which it has a choice cost anything."""

    settings: SearchSettings
    table: Table
    belief: Belief
    guide: Guide

    @property
    def memory(self) -> MemoryFns:
        """What it keeps during a game."""
        return MemoryFns(init=self.belief.init, update=self.belief.update)

    def act(self, params: SearchParams, state: State, key: Key, memory: Memory) -> jax.Array:
        """The searched action, i32[]; the lowest legal one where another seat is asked."""
        return self.plan(params, state, key, memory).action

    def plan(self, params: SearchParams, state: State, key: Key, memory: Memory) -> Plan:
        """Everything the search found; a forced move or another seat's turn is not searched."""
        legal = state.legal_action_mask
        uniform = legal / jnp.sum(legal)
        forced = Plan(
            action=jnp.argmax(legal).astype(jnp.int32),
            policy=uniform.astype(jnp.float32),
            value=jnp.float32(0.0),
            results=jnp.zeros(legal.shape, jnp.float32),
        )
        needed = (state.current_player == memory.seat) & (jnp.sum(legal) > 1) & ~is_over(state)
        return where_needed(self._plan_lanes, self._chunk)(needed, forced, params, (state, memory, key))

    @property
    def _chunk(self) -> int:
        slots = rounds_and_slots(self.settings)[1]
        return max(1, self.settings.batch // slots)

    def _plan_lanes(self, params: SearchParams, lanes: tuple[State, Memory, Key]) -> Plan:
        planner = {"halving": halving_plan, "tree": tree_plan}[self.settings.planner]
        return planner(self.table, self.belief, self.guide, self.settings, params, lanes)


def make_search(
    env: Env, settings: SearchSettings, *, own: Policy, guide: Guide, model: Policy | None = None
) -> Search:
    """A search player.

    Args:
      env: the game.
      settings: see `SearchSettings`; without `Env.reconcile` the worlds are drawn anew at every move.
      own: how the searching seat goes on in simulated games.
      guide: priors of actions, and values for the planner "tree".
      model: how all other seats play; None: like the searching seat.

    Raises:
      UserError: the game is simultaneous, has sides of several seats or does not say what is hidden, or wins are
        wanted in a one-seat game.
    """
    if env.simultaneous:
        raise UserError(f"{env.id} asks all seats at once: search is for games that ask one seat at a time.")
    if env.num_sides < env.num_players:
        raise UserError(f"{env.id} has sides of several seats: search is for games in which each plays alone.")
    if settings.objective == "wins" and env.num_players < 2:
        raise UserError(f"{env.id} has one seat: search for the objective 'return', nobody can be beaten.")
    table = Table(env, own, model)
    belief = Belief(table, settings.particles, settings.doubt, settings.batch)
    jax.eval_shape(lambda key: belief.permuted(env.init(key), jnp.int32(0), key), jax.random.key(0))
    if not can_believe(env):
        belief = dataclasses.replace(belief, particles=0)
    return Search(settings, table, belief, guide)
