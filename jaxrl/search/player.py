"""The search player: a player (`jaxrl.players.player`) that chooses its actions by search."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.players.player import Player, no_memory
from jaxrl.search.belief import Belief, BeliefMemory, Believe, supports_particles
from jaxrl.search.halving import halving_plan, rounds_and_slots
from jaxrl.search.plan import SearchPlan
from jaxrl.search.playout import Lineup
from jaxrl.search.policies import Guide, PlayoutPolicy, SearchParams
from jaxrl.search.settings import LEARNED, SearchSettings
from jaxrl.search.sparse import where_needed
from jaxrl.search.tree import tree_plan
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over
from jaxrl_envs.shared.errors import UserError


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for one game; under vmap only the games in which its seat has a choice are computed."""

    settings: SearchSettings
    lineup: Lineup
    belief: Belief
    guide: Guide

    @property
    def particles(self) -> int:
        """The number of worlds of its belief."""
        return self.belief.particles

    def player(self, name: str = "search", params: PyTree = None, *, plain: bool = False) -> Player:
        """Returns the search as a player with parameters `SearchParams`; its memory is its belief. `plain`: flag as of
        `Player`; a search that follows the game is always compiled so."""
        remembers = self.belief.particles > 0 or self.lineup.own.memory is not no_memory
        follows = remembers or self.settings.objective == "wins"
        observe = self.belief.update if follows else None
        return Player(name, self.act, params, init=self.belief.init, observe=observe, plain=plain or follows)

    def act(self, params: SearchParams, memory: BeliefMemory, state: State, key: Key) -> tuple[jax.Array, BeliefMemory]:
        """Returns the searched action, i32[]; the lowest legal one where another seat is asked."""
        return self.plan(params, memory, state, key).action, memory

    def plan(self, params: SearchParams, memory: BeliefMemory, state: State, key: Key) -> SearchPlan:
        """Returns the plan for the seat asked; a forced action, one that the policy is sure of (`SearchSettings.sure`)
        and another seat's turn are not searched."""
        legal = state.legal_action_mask
        policy = legal / jnp.sum(legal)
        needed = (state.current_player == memory.seat) & (jnp.sum(legal) > 1) & ~is_over(state)
        if self.settings.sure < 1.0:
            policy = jax.nn.softmax(self.guide(params.own, memory.own, state)[1])
            needed &= jnp.max(policy) < self.settings.sure
        unsearched = SearchPlan(
            action=jnp.argmax(policy).astype(jnp.int32),
            policy=policy.astype(jnp.float32),
            value=jnp.float32(0.0),
            results=jnp.zeros(legal.shape, jnp.float32),
        )
        return where_needed(self._plan_lanes, self._chunk)(needed, unsearched, params, (state, memory, key))

    @property
    def _chunk(self) -> int:
        slots = rounds_and_slots(self.settings)[1]
        return max(1, self.settings.batch // slots)

    def _plan_lanes(self, params: SearchParams, lanes: tuple[State, BeliefMemory, Key]) -> SearchPlan:
        planner = {"halving": halving_plan, "tree": tree_plan}[self.settings.planner]
        return planner(self.lineup, self.belief, self.guide, self.settings, params, lanes)


def make_search(
    env: Env,
    settings: SearchSettings,
    *,
    own: PlayoutPolicy,
    guide: Guide,
    model: PlayoutPolicy | None = None,
    believe: Believe | None = None,
    discount: float = 1.0,
) -> Search:
    """Returns a search player. Raises UserError: the game is simultaneous, played by another process, has sides of
    several seats or does not say what is hidden, the objective is "wins" in a one-seat game, or "standing" in a game
    without `Env.standing`.

    Args:
      settings: options as of `SearchSettings`; without `Env.reconcile` new worlds are drawn at every move.
      own: the policy of the searching seat in simulated games.
      guide: priors of actions, and values for the planner "tree"; it shares the memory of `own`.
      model: the opponent model, for all other seats; None: like the searching seat. The type of a model of several
        types is inferred from its actions.
      believe: the learned belief, if the settings ask for it.
      discount: discount of the guide's values, for each decision of the seat.
    """
    if env.remote:
        raise UserError(
            f"{env.id} cannot be searched: another process plays it, which cannot go back to an earlier position fast "
            "enough. Leave the search out."
        )
    if env.simultaneous:
        raise UserError(f"{env.id} asks all seats at once: search is for games that ask one seat at a time.")
    if env.num_sides < env.num_players:
        raise UserError(f"{env.id} has sides of several seats: search is for games in which each plays alone.")
    if settings.objective == "wins" and env.num_players < 2:
        raise UserError(f"{env.id} has one seat: search for the objective 'return', there is no opponent to beat.")
    if settings.objective == "standing" and not has_standing(env):
        raise UserError(f"{env.id} does not say how its seats stand (Env.standing): search for 'return' or 'wins'.")
    if (settings.belief == LEARNED) != (believe is not None):
        raise ValueError("a learned belief is searched with where the settings ask for it, and only there")
    lineup = Lineup(env, own, model, discount)
    belief = Belief(lineup, settings.particles, settings.doubt, settings.batch, believe)
    jax.eval_shape(lambda key: belief.permuted(env.init(key), jnp.int32(0), key), jax.random.key(0))
    if believe is not None or not supports_particles(env):
        belief = dataclasses.replace(belief, particles=0)
    if lineup.types > 1 and not belief.particles:
        raise UserError(
            f"{env.id}: the type of an opponent can be inferred only in worlds that are carried over from move to move "
            "(Env.reconcile, at least one particle, no learned belief): name the model of the others instead."
        )
    return Search(settings, lineup, belief, guide)


def has_standing(env: Env) -> bool:
    """Returns whether a game says how its seats stand (`Env.standing`)."""
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    return jax.eval_shape(env.standing, state) is not None
