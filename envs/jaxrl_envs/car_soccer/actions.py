"""The actions of a seat: 90 rows of controls, the table of RLGym, in its order.

Controls are f32[..., 8]: throttle, steer, pitch, yaw, roll in -1..1, then jump, boost, handbrake, 0 or 1.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.physics.state import Arena, Cars

THROTTLE, STEER, PITCH, YAW, ROLL, JUMP, BOOST, HANDBRAKE = range(8)
_SIGNS, _BUTTON = (-1, 0, 1), (0, 1)
_SIZE = 200.0  # uu, of a car with its wheels' reach, generously


def _table() -> np.ndarray:
    ground = [
        (throttle or boost, steer, 0, steer, 0, 0, boost, handbrake)
        for throttle, steer, boost, handbrake in itertools.product(_SIGNS, _SIGNS, _BUTTON, _BUTTON)
        if throttle == 1 or not boost
    ]
    air = [
        (boost, yaw, pitch, yaw, roll, jump, boost, int(jump and bool(pitch or yaw or roll)))
        for pitch, yaw, roll, jump, boost in itertools.product(_SIGNS, _SIGNS, _SIGNS, _BUTTON, _BUTTON)
        if not (jump and yaw) and (pitch or roll or jump)
    ]
    return np.array(ground + air, np.float32)


TABLE = _table()  # f32[90, 8]
NUM_ACTIONS = len(TABLE)
ALLOWED = {"table": np.ones(NUM_ACTIONS, bool), "ground": np.arange(NUM_ACTIONS) < 24}  # ground: driving alone
IDLE = int(np.flatnonzero((TABLE == 0).all(axis=1))[0])
_UPWARDS = int(np.flatnonzero((TABLE == np.eye(8)[JUMP]).all(axis=1))[0])  # jump and nothing else
_WEIGHTS = np.array([1, 1, 1, 1, 1, 4, 2, 1], np.float32)  # how much a row counts as another in `nearest`


def mask(arena: Arena, allowed: np.ndarray = ALLOWED["table"], tick_skip: int = 8) -> jax.Array:
    """bool[P, 90]: False where an action can do nothing that another one does not, or is not `allowed` (bool[90]).

    A demolished car is only asked for the idle row until it comes back. Without boost the rows with boost are those
    without; a pad taken in the middle of a decision gives boost for the next one. In the air, far from everything that
    wheels may touch within `tick_skip` ticks, rows with jump are those without once neither jump nor dodge is left.
    A car that lies may always jump: nothing else turns it over.
    """
    cars = arena.cars
    boost, jump = jnp.asarray(TABLE[:, BOOST] > 0), jnp.asarray(TABLE[:, JUMP] > 0)
    has_boost = (cars.boost > 0)[:, None]
    on_way = cars.is_jumping | cars.is_auto_flipping
    can_jump = (has_flip(cars) | cars.on_ground | on_way | _near(arena, tick_skip))[:, None]
    idle, upwards = jnp.arange(NUM_ACTIONS) == IDLE, jnp.arange(NUM_ACTIONS) == _UPWARDS
    possible = (has_boost | ~boost) & (can_jump | ~jump) & (allowed | (upwards & lies(cars)[:, None]))
    return jnp.where(cars.is_demoed[:, None], idle, possible)


def lies(cars: Cars) -> jax.Array:
    """bool[P]: the car touches the arena with its roof or side instead of its wheels."""
    return ~cars.on_ground & cars.world_contact & (cars.axes.up.z < 0.5)


def has_flip(cars: Cars) -> jax.Array:
    """bool[P]: a double jump or a dodge is left."""
    return ~cars.has_double_jumped & ~cars.has_flipped & (cars.air_time_since_jump < field.FLIP_WINDOW)


def reach(tick_skip: int) -> tuple[float, float]:
    """Returns the distances in uu within which a car may meet what stands still, and the ball, in a decision."""
    farthest = _SIZE + field.CAR_SPEED * tick_skip / field.TICKS
    return farthest, farthest + 2.5 * field.BALL_RADIUS + field.BALL_SPEED * tick_skip / field.TICKS


def _near(arena: Arena, tick_skip: int) -> jax.Array:
    """bool[P]: something may come under the wheels within the decision."""
    farthest, ball_farthest = reach(tick_skip)
    x, y, z = (jnp.abs(value) for value in (arena.cars.position.x, arena.cars.position.y, arena.cars.position.z))
    walls = (x > field.SIDE - farthest) | (y > field.BACK - farthest) | (x + y > field.CORNER - 1.5 * farthest)
    level = (z < farthest) | (z > field.CEILING - farthest)
    ball = arena.cars.position - jax.tree.map(lambda leaf: leaf[..., None], arena.ball.position)
    return walls | level | (ball.length < ball_farthest) | _near_cars(arena.cars, 2 * farthest)


def _near_cars(cars: Cars, distance: float) -> jax.Array:
    """bool[P]: another car is within a distance; its roof is ground too."""
    apart = jax.tree.map(lambda leaf: leaf[:, None] - leaf, cars.position)
    return jnp.any((apart.length < distance) & ~np.eye(cars.boost.shape[0], dtype=bool), axis=1)


def nearest(controls: jax.Array, legal: jax.Array) -> jax.Array:
    """i32[...], the legal row most like some controls f32[..., 8]; `legal` is bool[..., 90]."""
    distance = jnp.sum(_WEIGHTS * jnp.square(controls[..., None, :] - TABLE), axis=-1)
    return jnp.argmin(jnp.where(legal, distance, jnp.inf), axis=-1).astype(jnp.int32)


def name(action: int) -> str:
    """Returns the name of an action, in a few words."""
    throttle, steer, pitch, yaw, roll, jump, boost, handbrake = TABLE[action].astype(int)
    words = [
        ("back", "", "throttle")[throttle + 1] if not boost else "",
        ("left", "", "right")[steer + 1],
        ("nose down", "", "nose up")[pitch + 1],
        ("roll left", "", "roll right")[roll + 1],
        "jump" if jump else "",
        "boost" if boost else "",
        "powerslide" if handbrake and not jump else "",
    ]
    return ", ".join(word for word in words if word) or "nothing"
