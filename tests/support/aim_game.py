"""A game of goals with known values: two seats say how many of two throws they will land, and throw in turn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.contract.env import CameTrue, Env, Key, State, public_fields

LANDS = 0.75  # the probability that a throw (action 1) lands; action 0 never does
TICK = 0.25  # paid at once for a throw that lands, and taken back when the round is scored


@struct.dataclass
class AimState(State):
    goals: jax.Array  # i32[2]
    landed: jax.Array  # i32[2], throws in this round
    scored: jax.Array  # i32[2], of the round that the last step ended; -1: none
    turn: jax.Array  # i32[], of the round: 0..1 goals, 2..5 throws
    round: jax.Array  # i32[]


def score(goal: jax.Array, landed: jax.Array) -> jax.Array:
    """Returns f32[...], the reward: 1 + goal / 2 if exactly `goal` throws landed, otherwise -1."""
    return jnp.where(goal == landed, 1.0 + goal / 2, -1.0)


class Aim(Env):
    """A seat first sets a goal with action 0..2, then throws with action 0 or 1."""

    id, version = "aim", "1"
    num_players, num_actions = 2, 3
    phases = {"phase": ("goal", "throw"), "round": ("1", "2")}

    def __init__(self, *, rounds: int = 2):
        self.rounds = rounds

    def _init(self, key: Key) -> AimState:
        two = jnp.zeros(2, jnp.int32)
        return AimState(
            observation=None, goals=two, landed=two, scored=two - 1, turn=jnp.int32(0), round=jnp.int32(0),
            **public_fields(num_players=2, num_actions=3),
        )  # fmt: skip

    def _step(self, state: AimState, action: jax.Array, key: Key) -> AimState:
        seat = jnp.arange(2) == state.current_player
        goals = jnp.where(seat & (state.turn < 2), action, state.goals)
        lands = (state.turn >= 2) & (action == 1) & jax.random.bernoulli(key, LANDS)
        landed = state.landed + (seat & lands)
        done = state.turn == 5
        rewards = TICK * (seat & lands) + jnp.where(done, score(goals, landed) - TICK * landed, 0.0)
        turn = jnp.where(done, 0, state.turn + 1)
        return state.replace(
            goals=goals,
            landed=jnp.where(done, 0, landed),
            scored=jnp.where(done, landed, -1),
            turn=turn,
            round=state.round + done,
            current_player=turn % 2,
            legal_action_mask=(jnp.arange(3) < 2) | (turn < 2),
            rewards=rewards.astype(jnp.float32),
            terminated=done & (state.round == self.rounds - 1),
        )

    def observe(self, state: AimState, seat: jax.Array) -> jax.Array:
        """Returns i8[4]: own goal (-1 before it is set), own throws so far, own throws that landed, the round."""
        throws = jnp.maximum(state.turn - 2, 0) // 2
        goal = jnp.where(state.turn < 2, -1, state.goals[seat])
        return jnp.stack([goal, throws, state.landed[seat], state.round]).astype(jnp.int8)

    def features(self, observation: jax.Array) -> jax.Array:
        return (observation[:, None] == jnp.arange(3)).astype(jnp.float32).ravel()

    def manages(self, observation: jax.Array) -> jax.Array:
        return observation[0] < 0

    def came_true(self, before: State, action: jax.Array, after: State) -> CameTrue:
        assert isinstance(after, AimState)
        return CameTrue(after.scored, jnp.where(after.scored >= 0, score(after.scored, after.scored), 0.0))

    def relabelled(self, observation: jax.Array, mask: jax.Array, goal: jax.Array) -> tuple[jax.Array, jax.Array]:
        return observation.at[0].set(goal.astype(jnp.int8)), mask

    def phase(self, observation: jax.Array) -> dict[str, jax.Array]:
        return {"phase": (observation[0] >= 0).astype(jnp.int32), "round": observation[3].astype(jnp.int32)}
