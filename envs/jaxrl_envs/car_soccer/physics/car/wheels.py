"""Wheels: rays that look for ground, suspension, friction, engine and brake (parts b, 3, 4, 8 and c, 1).

A wheel's arrays are [P, 4, B]. A tick looks for ground and computes friction with the controls of the LAST tick
(`grip`), then takes the new controls for the next one (`steered`), and at the end pushes the cars (`pushed`).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.bodies import Controls, Push, resistance, spin_impulse
from jaxrl_envs.car_soccer.physics.collision import boxcast
from jaxrl_envs.car_soccer.physics.field.arena import Geometry, rays
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.settings import Hitbox
from jaxrl_envs.car_soccer.physics.state import Ball, Cars
from jaxrl_envs.car_soccer.physics.vector import Vec, where

RAY_SLACK = 4.0  # uu, by which the rays of a car may miss another one and are still looked at
NEAR_CARS = 64  # cars with others near whose rays are looked at together


@struct.dataclass
class Hit:
    """The nearest thing below each wheel; leaves [P, 4, B].

    Attributes:
      distance: distance along the ray, inf = none. normal: normal of the surface.
      still: bool, it is the arena. velocity, slip: of the body that was hit, zero for the arena: at the point that was
        hit, and for forces along the wheel, as the reference has it, at the same arm from its own centre.
      resistance: inverse of the mass that body shows sideways to the wheel, 1/kg; 0 for the arena.
    """

    distance: jax.Array
    normal: Vec
    still: jax.Array
    velocity: Vec
    slip: Vec
    resistance: jax.Array


@struct.dataclass
class Grip:
    """Ground contacts of the wheels in this tick; leaves [P, 4, B].

    Attributes:
      touching, still: bool; anything, the arena. hang: from the centre to where the wheel hangs.
      arm: vector from the centre to the point of contact. normal: normal of the ground.
      length: suspension length. closing: 1 / cosine of the ground's tilt. speed: suspension speed, uu/s.
      axle: direction of the wheel's axle, to the right. friction: force of friction, kg uu/s^2.
    """

    touching: jax.Array
    still: jax.Array
    hang: Vec
    arm: Vec
    normal: Vec
    length: jax.Array
    closing: jax.Array
    speed: jax.Array
    axle: Vec
    friction: Vec

    @property
    def count(self) -> jax.Array:
        """i32[P, B], wheels that touch something."""
        return self.touching.sum(axis=1, dtype=jnp.int32)

    @property
    def ground(self) -> Vec:
        """Mean direction away from what the wheels touch, [P, B]; zero if nothing."""
        return _total(where(self.touching, self.normal, Vec(0.0, 0.0, 0.0))).unit()


def per_wheel(values) -> jax.Array:
    """Returns a number per wheel, to calculate with [P, 4, B]."""
    return jnp.asarray(np.asarray(values, np.float32)[:, None])


def _wide(tree):
    """[P, B] -> [P, 1, B], a car's values for each of its wheels."""
    return jax.tree.map(lambda leaf: leaf[:, None], tree)


def _total(vectors: Vec) -> Vec:
    """Returns the sum over the wheels, [P, 4, B] -> [P, B]."""
    return jax.tree.map(lambda leaf: leaf[:, 0] + leaf[:, 1] + leaf[:, 2] + leaf[:, 3], vectors)


# ---- looking for ground ---------------------------------------------------------------------------------------------


def look(geometry: Geometry | None, body: Hitbox, cars: Cars, ball: Ball, axle: Vec) -> tuple[Vec, Hit]:
    """Casts the rays of all wheels; returns where the wheels hang, relative to the centres, and what they hit."""
    axes = _wide(cars.axes)
    hang = axes.to_world(Vec(*(per_wheel(column) for column in zip(*body.wheels, strict=True))))
    origin, down = _wide(cars.position) + hang, -axes.up
    down = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, origin.x.shape), down)
    length = per_wheel([rest + c.TRAVEL + r - c.RAY_SHORTER for rest, r in zip(body.rest, body.radius, strict=True)])
    distance, normal = rays(geometry, origin, down, length)
    nothing = jnp.zeros_like(distance)
    zero = Vec(nothing, nothing, nothing)
    hit = Hit(distance, normal, jnp.isfinite(distance), zero, zero, nothing)
    return hang, _nearer(hit, _bodies_below(body, cars, ball, hang, down, length, axle))


def _nearer(first: Hit, second: Hit) -> Hit:
    return jax.tree.map(lambda a, b: jnp.where(second.distance < first.distance, b, a), first, second)


def _bodies_below(body: Hitbox, cars: Cars, ball: Ball, hang: Vec, down: Vec, length: jax.Array, axle: Vec) -> Hit:
    """The ball or the nearest of the other cars' boxes, looked for only below cars that have one of them near."""
    count, batch = cars.boost.shape
    middle = cars.position + cars.axes.to_world(Vec(*body.offset))
    near = jnp.zeros(cars.boost.shape, bool)
    reach = RAY_SLACK + max(
        max(math.hypot(x, y, z), math.hypot(x, y, z - rest - c.TRAVEL - radius))
        for (x, y, z), rest, radius in zip(body.wheels, body.rest, body.radius, strict=True)
    )
    others = [(ball.position, c.BALL_RADIUS, False)]
    for step in range(1, count):
        other, gone = jax.tree.map(lambda leaf, step=step: jnp.roll(leaf, -step, axis=0), (middle, cars.is_demoed))
        others.append((other, math.hypot(*body.half), gone))
    for other, radius, gone in others:
        away = cars.position - other
        near |= (away.dot(away) < (reach + radius) ** 2) & ~jnp.asarray(gone)
    flat = lambda tree: jax.tree.map(_flat, tree)  # noqa: E731
    boxes = flat((middle, cars.axes, cars.is_demoed, cars.position, cars.velocity, cars.angular_velocity))

    def below(lanes):  # the number and the position of the car, [m], and leaves [4, m]
        number, position, hang, down, axle = lanes
        here = jax.tree.map(lambda leaf: leaf[number % batch], ball)
        hit = _ball_below(position, hang, down, axle, length, here)
        if count > 1:
            others = [number % batch + (number // batch + step) % count * batch for step in range(1, count)]
            other = jax.tree.map(lambda leaf: leaf[jnp.stack(others)][:, None], boxes)
            hit = _nearer(hit, _car_below(body, position, hang, down, axle, length, *other))
        return hit

    none = jnp.zeros((4, near.size))
    zero = Vec(none, none, none)
    lanes = jnp.arange(near.size, dtype=jnp.int32), *flat((cars.position, hang, down, axle))
    nothing = Hit(none + jnp.inf, zero, none > 0, zero, zero, none)
    found = gathered(near.reshape(1, -1), lanes, below, nothing, NEAR_CARS)
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(4, count, batch), 1, 0), found)


def _flat(leaf: jax.Array) -> jax.Array:
    """[P, ..., B] -> [..., P * B]."""
    return jnp.moveaxis(leaf, 0, -2).reshape(*leaf.shape[1:-1], -1)


def _ball_below(position: Vec, hang: Vec, down: Vec, axle: Vec, length: jax.Array, ball: Ball) -> Hit:
    away = position + hang - ball.position
    along, outside = away.dot(down), away.dot(away) - c.BALL_RADIUS**2
    inside = along * along - outside
    distance = -along - jnp.sqrt(jnp.maximum(inside, 0))
    found = (inside > 0) & (outside > 0) & (distance >= 0) & (distance <= length)
    normal = (away + down * distance).unit()
    turn = normal.cross(_sideways(axle, normal)) * c.BALL_RADIUS
    resistance = 1 / c.BALL_MASS + turn.dot(turn) * (1 / c.BALL_INERTIA)
    arm = hang + down * distance
    return _hit(found, distance, normal, position, arm, ball, resistance)


def _car_below(body, position, hang, down, axle, length, middle, axes, gone, *motion) -> Hit:
    """Returns the nearest of other cars' boxes, whose leaves are [P - 1, 1, m]."""
    far, normal = boxcast.cast_few(
        axes.to_local(position + hang - middle),
        axes.to_local(down * length),
        body.half,
    )
    far = jnp.where(gone, jnp.inf, far)
    which = jnp.argmin(far, axis=0)

    def nearest(leaf):  # [P - 1, 4 or 1, m] -> [4, m]
        result = jnp.broadcast_to(leaf[0], which.shape)
        for index in range(1, leaf.shape[0]):
            result = jnp.where(which == index, leaf[index], result)
        return result

    far, normal, axes, motion = jax.tree.map(nearest, (far, normal, axes, motion))
    found = jnp.isfinite(far)
    distance, normal = far * length, axes.to_world(normal)
    arm = hang + down * jnp.where(found, distance, 0)
    sideways = resistance(body, axes, position + arm - motion[0], _sideways(axle, normal))
    return _hit(found, distance, normal, position, arm, Ball(*motion), sideways)


def _hit(found, distance: jax.Array, normal: Vec, position: Vec, arm: Vec, other: Ball, resistance: jax.Array) -> Hit:
    """Returns a hit on a moving body, `arm` from the centre of the wheel's car."""
    return Hit(
        distance=jnp.where(found, distance, jnp.inf),
        normal=normal,
        still=jnp.zeros_like(found),
        velocity=other.velocity + other.angular_velocity.cross(position + arm - other.position),
        slip=other.velocity + other.angular_velocity.cross(arm),
        resistance=resistance,
    )


def _sideways(axle: Vec, normal: Vec) -> Vec:
    """Returns the axle's direction along the ground."""
    return (axle - normal * axle.dot(normal)).unit()


# ---- first half -----------------------------------------------------------------------------------------------------


def grip(geometry: Geometry | None, body: Hitbox, cars: Cars, ball: Ball) -> tuple[Cars, Grip]:
    """Looks for ground; friction by the controls of the last tick. Cars with `on_ground` and the wheels' pushback."""
    axes = _wide(cars.axes)
    front, steer = per_wheel([1, 1, 0, 0]), cars.wheels.steer[:, None]
    axle = axes.right * (1 + front * (jnp.cos(steer) - 1)) - axes.forward * (front * jnp.sin(steer))
    hang, hit = look(geometry, body, cars, ball, axle)
    touching = jnp.isfinite(hit.distance)
    distance = jnp.where(touching, hit.distance, 0)
    arm = hang - axes.up * distance
    velocity, spin = _wide(cars.velocity), _wide(cars.angular_velocity)
    contact_velocity = velocity + spin.cross(arm)
    tilt, speed = hit.normal.dot(axes.up), hit.normal.dot(contact_velocity)
    steep = tilt <= 0.1
    safe = jnp.where(steep, 1, tilt)
    rest, radius = per_wheel(body.rest), per_wheel(body.radius)
    result = Grip(
        touching=touching,
        still=touching & hit.still,
        hang=hang,
        arm=arm,
        normal=hit.normal,
        length=jnp.clip(distance - radius, rest - c.TRAVEL, rest + c.TRAVEL),
        closing=jnp.where(steep, 10, 1 / safe),
        speed=jnp.where(steep, 0, speed / safe),
        axle=axle,
        friction=_friction(body, cars, hit, arm, axle, contact_velocity, touching),
    )
    deep = rest + radius - c.RAY_SHORTER - distance
    lift = (c.WHEEL_PUSH / c.DT * deep - speed) / resistance(body, axes, arm, hit.normal)
    pushback = jnp.where(result.still & (deep > 0), jnp.maximum(lift, 0) / 4, cars.wheels.pushback)
    wheels = cars.wheels.replace(touching=touching, pushback=jnp.where(touching, pushback, 0))
    return cars.replace(wheels=wheels, on_ground=result.count >= 3), result


def _friction(body: Hitbox, cars: Cars, hit: Hit, arm: Vec, axle: Vec, velocity: Vec, touching: jax.Array) -> Vec:
    """Returns the force of friction, kg uu/s^2: sideways against slipping, along the wheel by engine or brake."""
    sideways = _sideways(axle, hit.normal)
    backwards = hit.normal.cross(sideways).unit()
    mass = resistance(body, _wide(cars.axes), arm, sideways) + hit.resistance
    side = -0.2 * sideways.dot(velocity - hit.velocity) / mass
    slip = backwards.dot(velocity - hit.slip)
    brake, engine = cars.wheels.brake[:, None], cars.wheels.engine[:, None]
    rolling = jnp.where(engine == 0, jnp.clip(-slip * c.ROLLING, -brake, brake), -engine * (3 / c.CAR_MASS))
    force = backwards * (rolling * cars.wheels.longitudinal) + sideways * (side * cars.wheels.lateral)
    return where(touching, force * (c.CAR_MASS / 3), Vec(0.0, 0.0, 0.0))


# ---- controls for the next tick -------------------------------------------------------------------------------------


def steered(cars: Cars, grip: Grip, controls: Controls, forward_speed: jax.Array) -> tuple[Cars, jax.Array]:
    """Engine, brake, steering and friction of the next tick; and the throttle as boost makes it, f32[P, B]."""
    speed = jnp.abs(forward_speed)
    change = jnp.where(controls.handbrake, c.HANDBRAKE_RISE * c.DT, -c.HANDBRAKE_FALL * c.DT)
    slide = jnp.clip(cars.handbrake + change, 0, 1)
    throttle = jnp.where(controls.boost & (cars.boost > 0), 1, controls.throttle)
    against = (speed > c.STOPPING_SPEED) & (jnp.sign(throttle) != jnp.sign(forward_speed))
    coasting = jnp.abs(throttle) < c.DEADZONE
    rolling = jnp.where(speed < c.STOPPING_SPEED, 1, c.COASTING_BRAKE)
    brake = jnp.where(controls.handbrake, 0, jnp.where(coasting, rolling, jnp.where(against, 1.0, 0)))
    engine = jnp.where(~controls.handbrake & (coasting | against), 0, throttle)
    force = c.DRIVE(speed) * jnp.where(grip.count < 3, c.ENGINE_FORCE / 4, c.ENGINE_FORCE)
    angle = c.STEER(speed)
    angle = angle + (c.POWERSLIDE_STEER(speed) - angle) * slide
    lateral, longitudinal = _slipping(cars, grip, slide[:, None], (throttle == 0)[:, None])
    wheels = cars.wheels.replace(
        steer=angle * controls.steer,
        engine=engine * force,
        brake=brake * c.BRAKE_FORCE,
        lateral=jnp.where(grip.touching, lateral, cars.wheels.lateral),
        longitudinal=jnp.where(grip.touching, longitudinal, cars.wheels.longitudinal),
    )
    return cars.replace(wheels=wheels, handbrake=slide), throttle


def _slipping(cars: Cars, grip: Grip, slide: jax.Array, idle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns friction factors, lateral and longitudinal, f32[P, 4, B]."""
    velocity = _wide(cars.velocity) + _wide(cars.angular_velocity).cross(grip.hang)
    across = jnp.abs(velocity.dot(grip.axle))
    along = jnp.abs(velocity.dot(grip.axle.cross(grip.normal)))
    share = jnp.where(across > 5, across / jnp.maximum(along + across, 1), 0)
    lateral = c.LATERAL(share) * ((c.POWERSLIDE_LATERAL - 1) * slide + 1)
    longitudinal = (c.POWERSLIDE_LONGITUDINAL(share) - 1) * slide + 1
    loose = jnp.where(idle, c.NOT_STICKY(grip.normal.z), 1)
    return lateral * loose, longitudinal * loose


def sticky(grip: Grip, throttle: jax.Array, forward_speed: jax.Array) -> Vec:
    """Returns the acceleration that holds a car to its ground, uu/s^2."""
    up = grip.ground
    moving = (throttle != 0) | (jnp.abs(forward_speed) > c.STOPPING_SPEED)
    strength = c.STICKY + jnp.where(moving, 1 - jnp.abs(up.z), 0)
    return up * jnp.where(grip.still.any(axis=1), strength * c.GRAVITY, 0)


def auto_roll(cars: Cars, grip: Grip, controls: Controls) -> Push:
    """A car with throttle that touches the ground with some wheels or its body turns onto its wheels (part b, 7)."""
    wheels = grip.count
    active = (controls.throttle != 0) & (((wheels > 0) & (wheels < 4)) | cars.world_contact)
    up = where(wheels > 0, grip.ground, cars.world_contact_normal)
    forward, right = cars.axes.forward, cars.axes.right
    across = up.cross(forward)
    along = across.cross(up)
    roll = jnp.where(right.dot(up) >= 0, -1, 1) * (1 - jnp.clip(right.dot(across), 0, 1))
    pitch = jnp.where(forward.dot(up) >= 0, 1, -1) * (1 - jnp.clip(forward.dot(along), 0, 1))
    zero = Vec(0.0, 0.0, 0.0)
    return Push(
        where(active, up * -c.AUTO_ROLL_ACCELERATION, zero),
        where(active, (forward * roll + right * pitch) * c.AUTO_ROLL_TORQUE, zero),
    )


# ---- second half ----------------------------------------------------------------------------------------------------


def pushed(body: Hitbox, cars: Cars, grip: Grip) -> Cars:
    """Cars after the impulses of suspension and friction."""
    damping = jnp.where(grip.speed < 0, c.DAMPING_IN, c.DAMPING_OUT)
    spring = (per_wheel(body.rest) - grip.length) * c.STIFFNESS * grip.closing
    scale = per_wheel([c.SUSPENSION_FRONT, c.SUSPENSION_FRONT, c.SUSPENSION_REAR, c.SUSPENSION_REAR])
    force = jnp.maximum((spring - damping * grip.speed) * scale, 0)
    up = jnp.where(grip.touching & (force > 0), force * c.DT + cars.wheels.pushback, 0)
    axes = _wide(cars.axes)
    lift, drag = grip.normal * up, grip.friction * c.DT
    low = grip.arm - axes.up * axes.up.dot(grip.arm)
    total, torque = _total(lift + drag), _total(grip.arm.cross(lift) + low.cross(drag))
    return cars.replace(
        velocity=cars.velocity + total * (1 / c.CAR_MASS),
        angular_velocity=cars.angular_velocity + spin_impulse(body, cars.axes, torque),
    )
