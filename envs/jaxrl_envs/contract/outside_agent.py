"""Outside agents: programs of the user's own that play a game on the host, such as policies of another trainer."""

from __future__ import annotations

import abc
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.host.callbacks import Outputs, call_host


class OutsideAgent(abc.ABC):
    """A program that plays on the host; where opponents are named it is "agent:package.module:Class".

    It must find in its view whatever it needs to remember: many games are played side by side, without numbers.
    """

    def __init__(self, env: Env):
        """Makes an agent for one game."""
        self.env, self._lock = env, threading.Lock()  # devices ask at the same time

    def view(self, state: State) -> Any:
        """Returns the arrays of one game that `act` is shown, a pytree; by default the observations and masks."""
        return state.observation, state.legal_action_mask

    @abc.abstractmethod
    def act(self, seen: Any) -> Any:
        """Chooses actions in N games.

        Args:
          seen: the views of the games, NumPy arrays with a leading axis [N].

        Returns:
          Legal actions, integers [N], or [N, P] where all P seats are asked at once.
        """

    def actions(self, state: State) -> jax.Array:
        """Returns the actions in one game, i32[] or i32[P], as a part of a compiled program."""
        return self.ask(state, jax.ShapeDtypeStruct(state.current_player.shape, np.int32))

    def ask(self, state: State, form: jax.ShapeDtypeStruct) -> jax.Array:
        """Calls `act` on the host for one game; the result has the given form."""
        leaves, structure = jax.tree.flatten(self.view(state))
        self._structure = structure
        answer: jax.Array = call_host(self._answer, [form], jnp.zeros(1), *leaves)[0]
        return answer

    def _answer(self, outputs: Outputs, _: np.ndarray, *leaves: np.ndarray) -> None:
        with self._lock:
            outputs[0][...] = self.act(jax.tree.unflatten(self._structure, leaves))
