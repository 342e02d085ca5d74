"""Initial states of arenas and cars, and the respawn of demolished cars (part c, 4)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import NUM_PADS, Arena, Ball, Cars, Counts, Pads, Wheels
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec


def arena_at(settings: PhysicsSettings, ball: Ball, cars: Cars, seed: jax.Array) -> Arena:
    """Returns one arena (no axis of arenas) with all pads there. seed: u32[], see `Arena`."""
    number = jnp.zeros(settings.cars, jnp.int32)
    return Arena(
        tick=jnp.int32(0),
        seed=jnp.asarray(seed, jnp.uint32),
        ball=ball,
        cars=cars,
        pads=Pads(cooldown=jnp.zeros(NUM_PADS), lock=jnp.full(NUM_PADS, -1, jnp.int32)),
        counts=Counts(number, number, number, number, number, number, last_touch=number - 1),
    )


def cars_at(position: Vec, axes: Axes, boost: jax.Array) -> Cars:
    """Cars at rest, as they come to the field: leaves of the shape of `boost`, [P] or [P, B]."""
    zero = jnp.zeros_like(boost)
    none, no = Vec(zero, zero, zero), jnp.zeros(zero.shape, bool)
    wheel = jnp.zeros((zero.shape[0], 4, *zero.shape[1:]))
    number = jnp.zeros(zero.shape, jnp.int32)
    return Cars(
        position=position,
        velocity=none,
        angular_velocity=none,
        axes=axes,
        boost=boost,
        on_ground=~no,
        is_jumping=no,
        has_jumped=no,
        has_double_jumped=no,
        has_flipped=no,
        is_flipping=no,
        jump_time=zero,
        flip_time=zero,
        air_time=zero,
        air_time_since_jump=zero,
        flip_torque=none,
        is_boosting=no,
        boosting_time=zero,
        is_supersonic=no,
        supersonic_time=zero,
        handbrake=zero,
        is_auto_flipping=no,
        auto_flip_time=zero,
        auto_flip_direction=zero,
        world_contact=no,
        world_contact_normal=Vec(zero, zero, zero + 1),
        is_demoed=no,
        respawn_time=zero,
        bumped_car=number - 1,
        bump_cooldown=zero,
        jump_held=no,
        hit_tick=number - 10,
        wheels=Wheels(zero, zero, zero, wheel, wheel, wheel, wheel > 0),
    )


def respawned(settings: PhysicsSettings, cars: Cars, seed: jax.Array, tick: jax.Array) -> tuple[Cars, jax.Array]:
    """Demolished cars wait, then come back (part c, 4). Returns the cars, and which came back, bool[P, B]: they move
    from the next tick on."""
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
