"""Two sledges on a line, the smallest game that can be driven: see `jaxrl_envs.shared.display.driving`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Env, State, public_fields
from jaxrl_envs.shared.display.driving import Handles

MATCHES = {"a race": {"length": 100.0}, "a sprint": {"length": 3.0}}
SPEED, EVERY = 0.1, 4  # of a frame; frames of a decision


@struct.dataclass
class SledgesState(State):
    places: object  # f32[2]
    frames: object  # i32[]


class Sledges(Env):
    """Actions are standing still and going on; the first beyond the end wins."""

    id, version, simultaneous, num_players, num_actions = "sledges", "1", True, 2, 2

    def __init__(self, *, length: float = 5.0):
        self.length = length

    def _init(self, key):
        fields = public_fields(num_players=2, num_actions=2) | {
            "current_player": jnp.arange(2, dtype=jnp.int32),
            "legal_action_mask": jnp.ones((2, 2), bool),
        }
        return SledgesState(observation=None, places=jnp.zeros(2), frames=jnp.int32(0), **fields)

    def _step(self, state, action, key):
        return self.driven(state, EVERY * action.astype(jnp.float32))

    def driven(self, state, throttle):
        places = state.places + SPEED * throttle
        return state.replace(places=places, frames=state.frames + 1, terminated=jnp.any(places > self.length))

    def observe(self, state, seat):
        return jnp.roll(state.places, -seat)

    @property
    def bots(self):
        return {"still": lambda state, key: jnp.zeros(2, jnp.int32), "on": lambda state, key: jnp.ones(2, jnp.int32)}


class DrivenSledges:
    rate, every = 60, EVERY
    handles = Handles(("throttle",), ("horn",), {"KeyW": {"throttle": 1}}, {"button7": {"throttle": 1}}, "W: on")

    def __init__(self, env):
        self.env = env

    def frame(self, state, controls):
        state = self.env.driven(state, controls[:, 0])
        bodies = jnp.zeros((3, 8)).at[1:, 0].set(state.places).at[:, 6].set(1.0)
        head = jnp.array([state.frames / self.rate, 0.0, state.terminated])
        return state, jnp.concatenate([head, bodies.ravel(), jnp.zeros(2)])

    def asked(self, state):
        return state

    def controls(self, actions):
        return np.stack([actions, 0 * actions], 1)

    def scene(self):
        still = {"places": [0, 0, 0], "turns": [0, 0, 0, 1]}
        bodies = [{"name": "ball", "shape": "ball", "size": [1], **still}]
        for team in range(2):
            bodies.append(
                {"name": f"{team}", "shape": "car", "team": team, "size": [2, 1, 1], "offset": [0, 0, 0], **still}
            )
        return {"arena": None, "bodies": bodies, "spots": [], "times": [0], "colours": ["#00f", "#f80"], "unit": 1}

    def watched(self):
        return [[time / 4, 0, 0, *[0, 0, 0, 0, 0, 0, 1, 0] * 3, 0, 0] for time in range(9)]

    def headline(self, state):
        return f"{int(state.frames) // 30}"


drive = DrivenSledges
