"""Search with a time limit.

It repeats small searches of the same decision, each with worlds of its own, and adds up what they find (root
parallelisation, Chaslot et al. 2008, "Parallel Monte-Carlo Tree Search"): so its time is kept on any machine, and one
small program is compiled for all times.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import numpy as np

from jaxrl.matches.interactive import Programs
from jaxrl.search.player import has_standing, make_search
from jaxrl.search.policies import SearchParams, named_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Env, Key, State

SIMULATIONS = 48  # of one of the small searches
SHORTEST, LONGEST = 0.1, 20.0  # seconds


class SearchResult(NamedTuple):
    """The result of a timed search."""

    action: int
    policy: np.ndarray  # f32[A], the mean of the small searches
    results: np.ndarray  # f32[A], the mean result of every action
    simulations: int
    seconds: float


class TimedSearch:
    """Searches in one game: its best bot plays all seats in playouts, hidden cards are resampled.

    Attributes:
      standing: whether results are those of `Env.standing`, not returns.
    """

    def __init__(self, env: Env, programs: Programs):
        """Compiles nothing yet. Raises UserError: the game cannot be searched."""
        self.standing = has_standing(env)
        objective = "standing" if self.standing else "return"
        settings = SearchSettings(simulations=SIMULATIONS, objective=objective, particles=0)
        own = named_policy(env, env.reference_bot)
        self._search = make_search(env, settings, own=own, guide=no_guide)
        self._programs, self.compiled = programs, False

    def compile(self, state: State, key: Key) -> None:
        """Compiles the small search, which may take a minute, by searching in this state."""
        jax.block_until_ready(self._programs(self._plan, plain=True)(state, key, np.uint32(0)))
        self.compiled = True

    def think(self, state: State, key: Key, seconds: float) -> SearchResult:
        """Searches for the seat to move, from what it may see.

        Args:
          state: state of a running game.
          key: key of the worlds.
          seconds: time to use, exceeded by at most half a small search; the first call also compiles.
        """
        if not self.compiled:
            self.compile(state, key)
        plan = self._programs(self._plan, plain=True)
        begin, last = time.perf_counter(), 0.0
        policies: list[np.ndarray] = []
        results: list[np.ndarray] = []
        while not policies or time.perf_counter() - begin + last / 2 < seconds:
            started = time.perf_counter()
            policy, result = jax.device_get(plan(state, key, np.uint32(len(policies) + 1)))
            policies.append(policy)
            results.append(result)
            last = time.perf_counter() - started
        policy = np.mean(policies, axis=0)
        legal = np.asarray(state.legal_action_mask)
        action = int(np.argmax(np.where(legal, policy, -1.0)))
        spent = time.perf_counter() - begin
        return SearchResult(action, policy, np.mean(results, axis=0), SIMULATIONS * len(policies), spent)

    def _plan(self, state: State, key: Key, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the improved policy and the action values of one small search, f32[A] each."""
        params = SearchParams(own=None)
        memory_key, search_key = jax.random.split(jax.random.fold_in(key, number))
        memory = self._search.belief.init(params, state, state.current_player, memory_key)
        found = self._search.plan(params, memory, state, search_key)
        return found.policy, found.results
