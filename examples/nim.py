"""Nim, the smallest complete game: take one to three stones; the player who takes the last one wins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields
from jaxrl_envs.shared.errors import UserError


@struct.dataclass
class NimState(State):
    """The public leaves, and the pile."""

    stones: jax.Array  # i32[]


class Nim(Env):
    """Two seats, three actions: action a takes a + 1 stones."""

    id, version = "nim", "1"
    num_players, num_actions = 2, 3
    perfect_information = True  # nothing is hidden, so it can be searched
    reference_bot = "perfect"
    how_to_play = "Take one to three stones in turn. The player who takes the last one wins."

    def __init__(self, *, largest: int = 20):
        """Sets up a game.

        Args:
          largest: the pile starts with 1 to this many stones.
        """
        if largest < 4:
            raise UserError(f"nim: largest must be at least 4, not {largest}")
        self.largest = largest

    def _init(self, key):
        stones = jax.random.randint(key, (), 1, self.largest + 1)
        fields = public_fields(num_players=2, num_actions=3) | {"legal_action_mask": legal(stones)}
        return NimState(observation=None, stones=stones, **fields)  # the base class fills the observation in

    def _step(self, state, action, key):
        stones = state.stones - (action + 1)
        won = stones == 0
        sign = jnp.where(jnp.arange(2) == state.current_player, 1.0, -1.0)
        return state.replace(
            stones=stones,
            current_player=1 - state.current_player,
            legal_action_mask=legal(stones),
            rewards=jnp.where(won, sign, 0.0),
            terminated=won,
        )

    def observe(self, state, seat):
        """Returns bool[largest + 1], one-hot: both seats see the pile and nothing else is hidden."""
        return jnp.arange(self.largest + 1) == state.stones

    def render(self, state, seat=None):
        """Returns the pile as text; there is nothing to hide from a seat."""
        return f"{int(state.stones)} stones: {'o' * int(state.stones)}"

    def action_name(self, action):
        """Returns an action's name."""
        return f"take {action + 1}"

    @property
    def bots(self):
        """Scripted opponents; "perfect" leaves a multiple of four whenever it can."""

        def perfect(state, key):
            return jnp.where(state.stones % 4 == 0, 0, state.stones % 4 - 1).astype(jnp.int32)

        return {"random": self.random_action, "perfect": perfect}


def legal(stones):
    """Returns bool[3]: at most as many as there are."""
    return jnp.arange(3) < stones
