"""Environments of gymnax (Lange 2022, https://github.com/RobertTLange/gymnax): ``make("gymnax:CartPole-v1")``.

One seat, discrete actions. Since version 1.0 gymnax tells ends and cuts apart.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.adapters import require
from jaxrl_envs.contract.env import Env, Key, PyTree, State, public_fields
from jaxrl_envs.shared.errors import UserError, nearest


@struct.dataclass
class GymnaxState(State):
    """The public leaves and the gymnax state."""

    inner: Any


class GymnaxEnv(Env):
    """One gymnax environment with its default parameters.

    Args:
      max_steps: steps until an episode is cut off; 0 keeps the limit of gymnax.
    """

    id = "gymnax"
    version = "1"
    may_truncate = True

    def __init__(self, name: str, *, max_steps: int = 0):
        """Makes the environment that gymnax calls `name`."""
        gymnax = require("gymnax", f"the game 'gymnax:{name}'", "jaxrl[games]")
        if name not in gymnax.registered_envs:
            raise UserError(f"gymnax has no environment {name!r}: {nearest(name, gymnax.registered_envs)}")
        if max_steps < 0:
            raise UserError(f"'gymnax:{name}' option max_steps must be 0 or more, not {max_steps}")
        self.game, self.params = gymnax.make(name)
        if max_steps:
            self.params = self.params.replace(max_steps_in_episode=max_steps)
        space = self.game.action_space(self.params)
        if not hasattr(space, "n"):
            raise UserError(f"'gymnax:{name}' has continuous actions; only discrete actions are supported")
        self.id = f"gymnax:{name}"  # type: ignore[misc]
        self.version = str(getattr(gymnax, "__version__", "1"))  # type: ignore[misc]
        self.num_players, self.num_actions = 1, int(space.n)

    def _init(self, key: Key) -> GymnaxState:
        observation, inner = self.game.reset_env(key, self.params)
        return GymnaxState(
            observation=jax.tree.map(jnp.asarray, observation),
            inner=jax.tree.map(jnp.asarray, inner),
            **public_fields(num_players=1, num_actions=self.num_actions),
        )

    def _step(self, state: State, action: jax.Array, key: Key) -> State:
        observation, inner, reward, done, _ = self.game.step_env(key, state.inner, action, self.params)
        truncated = self.game.is_truncated(inner, self.params)
        return state.replace(
            observation=_like(observation, state.observation),
            inner=_like(inner, state.inner),
            rewards=jnp.reshape(reward, 1).astype(jnp.float32),
            terminated=jnp.asarray(done, bool),
            truncated=jnp.asarray(truncated & ~done, bool),
        )

    def observe(self, state: State, seat: jax.Array) -> PyTree:
        """Returns gymnax's observation of this state; some games draw it at random, so it cannot be recomputed."""
        return state.observation


def _like(tree: PyTree, model: PyTree) -> PyTree:
    """`tree` with the dtypes of `model`: gymnax states begin with Python numbers."""
    return jax.tree.map(lambda leaf, other: jnp.asarray(leaf, other.dtype), tree, model)
