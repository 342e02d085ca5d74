"""Replays the actions of one recorded game into its states, by a program that compiles quickly since it runs once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared.errors import UserError

S = TypeVar("S", bound=State)


def replay_states(env: Env, first: S, actions: Sequence[int]) -> list[S]:
    """Replays a recorded game: all states of a turn-based game without chance after the deal, as NumPy arrays.

    Args:
      env: the game.
      first: its first state, with every card in its place.
      actions: int, of the seat asked in each state.

    Raises:
      UserError: one of the actions is not legal, or comes after the end of the game.
    """
    options: dict[str, str | bool] | None = None
    if jax.default_backend() == "cpu":
        options = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
    key = jax.random.key(0)
    step = jax.jit(env.step).lower(first, jnp.int32(0), key).compile(compiler_options=options)
    states = [jax.device_get(first)]
    state = first
    for number, action in enumerate(actions):
        if bool(states[-1].terminated) or not bool(states[-1].legal_action_mask[action]):
            raise UserError(f"decision {number} of the recording cannot be played: {env.action_name(action)}.")
        state = step(state, jnp.int32(action), key)
        states.append(jax.device_get(state))
    return states
