"""Our games as PettingZoo environments (Terry et al. 2021, https://arxiv.org/abs/2009.14471): NumPy in, NumPy out.

- `SeatsAEC`: a turn-based game, one agent asked at a time.
- `SeatsParallel`: a simultaneous game, all agents asked in every step.

Agents are "seat_0" .. "seat_P-1". An observation is {"observation": f32[F], "action_mask": i8[A], 1 = legal}; agents
that are not asked have a mask of zeros. An illegal action ends the game.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError

pettingzoo: Any = require("pettingzoo", "jaxrl_envs.adapters.pettingzoo", "jaxrl[pettingzoo]")
gymnasium: Any = require("gymnasium", "jaxrl_envs.adapters.pettingzoo", "jaxrl[pettingzoo]")
_AEC: Any = object if TYPE_CHECKING else pettingzoo.AECEnv
_Parallel: Any = object if TYPE_CHECKING else pettingzoo.ParallelEnv


class _Seats:
    """Common part of both kinds: the agents, their spaces, and the compiled game with its random stream."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(self, env: Env):
        """Wraps the game `env`; the seed of `reset` decides its deals."""
        self.game, self.render_mode = env, "ansi"
        self.metadata = self.metadata | {"name": f"{env.id}_v0", "is_parallelizable": env.simultaneous}
        self.possible_agents = [f"seat_{seat}" for seat in range(env.num_players)]
        self.agents: list[str] = []
        self.observation_spaces = {agent: _space(env) for agent in self.possible_agents}
        self.action_spaces = {agent: gymnasium.spaces.Discrete(env.num_actions) for agent in self.possible_agents}
        self._begin, self._advance = jax.jit(env.init), jax.jit(env.step)
        self._see = jax.jit(lambda state, seat: env.features(env.observe(state, seat)))
        self._random = np.random.default_rng()
        self._state: State | None = None

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def render(self) -> str:
        """Returns the whole table as text, with what is hidden from the seats."""
        return self.game.render(self._running)

    def close(self) -> None:
        """Nothing to release."""

    @property
    def _running(self) -> State:
        assert self._state is not None, "call reset first"
        return self._state

    def _deal(self, seed: int | None) -> None:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._state, self.agents = self._begin(self._key()), self.possible_agents[:]

    def _move(self, action: Any) -> State:
        self._state = self._advance(self._running, np.asarray(action, np.int32), self._key())
        return self._state

    def _key(self) -> jax.Array:
        return prng.fast_key(int(self._random.integers(2**31)))

    def _observed(self, agent: str) -> dict[str, np.ndarray]:
        state, seat = self._running, self.possible_agents.index(agent)
        mask = np.asarray(state.legal_action_mask)
        if self.game.simultaneous:
            mask = mask[seat]
        elif seat != int(state.current_player):
            mask = np.zeros_like(mask)
        return {"observation": np.array(self._see(state, np.int32(seat))), "action_mask": mask.astype(np.int8)}


class SeatsAEC(_Seats, _AEC):
    """A turn-based game as a PettingZoo AEC environment."""

    def __init__(self, env: Env):
        """Wraps the game `env`.

        Raises:
          UserError: the game asks all seats at once.
        """
        if env.simultaneous:
            raise UserError(f"{env.id} asks all seats at once: use SeatsParallel instead of SeatsAEC")
        super().__init__(env)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """A new game; a seed begins a sequence of deals, None continues it."""
        self._deal(seed)
        agents = self.agents
        self.rewards, self._cumulative_rewards = dict.fromkeys(agents, 0.0), dict.fromkeys(agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(agents, False), dict.fromkeys(agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
        self.agent_selection = self.possible_agents[int(self._running.current_player)]

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        return self._observed(agent)

    def step(self, action: int | None) -> None:
        """The action of `agent_selection`, or None for an agent whose game is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            return self._was_dead_step(action)
        self._cumulative_rewards[agent] = 0.0
        state = self._move(action)
        rewards = np.asarray(state.rewards)
        self.rewards = {agent: float(reward) for agent, reward in zip(self.agents, rewards, strict=True)}
        self.terminations = dict.fromkeys(self.agents, bool(state.terminated))
        self.truncations = dict.fromkeys(self.agents, bool(state.truncated))
        self.agent_selection = self.possible_agents[int(state.current_player)]
        self._accumulate_rewards()


class SeatsParallel(_Seats, _Parallel):
    """A simultaneous game as a PettingZoo parallel environment."""

    def __init__(self, env: Env):
        """Wraps the game `env`.

        Raises:
          UserError: the game asks one seat at a time.
        """
        if not env.simultaneous:
            raise UserError(f"{env.id} asks one seat at a time: use SeatsAEC instead of SeatsParallel")
        super().__init__(env)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Returns a new game: observations and infos by agent. A seed begins a sequence of deals, None continues it."""
        self._deal(seed)
        return self._all(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        """(observations, rewards, terminations, truncations, infos) by agent, after one action of every agent."""
        agents = self.agents
        state = self._move([actions[agent] for agent in agents])
        rewards = {agent: float(reward) for agent, reward in zip(agents, np.asarray(state.rewards), strict=True)}
        terminations, truncations = (dict.fromkeys(agents, bool(each)) for each in (state.terminated, state.truncated))
        observations: dict = self._all()
        infos: dict = {agent: {} for agent in agents}
        if bool(state.terminated | state.truncated):
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def _all(self) -> dict[str, dict[str, np.ndarray]]:
        return {agent: self._observed(agent) for agent in self.agents}


def _space(env: Env) -> Any:
    """Returns the observation space of one seat."""
    spaces = gymnasium.spaces
    seen = spaces.Box(-np.inf, np.inf, (env.num_features,), np.float32)
    return spaces.Dict({"observation": seen, "action_mask": spaces.Box(0, 1, (env.num_actions,), np.int8)})
