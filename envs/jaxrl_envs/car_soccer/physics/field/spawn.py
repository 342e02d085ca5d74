"""Arenas and cars as they begin."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics.settings import Settings
from jaxrl_envs.car_soccer.physics.state import NUM_PADS, Arena, Ball, Cars, Counts, Pads, Wheels
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec


def arena_at(settings: Settings, ball: Ball, cars: Cars, seed: jax.Array) -> Arena:
    """One arena (no axis of arenas) with all pads there. seed: u32[], see `Arena`."""
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
