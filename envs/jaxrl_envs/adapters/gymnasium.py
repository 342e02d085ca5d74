"""Our games for people who bring their own learner: NumPy in, NumPy out, the games themselves compiled.

- `SeatEnv`: a Gymnasium environment, one learner seat against bots.
- `BatchedGames`: thousands of games in one call, *all* seats decided by the caller.
- `jaxrl_envs.adapters.sb3.SeatVecEnv`: thousands of learner seats as a Stable-Baselines3 vector environment.

Illegal actions end a game. `SeatEnv.action_masks()` is what sb3-contrib's MaskablePPO asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.adapters.seat import Lane, SeatGame, View
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.contract.wrappers import AutoReset
from jaxrl_envs.shared import prng

gymnasium: Any = require("gymnasium", "jaxrl_envs.adapters.gymnasium", "jaxrl[gymnasium]")
_Base: Any = object if TYPE_CHECKING else gymnasium.Env


def spaces(env: Env) -> tuple[Any, Any]:
    """(observation space, action space) of one seat."""
    observation = gymnasium.spaces.Box(-np.inf, np.inf, (env.num_features,), np.float32)
    return observation, gymnasium.spaces.Discrete(env.num_actions)


class SeatEnv(_Base):
    """One learner seat of a game as a Gymnasium environment; the bots in the other seats move inside `step`."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(self, env: Env, opponents: Sequence[str] = ("random",), seat: int | None = None):
        """See `SeatGame` for the arguments and errors."""
        self.game, self.render_mode = SeatGame(env, opponents, seat), "ansi"
        self.observation_space, self.action_space = spaces(env)
        self._begin, self._act, self._view = (jax.jit(f) for f in (self.game.begin, self.game.act, self.game.view))
        self._lane: Lane | None = None
        self._mask = np.ones(env.num_actions, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Returns a new game at the learner's first decision; info holds ``action_mask`` (bool[A]) and ``seat``."""
        super().reset(seed=seed)
        self._lane = self._begin(self._key())
        observation, _, _, _, info = self._result()
        return observation, info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        """Plays the learner's action; the reward is everything its seat earned until its next decision or the end."""
        assert self._lane is not None, "call reset first"
        self._lane = self._act(self._lane, np.int32(action), self._key())
        return self._result()

    def action_masks(self) -> np.ndarray:
        """bool[A], True = legal."""
        return self._mask

    def render(self) -> str:
        """Returns the table as text, as the learner's seat sees it."""
        assert self._lane is not None, "call reset first"
        return self.game.env.render(self._lane.state, int(self._lane.seat))

    def _key(self) -> jax.Array:
        return prng.fast_key(int(self.np_random.integers(2**31)))

    def _result(self) -> tuple[Any, float, bool, bool, dict]:
        assert self._lane is not None
        view: View = jax.tree.map(np.array, self._view(self._lane))
        self._mask = np.asarray(view.mask)
        info = {"action_mask": view.mask, "seat": int(self._lane.seat)}
        return view.observation, float(view.reward), bool(view.terminated), bool(view.truncated), info


Array = np.ndarray | jax.Array  # NumPy outside, traced inside the compiled functions


class VectorStep(NamedTuple):
    """Result of `BatchedGames` for N games; simultaneous games have a seat axis after N where marked [P]."""

    observation: Array  # f32[N, (P,) F], of the seat to move
    mask: Array  # bool[N, (P,) A]
    current_player: Array  # i32[N, (P)]
    rewards: Array  # f32[N, P], of the step that led here; every seat's, so that credit can be given to all
    terminated: Array  # bool[N], the step ended the game; the fields above are already the next game's first
    truncated: Array  # bool[N]
    final_observation: Array  # f32[N, (P,) F], of the state that the step led to, before any reset


class BatchedGames:
    """N games in one call, every seat's decisions taken by the caller; finished games restart by themselves."""

    def __init__(self, env: Env, num_games: int, seed: int = 0):
        """N games of `env`; the seed decides all deals."""
        self.env, self.num_games = env, num_games
        self._key, self._state, self._time = prng.fast_key(seed), None, 0
        self._first, self._advance = jax.jit(self._first_batch), jax.jit(self._next_batch, donate_argnums=0)

    def reset(self) -> VectorStep:
        """N new games."""
        self._state, batch = self._first(self._next_keys())
        return jax.tree.map(np.asarray, batch)

    def step(self, actions: np.ndarray) -> VectorStep:
        """Returns one decision in every game.

        Args:
          actions: integers [N], or [N, P] in a simultaneous game.
        """
        assert self._state is not None, "call reset first"
        self._state, batch = self._advance(self._state, np.asarray(actions, np.int32), self._next_keys())
        return jax.tree.map(np.asarray, batch)

    def _next_keys(self) -> jax.Array:
        self._time += 1
        return jax.random.fold_in(self._key, self._time)

    def _features(self, observation: Any) -> jax.Array:
        each = jax.vmap(self.env.features) if self.env.simultaneous else self.env.features
        return jax.vmap(each)(observation)

    def _first_batch(self, key: jax.Array) -> tuple[State, VectorStep]:
        state = jax.vmap(self.env.init)(jax.random.split(key, self.num_games))
        observation = self._features(state.observation)
        ends = (state.terminated, state.truncated)
        seen = (observation, state.legal_action_mask, state.current_player)
        return state, VectorStep(*seen, state.rewards, *ends, observation)

    def _next_batch(self, state: State, actions: jax.Array, key: jax.Array) -> tuple[State, VectorStep]:
        keys = jax.random.split(key, self.num_games)
        state, final = jax.vmap(AutoReset(self.env).step)(state, actions, keys)
        seen = (self._features(state.observation), state.legal_action_mask, state.current_player)
        ends = (final.terminated, final.truncated)
        return state, VectorStep(*seen, final.rewards, *ends, self._features(final.observation))
