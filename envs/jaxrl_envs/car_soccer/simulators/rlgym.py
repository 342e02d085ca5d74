"""Car soccer as users of RLGym 2 know it: what they compose is what `CarSoccer` is made with, under the same names.

    env = RLGym(CarSoccer(teams=(1, 1), rewards={"touch": 1.0}))
    observations = env.reset()
    actions = {agent: np.array([0]) for agent in env.agents}
    observations, rewards, terminated, truncated = env.step(actions)

One arena at a time, as there; `jaxrl_envs.adapters.gymnasium.BatchedGames` plays thousands in one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer import actions as rows
from jaxrl_envs.car_soccer.env import CarSoccer, CarSoccerState
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError

Agent = str
PerAgent = dict[Agent, Any]


class RLGym:
    """`rlgym.api.RLGym` over `CarSoccer`: everything by agent, "blue-0", "orange-0" and so on.

    Actions are rows of RLGym's lookup table. One that could do nothing which another one does not (boost without any)
    is taken for that one, so learners that know no masks may use all 90.
    """

    def __init__(self, env: CarSoccer | None = None, seed: int = 0):
        """Sets up one arena; `env` is one against one by default, and `seed` decides how episodes begin."""
        self.env = env or CarSoccer()
        self.agents = agent_names(self.env)
        self._key, self._episodes = prng.fast_key(seed), 0
        self._init, self._step = jax.jit(self.env.init), jax.jit(self._advance)
        self._state: CarSoccerState | None = None

    @property
    def state(self) -> CarSoccerState:
        """All of it: `state.game.arena` has the bodies and pads, `state.game.board` the goals and the clock."""
        assert self._state is not None, "call reset first"
        return self._state

    @property
    def action_spaces(self) -> PerAgent:
        """By agent, ("discrete", 90)."""
        return {agent: self.action_space(agent) for agent in self.agents}

    @property
    def observation_spaces(self) -> PerAgent:
        """By agent, ("real", F)."""
        return {agent: self.observation_space(agent) for agent in self.agents}

    def action_space(self, agent: Agent) -> tuple[str, int]:
        """Returns the action space, in the form of `LookupTableAction`."""
        return "discrete", rows.NUM_ACTIONS

    def observation_space(self, agent: Agent) -> tuple[str, int]:
        """Returns the observation space, in the form of `DefaultObs`."""
        return "real", self.env.num_features

    def set_state(self, desired_state: CarSoccerState) -> PerAgent:
        """Goes on from a state, one that `state` has been; the observations f32[F]."""
        self._state = desired_state
        return self._by_agent(desired_state.observation)

    def reset(self) -> PerAgent:
        """Returns a new episode; the observations f32[F]."""
        self._episodes += 1
        return self.set_state(self._init(jax.random.fold_in(self._key, self._episodes)))

    def step(self, actions: Mapping[Agent, Any]) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent]:
        """`tick_skip` ticks.

        Args:
          actions: rows of the table by agent, int or integers of one element.

        Returns:
          Observations f32[F], rewards, terminated and truncated by agent.

        Raises:
          UserError: an agent has no action, or not one of the table.
        """
        chosen = np.array([self._row(actions, agent) for agent in self.agents], np.int32)
        self._state = self._step(self.state, chosen)
        ends = (self._state.terminated, self._state.truncated)
        terminated, truncated = (dict.fromkeys(self.agents, bool(end)) for end in ends)
        rewards = self._by_agent(np.asarray(self._state.rewards).tolist())
        return self._by_agent(self._state.observation), rewards, terminated, truncated

    def render(self) -> str:
        """Returns the arena from above as text."""
        return self.env.render(self.state)

    def close(self) -> None:
        """Nothing is open."""

    def _row(self, actions: Mapping[Agent, Any], agent: Agent) -> int:
        given = actions.get(agent)
        row = np.asarray(-1 if given is None else given).ravel()
        if row.dtype.kind not in "iu" or len(row) != 1 or not 0 <= row[0] < rows.NUM_ACTIONS:
            raise UserError(f"{agent} needs one row of the table, 0 to {rows.NUM_ACTIONS - 1}, not {given}.")
        return int(row[0])

    def _advance(self, state: CarSoccerState, chosen: jax.Array) -> Any:
        legal = rows.nearest(jnp.asarray(rows.TABLE)[chosen], state.legal_action_mask)
        mask = state.legal_action_mask[jnp.arange(len(self.agents)), chosen]
        return self.env.step(state, jnp.where(mask, chosen, legal), self._key)

    def _by_agent(self, values: Any) -> PerAgent:
        values = np.asarray(values) if isinstance(values, jax.Array) else values
        return dict(zip(self.agents, values, strict=True))


def agent_names(env: CarSoccer) -> list[Agent]:
    """Returns the seats as RLGym names its agents."""
    colours = [("blue", "orange")[team] for team in env.teams.of]
    return [f"{colour}-{colours[:seat].count(colour)}" for seat, colour in enumerate(colours)]
