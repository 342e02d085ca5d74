"""A game of one decision with a weighted sum of rewards, of which only one depends on the action."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.shared.errors import UserError


@struct.dataclass
class LeverState(State):
    right: jax.Array  # i32[], the lever that pays


class Levers(Env):
    """One seat pulls one of four levers; the observation shows the right one."""

    id, version = "levers", "1"
    perfect_information, weight_options = True, ("rewards",)

    def __init__(self, *, rewards: dict[str, float]):
        """A game with these rules.

        Args:
          rewards: weights of right (1 for the right lever), always (1 whatever is done) and never.
        """
        if strange := set(rewards) - {"right", "always", "never"}:
            raise UserError(f"levers: there is no reward {strange.pop()!r}.")
        self.num_players, self.num_actions = 1, 4
        self.rewards = rewards

    def weighted(self, weights):
        return Levers(rewards=self.rewards | weights["rewards"])

    def _init(self, key: Key) -> LeverState:
        fields = public_fields(num_players=1, num_actions=4)
        return LeverState(observation=None, right=jax.random.randint(key, (), 0, 4), **fields)

    def _step(self, state: LeverState, action: jax.Array, key: Key) -> LeverState:
        weight = self.rewards.get
        paid = weight("right", 0.0) * (action == state.right) + weight("always", 0.0)
        return state.replace(rewards=jnp.float32(paid)[None], terminated=jnp.bool_(True))

    def observe(self, state: LeverState, seat: jax.Array) -> jax.Array:
        """Returns bool[4], the right lever."""
        return jnp.arange(4) == state.right

    def render(self, state: LeverState, seat: int | None = None) -> str:
        return f"lever {int(state.right)} is right"
