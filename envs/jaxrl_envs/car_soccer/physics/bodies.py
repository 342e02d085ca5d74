"""Rigid bodies: controls, forces, impulses at a point and small rotations of cars (f32[P, B], uu, kg, rad)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl_envs.car_soccer.physics.constants import CAR_MASS
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec


@struct.dataclass
class Controls:
    """The drivers' controls: f32[P, B] in -1..1, and bool[P, B]."""

    throttle: jax.Array
    steer: jax.Array
    pitch: jax.Array
    yaw: jax.Array
    roll: jax.Array
    jump: jax.Array
    boost: jax.Array
    handbrake: jax.Array


def controls_of(array: jax.Array) -> Controls:
    """f32[P, 8, B] in the order of `Controls` -> the controls; axes are cut to -1..1, buttons are pressed above 0.5."""
    axes = [jnp.clip(array[:, index], -1, 1) for index in range(5)]
    return Controls(*axes, *(array[:, index] > 0.5 for index in range(5, 8)))


@struct.dataclass
class Push:
    """Effect of forces on cars in a tick: acceleration uu/s^2, angular acceleration rad/s^2; vectors of f32[P, B]."""

    linear: Vec
    angular: Vec


def spin_impulse(body: Hitbox, axes: Axes, torque: Vec) -> Vec:
    """Returns the change of the angular velocity of a car by an angular impulse, both in world axes."""
    return axes.to_world(axes.to_local(torque).scaled(body.inverse_inertia))


def resistance(body: Hitbox, axes: Axes, arm: Vec, direction: Vec) -> jax.Array:
    """Inverse of the mass that a car seems to have at a point (`arm` from its centre) in a direction, 1/kg."""
    turn = axes.to_local(arm.cross(direction))
    return 1 / CAR_MASS + turn.scaled(turn).dot(body.inverse_inertia)


def impulse(body: Hitbox, cars: Cars, push: Vec, arm: Vec) -> Cars:
    """Cars after an impulse (kg uu/s) at a point."""
    return cars.replace(
        velocity=cars.velocity + push * (1 / CAR_MASS),
        angular_velocity=cars.angular_velocity + spin_impulse(body, cars.axes, arm.cross(push)),
    )


def turned(axes: Axes, turn: Vec) -> Axes:
    """Axes after a turn about `turn`, a vector as long as the angle (rad, below 1), and free of rounding errors."""
    square = turn.dot(turn)
    sine = 1 - square * (1 / 6 - square * (1 / 120 - square * (1 / 5040)))  # sin a / a
    cosine = 0.5 - square * (1 / 24 - square * (1 / 720 - square * (1 / 40320)))  # (1 - cos a) / a^2

    def rotate(v: Vec) -> Vec:
        across = turn.cross(v)
        return v + across * sine + turn.cross(across) * cosine

    return orthonormal(Axes(rotate(axes.forward), rotate(axes.right), axes.up))


def orthonormal(axes: Axes) -> Axes:
    """Returns the same axes, at right angles and of length one again."""
    forward = axes.forward * jnp.reciprocal(axes.forward.length)
    right = axes.right - forward * forward.dot(axes.right)
    right = right * jnp.reciprocal(right.length)
    return Axes(forward, right, forward.cross(right))
