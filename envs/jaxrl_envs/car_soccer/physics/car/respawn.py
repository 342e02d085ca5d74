"""Demolished cars wait and come back (part c, 4)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.field.spawn import cars_at
from jaxrl_envs.car_soccer.physics.settings import Settings
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec


def respawned(settings: Settings, cars: Cars, seed: jax.Array, tick: jax.Array) -> tuple[Cars, jax.Array]:
    """Cars after the wait of the demolished ones; and who came back, bool[P, B]: they move from the next tick on."""
    left = jnp.where(cars.is_demoed, jnp.maximum(cars.respawn_time - c.DT, 0), cars.respawn_time)
    back = cars.is_demoed & (left == 0)
    team = jnp.asarray(settings.teams)[:, None]
    place = _scrambled(seed, tick, jnp.arange(settings.cars, dtype=jnp.uint32)[:, None]) % 4
    x = sum(jnp.where(place == index, value, 0) for index, value in enumerate(c.RESPAWN_X))
    side = jnp.where(team == 0, 1.0, -1.0) + jnp.zeros_like(x)
    zero = jnp.zeros_like(x)
    axes = Axes(Vec(zero, side, zero), Vec(-side, zero, zero), Vec(zero, zero, zero + 1))
    position = Vec(x, c.RESPAWN_Y * side, zero + c.RESPAWN_Z)
    fresh = cars_at(position, axes, zero + settings.boost_at_spawn)
    cars = cars.replace(respawn_time=left)
    pick = lambda new, old: jnp.where(back if old.ndim == back.ndim else back[:, None], new, old)  # noqa: E731
    return jax.tree.map(pick, fresh, cars), back


def _scrambled(seed: jax.Array, tick: jax.Array, car: jax.Array) -> jax.Array:
    """u32[P, B] that look random: lowbias32, a mixing of bits, over what makes the moment unique."""
    value = seed + tick.astype(jnp.uint32) * jnp.uint32(0x9E3779B9) + car * jnp.uint32(0x85EBCA6B)
    value = (value ^ (value >> 16)) * jnp.uint32(0x7FEB352D)
    value = (value ^ (value >> 15)) * jnp.uint32(0x846CA68B)
    return value ^ (value >> 16)
