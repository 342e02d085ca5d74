"""Car soccer by hand: see `jaxrl_envs.shared.display.driving`.

A frame is two ticks, four frames are a decision of agents: their cars move as in training, to the tick. The person's
controls are those of the physics themselves, not the rows that agents choose among: a stick steers by degrees.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.spatial.transform import Rotation

from jaxrl_envs.car_soccer import actions, field
from jaxrl_envs.car_soccer.display import render
from jaxrl_envs.car_soccer.display.playback import quaternions, scene
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.shared.display.driving import Handles

# With the rows of the book legal; whether it plays them is a policy's own option.
_RULES = {"iterations": 10, "openings": True, "terminations": ["match"], "truncations": {"timeout": 3600.0}}
MATCHES = {
    "1 against 1": {"teams": [1, 1], **_RULES},
    "2 against 2": {"teams": [2, 2], **_RULES},
}
TICKS = 2  # of a frame

_KEYS = {
    "KeyW": {"throttle": 1, "pitch": -1},
    "KeyS": {"throttle": -1, "pitch": 1},
    "KeyA": {"steer": -1, "yaw": -1},
    "KeyD": {"steer": 1, "yaw": 1},
    "KeyQ": {"roll": -1},
    "KeyE": {"roll": 1},
    "Space": {"jump": 1},
    "ShiftLeft": {"boost": 1},
    "ShiftRight": {"boost": 1},
    "KeyX": {"handbrake": 1},
}
_ARROWS = {"ArrowUp": "KeyW", "ArrowDown": "KeyS", "ArrowLeft": "KeyA", "ArrowRight": "KeyD"}
_GAMEPAD = {
    "axis0": {"steer": 1, "yaw": 1},
    "axis1": {"pitch": 1},
    "button0": {"jump": 1},
    "button1": {"boost": 1},
    "button2": {"handbrake": 1},
    "button4": {"roll": -1},
    "button5": {"roll": 1},
    "button6": {"throttle": -1},
    "button7": {"throttle": 1},
}
HANDLES = Handles(
    axes=("throttle", "steer", "pitch", "yaw", "roll"),
    buttons=("jump", "boost", "handbrake"),
    keys=_KEYS | {arrow: _KEYS[key] for arrow, key in _ARROWS.items()},
    gamepad=_GAMEPAD,
    words="W A S D or arrows: drive, and turn in the air; space: jump, twice with a direction: dodge; shift: boost; "
    "Q E: roll; X: powerslide. Gamepad: triggers, left stick, A jump, B boost, X powerslide, bumpers roll.",
)


class DrivenCars:
    """See `jaxrl_envs.shared.display.driving.Driven`."""

    rate, handles = field.TICKS // TICKS, HANDLES

    def __init__(self, env: CarSoccer):
        """The decisions of the game must take whole frames."""
        self._env = env
        self.every = env.tick_skip // TICKS
        self._fine = copy.copy(env)
        self._fine.tick_skip, self._fine.seconds = TICKS, TICKS / field.TICKS

    def frame(self, state: Any, controls: jax.Array) -> tuple[Any, jax.Array]:
        """Rewards, figures and masks stay as they were."""
        after = self._fine.driven(state, controls)
        state = state.replace(game=after.game, terminated=after.terminated, truncated=after.truncated)
        arena, board = state.game.arena, state.game.board
        cars = arena.cars
        turns = quaternions(cars.axes.forward.array, cars.axes.up.array, jnp, Rotation)
        ball = jnp.array([0, 0, 0, 1, 0], jnp.float32)
        row = [
            jnp.stack([arena.tick / field.TICKS, board.kickoffs, after.terminated | after.truncated]),
            jnp.concatenate([arena.ball.position.array, ball]),
            jnp.concatenate([cars.position.array, turns, cars.is_demoed[:, None]], axis=1).ravel(),
            cars.boost,
            arena.pads.cooldown == 0,
        ]
        return state, jnp.concatenate([part.astype(jnp.float32) for part in row])

    def asked(self, state: Any) -> Any:
        """With mask and observations."""
        mask = self._env.legal(state.game)
        seats = jnp.arange(self._env.num_players)
        return state.replace(legal_action_mask=mask, observation=jax.vmap(self._env.observe, (None, 0))(state, seats))

    def controls(self, actions_: np.ndarray) -> np.ndarray:
        """Returns rows of the table."""
        return actions.TABLE[actions_]

    def scene(self) -> dict[str, Any]:
        """Arena, pads and bodies."""
        body, team = self._env.settings.body, list(map(int, self._env.teams.of))
        nowhere = np.zeros((len(team), 3))
        sketch = {"ball": nowhere[0], "cars": nowhere, "forward": nowhere + [1, 0, 0], "up": nowhere + [0, 0, 1]}
        there = {"demolished": np.zeros(len(team), bool), "pads": np.ones(len(field.PADS), bool)}
        return scene(team, body.size, body.offset, np.zeros(1), [sketch | there])

    def watched(self) -> list[list[float]]:
        """Between two copies of `zoo:car_soccer`."""
        if self._env.num_players != 2:
            return []
        with np.load(Path(__file__).with_name("watched.npz")) as file:
            scale, rows = file["scale"], file["rows"].cumsum(0)  # whole numbers, as differences
        return (rows * scale).round(3).tolist()

    def headline(self, state: Any) -> str:
        """As on a terminal."""
        return render.headline(self._env, state.game)


drive = DrivenCars
