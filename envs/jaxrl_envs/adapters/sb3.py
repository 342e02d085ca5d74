"""A vector environment of Stable-Baselines3 for any game, with action masks for sb3-contrib's MaskablePPO.

from jaxrl_envs.adapters.sb3 import SeatVecEnv
from jaxrl_envs.contract.registry import make
from sb3_contrib import MaskablePPO

MaskablePPO("MlpPolicy", SeatVecEnv(make("skull_king"), 64, opponents=("easy", "medium"))).learn(100_000)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.adapters.gymnasium import spaces
from jaxrl_envs.adapters.seat import Lane, SeatGame, View
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import prng

vec_env: Any = require("stable_baselines3.common.vec_env", "jaxrl_envs.adapters.sb3", "jaxrl[sb3]")
_Base: Any = object if TYPE_CHECKING else vec_env.VecEnv


class SeatVecEnv(_Base):
    """One learner seat in each of N games against bots; one compiled call steps them all."""

    render_mode = None

    def __init__(
        self,
        env: Env,
        num_envs: int,
        opponents: Sequence[str] = ("random",),
        seat: int | None = None,
        seed: int = 0,
    ):
        """N games; see `SeatGame` for the other arguments and errors."""
        self.game = SeatGame(env, opponents, seat)
        super().__init__(num_envs, *spaces(env))
        self._key, self._time = prng.fast_key(seed), 0
        self._begin, self._advance = jax.jit(self._first), jax.jit(self._next, donate_argnums=0)
        self._lanes: Lane | None = None
        self._actions = np.zeros(num_envs, np.int32)
        self._masks = np.ones((num_envs, env.num_actions), bool)

    # ---- games ------------------------------------------------------------------------------------------------------

    def reset(self) -> np.ndarray:
        """N new games: observations f32[N, F]."""
        self._lanes, view = self._begin(self._next_key())
        self._masks = np.array(view.mask)
        return np.array(view.observation)

    def step_async(self, actions: np.ndarray) -> None:
        """Takes the actions [N] of the next `step_wait`."""
        self._actions = np.asarray(actions, np.int32)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """(observations, rewards, dones, infos); infos of finished games hold the terminal observation."""
        assert self._lanes is not None, "call reset first"
        self._lanes, after, final = self._advance(self._lanes, self._actions, self._next_key())
        final = jax.tree.map(np.asarray, final)
        self._masks = np.array(after.mask)
        dones = final.terminated | final.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.nonzero(dones)[0]:
            cut = bool(final.truncated[i] and not final.terminated[i])
            infos[i] = {"terminal_observation": final.observation[i], "TimeLimit.truncated": cut}
        return np.array(after.observation), final.reward, dones, infos

    def action_masks(self) -> np.ndarray:
        """bool[N, A], True = legal."""
        return self._masks

    def _first(self, key: jax.Array) -> tuple[Lane, View]:
        lanes = jax.vmap(self.game.begin)(jax.random.split(key, self.num_envs))
        return lanes, jax.vmap(self.game.view)(lanes)

    def _next(self, lanes: Lane, actions: jax.Array, key: jax.Array) -> tuple[Lane, View, View]:
        act_keys, restart_keys = jax.random.split(key, (2, self.num_envs))
        lanes = jax.vmap(self.game.act)(lanes, actions, act_keys)
        final = jax.vmap(self.game.view)(lanes)
        lanes = jax.vmap(self.game.restart)(lanes, restart_keys)
        return lanes, jax.vmap(self.game.view)(lanes), final

    def _next_key(self) -> jax.Array:
        self._time += 1
        return jax.random.fold_in(self._key, self._time)

    # ---- the rest of SB3's interface --------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Starts another sequence of deals at the next reset."""
        if seed is not None:
            self._key, self._time = prng.fast_key(seed), 0
        return [seed] * self.num_envs

    def close(self) -> None:
        """Nothing to release."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns the attribute, once for every game."""
        return [getattr(self, attr_name)] * len(self._places(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets an attribute of the whole batch."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """``action_masks`` by game; there are no other methods of single games."""
        if method_name != "action_masks":
            raise AttributeError(f"SeatVecEnv has no per-game method {method_name!r}")
        return [self._masks[i] for i in self._places(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Single games are never wrapped."""
        return [False] * len(self._places(indices))

    def _places(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)
