"""Boost pads: cooldown and pick-up (parts b, 10 and c, 5)."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.state import NUM_PADS, Cars, Counts, Pads
from jaxrl_envs.car_soccer.physics.vector import Vec

BIG = 6
_BIG = ((-3584, 0), (3584, 0), (-3072, 4096), (3072, 4096), (-3072, -4096), (3072, -4096))
_SMALL = (
    *((0, -4240), (-1792, -4184), (1792, -4184), (-940, -3308), (940, -3308), (0, -2816), (-3584, -2484)),
    *((3584, -2484), (-1788, -2300), (1788, -2300), (-2048, -1036), (0, -1024), (2048, -1036), (-1024, 0)),
    *((1024, 0), (-2048, 1036), (0, 1024), (2048, 1036), (-1788, 2300), (1788, 2300), (-3584, 2484)),
    *((3584, 2484), (0, 2816), (-940, 3308), (940, 3308), (-1792, 4184), (1792, 4184), (0, 4240)),
)
POSITIONS = np.array([(x, y, 73) for x, y in _BIG] + [(x, y, 70) for x, y in _SMALL], np.float32)  # f32[34, 3], uu
IS_BIG = np.arange(NUM_PADS) < BIG
AMOUNT = np.where(IS_BIG, 100, 12).astype(np.float32)
COOLDOWN = np.where(IS_BIG, 10, 4).astype(np.float32)  # s
RADIUS = np.where(IS_BIG, 208, 144).astype(np.float32)  # of the cylinder that a car must enter, uu
HEIGHT = 95.0  # half of its height
BOX, BOX_HEIGHT = np.where(IS_BIG, 160, 120).astype(np.float32), 64.0  # that a car which is in must have left
TOO_HIGH = 345.0
MARGIN = 2.0  # uu, of a car's bounding box


def cooled(pads: Pads) -> Pads:
    """Before the physics: cooldowns run."""
    return pads.replace(cooldown=jnp.maximum(pads.cooldown - c.DT, 0))


CELL = 256.0  # uu; no place is on two pads, or in one cell with places on two
_CELLS = (32, 41)  # along x and y


@functools.cache
def _nearest() -> np.ndarray:
    """i32[cells]: the pad that is nearest to each cell of the field."""
    x, y = np.meshgrid(*((np.arange(count) - count / 2 + 0.5) * CELL for count in _CELLS), indexing="ij")
    away = np.hypot(x[..., None] - POSITIONS[:, 0], y[..., None] - POSITIONS[:, 1])
    return away.argmin(-1).astype(np.int32).ravel()


def taken(body: Hitbox, pads: Pads, cars: Cars, counts: Counts) -> tuple[Pads, Cars, Counts]:
    """After the physics, cars take the pads they are on; of several cars on a pad the last one does."""
    count = cars.boost.shape[0]
    cells = [
        jnp.clip(jnp.floor(value * (1 / CELL) + size / 2).astype(jnp.int32), 0, size - 1)
        for value, size in zip((cars.position.x, cars.position.y), _CELLS, strict=True)
    ]
    pad = jnp.asarray(_nearest()).at[cells[0] * _CELLS[1] + cells[1]].get(mode="promise_in_bounds")  # [P, B]
    number = jnp.arange(NUM_PADS)[:, None]
    locked = [((pads.lock == car) & (pad[car] == number)).any(axis=0) for car in range(count)]
    on = _on(body, cars, pad, jnp.stack(locked))
    lock = jnp.full_like(pads.lock, -1)
    for car in range(count):
        lock = jnp.where(on[car] & (pad[car] == number), car, lock)
    gives = (lock >= 0) & (pads.cooldown == 0)
    big = pad < BIG
    mine = jnp.stack([(gives & (lock == car)).any(axis=0) for car in range(count)])
    amount = jnp.where(mine, jnp.where(big, AMOUNT[0], AMOUNT[-1]), 0)
    return (
        Pads(cooldown=jnp.where(gives, jnp.asarray(COOLDOWN[:, None]), pads.cooldown), lock=lock),
        cars.replace(boost=jnp.minimum(cars.boost + amount, c.BOOST_MAX)),
        counts.replace(big_pads=counts.big_pads + (mine & big), small_pads=counts.small_pads + (mine & ~big)),
    )


def _on(body: Hitbox, cars: Cars, pad: jax.Array, locked: jax.Array) -> jax.Array:
    """bool[P, B]: whether each car is on the pad i32[P, B]; one that was (`locked`) must leave a box."""
    x, y = (jnp.asarray(POSITIONS[:, k]).at[pad].get(mode="promise_in_bounds") for k in range(2))
    big = pad < BIG
    z = jnp.where(big, POSITIONS[0, 2], POSITIONS[-1, 2])
    radius, box = jnp.where(big, RADIUS[0], RADIUS[-1]), jnp.where(big, BOX[0], BOX[-1])
    dx, dy, dz = cars.position.x - x, cars.position.y - y, cars.position.z - z
    enters = (dx * dx + dy * dy < radius * radius) & (jnp.abs(dz) < HEIGHT)
    axes, half = cars.axes, body.half
    centre = axes.to_world(Vec(*body.offset)) + Vec(dx, dy, dz)
    reach = [
        abs(getattr(axes.forward, k)) * half[0]
        + abs(getattr(axes.right, k)) * half[1]
        + abs(getattr(axes.up, k)) * half[2]
        for k in "xyz"
    ]
    inside = (jnp.abs(centre.x) < reach[0] + box + MARGIN) & (jnp.abs(centre.y) < reach[1] + box + MARGIN)
    inside &= (centre.z - reach[2] < BOX_HEIGHT + MARGIN) & (centre.z + reach[2] > -MARGIN)
    able = ~cars.is_demoed & (cars.boost < c.BOOST_MAX) & (cars.position.z <= TOO_HIGH)
    return able & jnp.where(locked, inside, enters)
