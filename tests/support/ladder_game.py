"""A game whose players have known ratings: each seat says how strong it plays, and the dice decide."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.league.elo import expected_score
from jaxrl_envs.contract.env import Bot, Env, Key, State, public_fields

RATINGS = {"random": 0.0, "weak": 120.0, "strong": 300.0, "middle": 190.0}


@struct.dataclass
class LadderState(State):
    first: jax.Array  # i8[], what seat 0 has said; -1 before


class Ladder(Env):
    """Action a plays at rating `RATINGS[a]`; win probabilities follow the ratings exactly."""

    id = "ladder"
    version = "1"

    def __init__(self, *, stake: int = 1):
        """A game for a stake.

        Args:
          stake: points of a win.
        """
        self.num_players, self.num_actions, self.stake = 2, len(RATINGS), stake

    @property
    def bots(self) -> Mapping[str, Bot]:
        return {name: lambda state, key, a=a: jnp.int32(a) for a, name in enumerate(RATINGS)}

    def _init(self, key: Key) -> LadderState:
        fields = public_fields(num_players=2, num_actions=self.num_actions)
        return LadderState(observation=None, first=jnp.int8(-1), **fields)

    def _step(self, state: LadderState, action: jax.Array, key: Key) -> LadderState:
        over, ratings = state.first >= 0, jnp.array(list(RATINGS.values()))
        won = jax.random.uniform(key) < expected_score(ratings[state.first], ratings[action])
        rewards = jnp.where(won, 1.0, -1.0) * jnp.array([self.stake, -self.stake])
        return state.replace(
            first=jnp.asarray(action, jnp.int8),
            current_player=1 - state.current_player,
            rewards=jnp.where(over, rewards, 0.0).astype(jnp.float32),
            terminated=over,
        )

    def observe(self, state: LadderState, seat: jax.Array) -> jax.Array:
        """Returns f32[1]: nothing."""
        return jnp.zeros(1, jnp.float32)

    def permute_hidden(self, state: LadderState, seat: jax.Array, key: Key) -> LadderState:
        return state
