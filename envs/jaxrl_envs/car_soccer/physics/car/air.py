"""Jump, double jump, dodge, auto-flip and control in the air (part b, 5 to 7); everything is [P, B]."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.bodies import Controls, Push
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Vec, where

ZERO = Vec(0.0, 0.0, 0.0)


def controlled(cars: Cars, wheels: jax.Array, controls: Controls) -> tuple[Cars, Push]:
    """Torque of a dodge and of the air controls; cars with `is_flipping`.

    Args:
      wheels: i32[P, B], how many touch something.
    """
    flipping = cars.is_flipping & cars.has_flipped & (cars.flip_time < c.FLIP_TIME) & (wheels < 3)
    torque = cars.flip_torque
    against = (torque.y != 0) & (controls.pitch != 0) & (jnp.sign(torque.y) == jnp.sign(controls.pitch))
    stalled = (torque.x == 0) & (torque.y == 0)
    kept = jnp.where(against, 1 - jnp.abs(controls.pitch), 1)
    dodge = cars.axes.forward * (torque.x * c.FLIP_TORQUE[0]) + cars.axes.right * (torque.y * kept * c.FLIP_TORQUE[1])
    free = (~flipping | against | stalled) & ~cars.is_auto_flipping & (wheels == 0)
    locked = flipping | (cars.has_flipped & (cars.flip_time < c.FLIP_TIME + c.FLIP_PITCH_LOCK))
    pitch = jnp.where(locked, 0, controls.pitch)
    spin = cars.axes.to_local(cars.angular_velocity)
    # about forward, right and up; nose up is a turn against `right`, and a roll to the right one against `forward`
    air = Vec(
        -controls.roll * c.AIR_TORQUE[2] - spin.x * c.AIR_DAMPING[2],
        -pitch * c.AIR_TORQUE[0] - spin.y * (c.AIR_DAMPING[0] * (1 - jnp.abs(pitch))),
        controls.yaw * c.AIR_TORQUE[1] - spin.z * (c.AIR_DAMPING[1] * (1 - jnp.abs(controls.yaw))),
    )
    angular = where(flipping, dodge, ZERO) + where(free, cars.axes.to_world(air * c.TORQUE_SCALE), ZERO)
    linear = cars.axes.forward * jnp.where(wheels < 3, controls.throttle * c.AIR_THROTTLE, 0)
    return cars.replace(is_flipping=flipping), Push(linear, angular)


def jumped(cars: Cars, controls: Controls) -> tuple[Cars, Vec]:
    """Returns the first jump: cars, and the acceleration while it is held."""
    ground, pressed = cars.on_ground, controls.jump & ~cars.jump_held
    over = ground & ~cars.is_jumping & ~(cars.has_jumped & (cars.jump_time < c.JUMP_MIN + c.JUMP_PAD))
    has_jumped = cars.has_jumped & ~over
    time = jnp.where(over, 0, cars.jump_time)
    goes_on = (time < c.JUMP_MIN) | (controls.jump & (time < c.JUMP_MAX))
    begins = ~cars.is_jumping & ground & pressed
    jumping = jnp.where(cars.is_jumping, goes_on, begins)
    time = jnp.where(begins, 0, time)
    has_jumped = has_jumped | jumping
    strength = c.JUMP_ACCELERATION * jnp.where(time < c.JUMP_MIN, c.JUMP_FIRST, 1)
    held = cars.axes.up * jnp.where(jumping, strength, 0)
    cars = cars.replace(
        is_jumping=jumping,
        has_jumped=has_jumped,
        jump_time=jnp.where(has_jumped, time + c.DT, time),
        velocity=cars.velocity + cars.axes.up * jnp.where(begins, c.JUMP_SPEED, 0),
    )
    return cars, held


def auto_flipped(cars: Cars, controls: Controls) -> Cars:
    """Turns over cars on their roof that press jump."""
    axes = cars.axes
    angle = jnp.arctan2(-axes.right.z, axes.up.z)
    pressed = controls.jump & ~cars.jump_held
    begins = pressed & cars.world_contact & (cars.world_contact_normal.z > math.sqrt(0.5))
    begins = begins & (jnp.abs(angle) > c.AUTO_FLIP_ROLL)
    left = jnp.where(begins, c.AUTO_FLIP_TIME / math.pi * jnp.abs(angle), cars.auto_flip_time)
    direction = jnp.where(begins, jnp.where(angle > 0, 1.0, -1.0), cars.auto_flip_direction)
    flips = (cars.is_auto_flipping | begins) & (left > 0)
    return cars.replace(
        is_auto_flipping=flips,
        auto_flip_time=jnp.where(flips, left - c.DT, 0),
        auto_flip_direction=direction,
        velocity=cars.velocity - axes.up * jnp.where(begins, c.AUTO_FLIP_SPEED, 0),
        angular_velocity=cars.angular_velocity
        + axes.forward * jnp.where(flips, direction * (c.AUTO_FLIP_TORQUE * c.DT), 0),
    )


def dodged(cars: Cars, controls: Controls, forward_speed: jax.Array) -> Cars:
    """The second jump in the air: a dodge with a direction, else a double jump. On the ground both are given back."""
    air = ~cars.on_ground
    air_time = jnp.where(air, cars.air_time + c.DT, 0)
    since = jnp.where(air & cars.has_jumped & ~cars.is_jumping, cars.air_time_since_jump + c.DT, 0)
    doubled, flipped = cars.has_double_jumped & air, cars.has_flipped & air
    can = air & controls.jump & ~cars.jump_held & (since < c.SECOND_JUMP) & ~doubled & ~flipped & ~cars.is_auto_flipping
    amount = jnp.abs(controls.yaw) + jnp.abs(controls.pitch) + jnp.abs(controls.roll)
    dodge, jump = can & (amount >= c.DODGE_DEADZONE), can & (amount < c.DODGE_DEADZONE)
    torque, change = _dodge(cars, controls, forward_speed)
    time = jnp.where(air & ~dodge, cars.flip_time, 0)
    flipped, flipping = flipped | dodge, cars.is_flipping | dodge
    time = jnp.where(flipping | (air & flipped), time + c.DT, time)
    velocity = cars.velocity + where(dodge, change, ZERO) + cars.axes.up * jnp.where(jump, c.JUMP_SPEED, 0)
    falls = flipping & (time <= c.FLIP_TIME) & (time >= c.FLIP_Z_BEGIN) & ((velocity.z < 0) | (time < c.FLIP_Z_ALWAYS))
    return cars.replace(
        velocity=velocity.replace(z=velocity.z * jnp.where(falls, c.FLIP_Z_KEEPS, 1)),
        has_double_jumped=doubled | jump,
        has_flipped=flipped,
        is_flipping=flipping,
        air_time=air_time,
        air_time_since_jump=since,
        flip_time=time,
        flip_torque=where(dodge, torque, cars.flip_torque),
    )


def _dodge(cars: Cars, controls: Controls, forward_speed: jax.Array) -> tuple[Vec, Vec]:
    """Returns the torque (in the car's axes, length 0 or 1) and change of velocity of a dodge."""
    ahead, side = -controls.pitch, controls.yaw + controls.roll
    stall = (jnp.abs(side) < 0.1) & (jnp.abs(ahead) < 0.1)
    size = jnp.sqrt(ahead * ahead + side * side)
    scale = jnp.where(stall, 0, 1 / jnp.maximum(size, 0.1))
    ahead, side = ahead * scale, side * scale
    torque = Vec(-side, ahead, jnp.zeros_like(side))
    ahead, side = (jnp.where(jnp.abs(value) < 0.1, 0, value) for value in (ahead, side))
    speed = jnp.abs(forward_speed)
    backwards = jnp.where(speed < 100, ahead < 0, (ahead >= 0) != (forward_speed >= 0))
    share = speed * (1 / c.CAR_SPEED)
    ahead = ahead * c.FLIP_SPEED * jnp.where(backwards, (1.5 * share + 1) * (16 / 15), 1)
    side = side * c.FLIP_SPEED * (0.9 * share + 1)
    forward = cars.axes.forward
    level = Vec(forward.x, forward.y, jnp.zeros_like(forward.z)).unit()
    return torque, Vec(ahead * level.x - side * level.y, ahead * level.y + side * level.x, jnp.zeros_like(side))


def boosted(cars: Cars, controls: Controls, use: float) -> tuple[Cars, Vec]:
    """Boost: cars, and its acceleration. `use`: per second."""
    on = jnp.where(cars.is_boosting, controls.boost | (cars.boosting_time < c.BOOST_MIN), controls.boost)
    on = on & (cars.boost > 0)
    strength = jnp.where(cars.on_ground, c.BOOST_GROUND, c.BOOST_AIR)
    cars = cars.replace(
        is_boosting=on,
        boosting_time=jnp.where(on, cars.boosting_time + c.DT, 0),
        boost=jnp.minimum(jnp.where(on, jnp.maximum(cars.boost - use * c.DT, 0), cars.boost), c.BOOST_MAX),
    )
    return cars, cars.axes.forward * jnp.where(on, strength, 0)
