"""Agents made of RLGym's parts, as opponents: their observation builders and action parsers work on RLGym's own states.

A file mine.py, for `jaxrl evaluate zoo:car_soccer --simulator rocketsim --opponents agent:mine:Mine`:

    class Mine(RLGymAgent):
        obs_builder = DefaultObs(zero_padding=3)
        action_parser = LookupTableAction()

        def choose(self, observations):  # by agent, as in RLGym
            return {agent: np.array([policy(row)]) for agent, row in observations.items()}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.car_soccer import actions as rows
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.simulators.rlgym import agent_names
from jaxrl_envs.car_soccer.simulators.rocketsim import ArenaView, Pitch, packed, started
from jaxrl_envs.contract.env import State
from jaxrl_envs.contract.outside_agent import OutsideAgent


class RLGymAgent(OutsideAgent):
    """An agent of RLGym 2. Of the controls that it wants, the most similar legal row of our table is played.

    Attributes:
      obs_builder: an `ObsBuilder`.
      action_parser: an `ActionParser`, of whose ticks the last one counts; None: `choose` returns controls, f32[8].
    """

    env: CarSoccer
    obs_builder: Any
    action_parser: Any = None

    def __init__(self, env: CarSoccer):
        """Sets up an agent; RocketSim and RLGym must be installed."""
        super().__init__(env)
        self.names, self._pitch = agent_names(env), Pitch(started(env.meshes), env.settings)
        install = "--no-deps rlgym-rocket-league==2.0.1 rlgym==2.0.1 rlgym-api"
        self._engine = require("rlgym.rocket_league.sim", "an agent of RLGym", install).RocketSimEngine()

    def choose(self, observations: Mapping[str, Any]) -> Mapping[str, Any]:
        """Chooses the actions of one game, by agent."""
        raise NotImplementedError

    def view(self, state: State) -> Any:
        """Returns the arena as it goes to RocketSim, and its tick."""
        arena = state.game.arena
        ball = jnp.concatenate([part.array for part in vars(arena.ball).values()])
        counts = jnp.stack(list(vars(arena.counts).values()))
        pads = arena.pads.cooldown, arena.pads.lock
        return ball, packed(arena.cars), *pads, counts, arena.tick

    def act(self, seen: Any) -> np.ndarray:
        """Returns the controls that the agent wants, f32[N, P, 8]."""
        *views, ticks = seen
        return np.stack([self._wanted(ArenaView(*view), int(tick)) for *view, tick in zip(*views, ticks, strict=True)])

    def actions(self, state: State) -> jax.Array:
        """Returns the most similar legal rows, i32[P]."""
        wanted = self.ask(state, jax.ShapeDtypeStruct((self.env.num_players, 8), np.float32))
        return rows.nearest(wanted, state.legal_action_mask)

    def state_of(self, view: ArenaView, tick: int) -> Any:
        """RLGym's `GameState` of an arena."""
        self._pitch.write(view, tick)
        return self._pitch.shown_by(self._engine, self.names)

    def _wanted(self, view: ArenaView, tick: int) -> np.ndarray:
        """f32[P, 8], the controls of all seats in one game."""
        state = self.state_of(view, tick)
        wanted = self.choose(self.obs_builder.build_obs(self.names, state, {}))
        if self.action_parser is not None:
            wanted = self.action_parser.parse_actions(dict(wanted), state, {})
        return np.stack([np.reshape(wanted[name], (-1, 8))[-1] for name in self.names]).astype(np.float32)
