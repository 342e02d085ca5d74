"""What a car does to itself in a tick: wheels, jumps, dodges, boost. A function for each paragraph of the rules.

A plain referee of one arena: float64, float32 for timers, NumPy vectors, `if`. Octane only. Units as in the engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SECOND = np.float32(1) / np.float32(120)  # one tick, for timers
DT = float(SECOND)
MASS, BALL_MASS, RADIUS = 180.0, 30.0, 91.25
BALL_INERTIA = 0.4 * BALL_MASS * RADIUS**2
OFFSET = np.array([13.8757, 0, 20.755])
SIZE = np.array([120.507, 86.6994, 38.6591])
MARGIN = 0.1 * SIZE.min() / 2
INNER = SIZE / 2 - 2
HALF = INNER + MARGIN  # the box that collides is a little smaller than the one that is published
INERTIA = MASS / 12 * np.array([4 * (HALF @ HALF - side**2) for side in HALF])
REACH = 0.02 * (np.linalg.norm(HALF) + np.linalg.norm(OFFSET))
HANG = np.array([[51.25, 25.9, 20.755], [51.25, -25.9, 20.755], [-33.75, 29.5, 20.755], [-33.75, -29.5, 20.755]])
WHEEL = np.array([12.5, 12.5, 15, 15])
REST = np.array([38.755, 38.755, 37.055, 37.055]) - 12
SPRING = np.array([35.75, 35.75, 54.265, 54.265])
UP = np.array([0.0, 0.0, 1.0])


def unit(vector):
    length = np.linalg.norm(vector)
    return vector / length if length > 1e-12 else vector * 0


def curve(x, *knots):
    """Piecewise linear through (x, y) pairs, constant beyond them."""
    return float(np.interp(x, *zip(*knots, strict=True)))


@dataclass
class Car:
    """The fields of `state.Cars`, of one car; `axes` by rows, wheels front left, front right, rear left, rear right."""

    team: int
    position: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    axes: np.ndarray
    boost: float = 100 / 3
    on_ground: bool = True
    is_jumping: bool = False
    has_jumped: bool = False
    has_double_jumped: bool = False
    has_flipped: bool = False
    is_flipping: bool = False
    jump_time: np.float32 = np.float32(0)
    flip_time: np.float32 = np.float32(0)
    air_time: np.float32 = np.float32(0)
    air_time_since_jump: np.float32 = np.float32(0)
    flip_torque: np.ndarray = field(default_factory=lambda: np.zeros(3))
    is_boosting: bool = False
    boosting_time: np.float32 = np.float32(0)
    is_supersonic: bool = False
    supersonic_time: np.float32 = np.float32(0)
    handbrake: np.float32 = np.float32(0)
    is_auto_flipping: bool = False
    auto_flip_time: float = 0.0
    auto_flip_direction: float = 0.0
    world_contact: bool = False
    world_contact_normal: np.ndarray = field(default_factory=UP.copy)
    is_demoed: bool = False
    respawn_time: np.float32 = np.float32(0)
    bumped_car: int = -1
    bump_cooldown: np.float32 = np.float32(0)
    jump_held: bool = False
    hit_tick: int = -10
    steer: float = 0.0
    engine: float = 0.0
    brake: float = 0.0
    lateral: np.ndarray = field(default_factory=lambda: np.zeros(4))
    longitudinal: np.ndarray = field(default_factory=lambda: np.zeros(4))
    pushback: np.ndarray = field(default_factory=lambda: np.zeros(4))
    # within a tick only
    acceleration: np.ndarray = field(default_factory=lambda: np.zeros(3))
    angular_acceleration: np.ndarray = field(default_factory=lambda: np.zeros(3))
    bump: np.ndarray = field(default_factory=lambda: np.zeros(3))
    absent: bool = False

    inverse_mass = 1 / MASS

    @property
    def inverse_inertia(self):
        return self.axes.T @ np.diag(1 / INERTIA) @ self.axes

    @property
    def centre(self):
        return self.position + OFFSET @ self.axes

    def impulse(self, push, arm):
        self.velocity = self.velocity + push / MASS
        self.angular_velocity = self.angular_velocity + self.inverse_inertia @ np.cross(arm, push)


def point_velocity(body, arm):
    return body.velocity + np.cross(body.angular_velocity, arm)


def yields(body, arm, direction):
    """How much an impulse of one at a point changes that point's velocity."""
    return body.inverse_mass + direction @ np.cross(body.inverse_inertia @ np.cross(arm, direction), arm)


@dataclass
class Wheel:
    """What one wheel stands on (`body` is None for the arena) and how it pushes."""

    point: np.ndarray
    normal: np.ndarray
    body: Any
    axle: np.ndarray
    length: float = 0.0
    closing: float = 1.0
    speed: float = 0.0
    friction: np.ndarray = field(default_factory=lambda: np.zeros(3))


def drive(car: Car, controls, cast) -> None:
    """A car's part of the tick, before the contacts (part b, 2.1). `cast(car, origin, direction, length)` is a ray."""
    axes = np.clip(controls[:5], -1, 1)
    throttle, steer, pitch, yaw, roll = (float(x) for x in axes)
    jump, boost, handbrake = (bool(x) for x in controls[5:])
    pressed = jump and not car.jump_held
    car.acceleration, car.angular_acceleration = np.zeros(3), np.zeros(3)
    wheels = [stand(car, k, cast) for k in range(4)]
    count = sum(wheel is not None for wheel in wheels)
    car.on_ground = count >= 3
    forward_speed = car.velocity @ car.axes[0]
    pedal = set_wheels(car, wheels, throttle, steer, boost, handbrake, forward_speed)
    stick(car, wheels, pedal, forward_speed)
    if count < 3:
        turn_in_air(car, count, throttle, pitch, yaw, roll)
    else:
        car.is_flipping = False
    jumping(car, jump, pressed)
    auto_flip(car, pressed)
    second_jump(car, pressed, pitch, yaw, roll, forward_speed)
    if throttle != 0 and (0 < count < 4 or car.world_contact):
        auto_roll(car, wheels)
    car.world_contact = False
    push_wheels(car, wheels)
    boosting(car, boost)
    car.jump_held = jump


def stand(car: Car, k: int, cast) -> Wheel | None:
    """Suspension ray, pushback and friction with last tick's controls (part b, 3; part c, 1)."""
    up, hang = car.axes[2], car.position + HANG[k] @ car.axes
    angle = car.steer if k < 2 else 0.0
    axle = car.axes[1] * math.cos(angle) + np.cross(up, car.axes[1]) * math.sin(angle)
    hit = cast(car, hang, -up, REST[k] + 12 + WHEEL[k] - 2.5)
    if hit is None:
        car.pushback[k] = 0
        return None
    distance, normal, body = hit
    wheel = Wheel(hang - up * distance, normal, body, axle)
    arm = wheel.point - car.position
    velocity = point_velocity(car, arm)
    wheel.length = float(np.clip(distance - WHEEL[k], REST[k] - 12, REST[k] + 12))
    if normal @ up > 0.1:
        wheel.speed, wheel.closing = normal @ velocity / (normal @ up), 1 / (normal @ up)
    else:
        wheel.speed, wheel.closing = 0.0, 10.0
    lowest = REST[k] + WHEEL[k] - 2.5
    if body is None and distance < lowest:
        wanted = 0.2 * (lowest - distance) / DT - normal @ velocity
        car.pushback[k] = max(0.0, wanted / yields(car, arm, normal)) / 4
    axle = unit(axle - normal * (axle @ normal))
    backwards = unit(np.cross(normal, axle))
    slide = roll = velocity
    resistance = yields(car, arm, axle)
    if body is not None:
        slide = velocity - point_velocity(body, wheel.point - body.position)
        roll = velocity - point_velocity(body, arm)  # a quirk: with the arm from our own centre
        resistance += yields(body, wheel.point - body.position, axle)
    side = -0.2 * (axle @ slide) / resistance
    along = float(np.clip(-(roll @ backwards) * 113.73963, -car.brake, car.brake))
    if car.engine != 0:
        along = -car.engine / 60
    wheel.friction = 60 * (backwards * along * car.longitudinal[k] + axle * side * car.lateral[k])
    return wheel


def set_wheels(car: Car, wheels, throttle, steer, boost, handbrake, forward_speed) -> float:
    """Handbrake, engine, brake, steering and friction for the next tick (part b, 4); returns throttle with boost."""
    speed = abs(forward_speed)
    change = np.float32(5) * SECOND if handbrake else -np.float32(2) * SECOND
    car.handbrake = np.float32(min(max(car.handbrake + change, np.float32(0)), np.float32(1)))
    pedal = 1.0 if boost and car.boost > 0 else throttle
    engine, brake = pedal, 0.0
    if not handbrake and abs(pedal) < 0.001:
        engine, brake = 0.0, 1.0 if speed < 25 else 0.15
    elif not handbrake and speed > 25 and (pedal > 0) != (forward_speed > 0):
        engine, brake = 0.0, 1.0
    power = curve(speed, (0, 1), (1400, 0.1), (1410, 0))
    if sum(wheel is not None for wheel in wheels) < 3:
        power /= 4
    car.engine, car.brake = engine * MASS * 400 * power, brake * MASS * (14.25 + 1 / 3)
    angle = curve(speed, (0, 0.53356), (500, 0.3193), (1000, 0.18203), (1500, 0.1057), (1750, 0.08507), (3000, 0.03454))
    slide = float(car.handbrake)
    car.steer = (angle + (curve(speed, (0, 0.39235), (2500, 0.1261)) - angle) * slide) * steer
    for k, wheel in enumerate(wheels):
        if wheel is None:
            continue
        velocity = point_velocity(car, HANG[k] @ car.axes)
        sideways, along = abs(velocity @ wheel.axle), abs(velocity @ np.cross(wheel.axle, wheel.normal))
        share = sideways / (along + sideways) if sideways > 5 else 0.0
        lateral, longitudinal = curve(share, (0, 1), (1, 0.2)), 1.0
        lateral *= (0.1 - 1) * slide + 1
        longitudinal *= (curve(share, (0, 0.5), (1, 0.9)) - 1) * slide + 1
        loose = curve(wheel.normal[2], (0, 0.1), (0.7075, 0.5), (1, 1)) if pedal == 0 else 1.0
        car.lateral[k], car.longitudinal[k] = lateral * loose, longitudinal * loose
    return pedal


def ground_of(wheels):
    return unit(sum(wheel.normal for wheel in wheels if wheel is not None))


def stick(car: Car, wheels, pedal, forward_speed) -> None:
    """The force that holds a car on walls (part b, 4)."""
    if any(wheel is not None and wheel.body is None for wheel in wheels):
        ground = ground_of(wheels)
        full = pedal != 0 or abs(forward_speed) > 25
        car.acceleration += ground * (0.5 + (1 - abs(ground[2]) if full else 0)) * -650


def turn_in_air(car: Car, count, throttle, pitch, yaw, roll) -> None:
    """Torque of dodges and of the controls in the air (part b, 5)."""
    forward, right, up = car.axes
    about_pitch, about_yaw, about_roll = -right, up, -forward
    car.is_flipping = bool(car.is_flipping and car.has_flipped and car.flip_time < np.float32(0.65))
    control = not car.is_flipping
    if car.is_flipping:
        torque = car.flip_torque.copy()
        if not torque.any():
            control = True  # a stall
        elif torque[1] * pitch > 0:
            torque[1] *= 1 - abs(pitch)  # a cancelled flip
            control = True
        car.angular_acceleration += (torque * [260, 224, 0]) @ car.axes
    if control and count == 0 and not car.is_auto_flipping:
        locked = car.is_flipping or (car.has_flipped and car.flip_time < np.float32(0.65) + np.float32(0.3))
        scale = 0.0 if locked and (pitch or yaw or roll) else 1.0
        torque = pitch * about_pitch * scale * 130 + yaw * about_yaw * 95 + roll * about_roll * 400
        spin = car.angular_velocity
        torque = torque - about_pitch * (about_pitch @ spin) * 30 * (1 - abs(pitch * scale))
        torque = torque - about_yaw * (about_yaw @ spin) * 20 * (1 - abs(yaw))
        torque = torque - about_roll * (about_roll @ spin) * 50
        car.angular_acceleration += torque * (2 * math.pi / 65536 * 1000)
    car.acceleration += forward * throttle * 200 / 3


def jumping(car: Car, jump, pressed) -> None:
    """The first jump and how long it is held (part b, 6)."""
    if car.on_ground and not car.is_jumping:
        if not (car.has_jumped and car.jump_time < np.float32(0.025) + np.float32(0.025)):
            car.has_jumped, car.jump_time = False, np.float32(0)
    if car.is_jumping:
        car.is_jumping = bool(car.jump_time < np.float32(0.025) or (jump and car.jump_time < np.float32(0.2)))
    elif car.on_ground and pressed:
        car.is_jumping, car.jump_time = True, np.float32(0)
        car.velocity = car.velocity + car.axes[2] * 875 / 3
    if car.is_jumping:
        car.has_jumped = True
        car.acceleration += car.axes[2] * 4375 / 3 * (0.62 if car.jump_time < np.float32(0.025) else 1)
    if car.is_jumping or car.has_jumped:
        car.jump_time = car.jump_time + SECOND


def auto_flip(car: Car, pressed) -> None:
    """Jump on the roof rolls a car over (part b, 7)."""
    if pressed and car.world_contact and car.world_contact_normal[2] > math.sqrt(0.5):
        roll = math.atan2(-car.axes[1, 2], car.axes[2, 2])
        if abs(roll) > 2.8:
            car.is_auto_flipping, car.auto_flip_time = True, 0.4 * abs(roll) / math.pi
            car.auto_flip_direction = math.copysign(1, roll)
            car.velocity = car.velocity - car.axes[2] * 200
    if car.is_auto_flipping:
        if car.auto_flip_time <= 0:
            car.is_auto_flipping, car.auto_flip_time = False, 0.0
        else:
            car.angular_velocity = car.angular_velocity + car.axes[0] * 50 * car.auto_flip_direction * DT
            car.auto_flip_time -= DT


def second_jump(car: Car, pressed, pitch, yaw, roll, forward_speed) -> None:
    """Double jump or dodge, and what a dodge does to falling (part b, 6)."""
    if car.on_ground:
        car.has_double_jumped = car.has_flipped = False
        car.air_time = car.air_time_since_jump = car.flip_time = np.float32(0)
    else:
        car.air_time = car.air_time + SECOND
        since = car.has_jumped and not car.is_jumping
        car.air_time_since_jump = car.air_time_since_jump + SECOND if since else np.float32(0)
        fresh = not (car.has_double_jumped or car.has_flipped or car.is_auto_flipping)
        if pressed and fresh and car.air_time_since_jump < 1.25:
            if abs(yaw) + abs(pitch) + abs(roll) >= 0.5:
                dodge(car, pitch, yaw + roll, forward_speed)
            else:
                car.velocity = car.velocity + car.axes[2] * 875 / 3
                car.has_double_jumped = True
    if car.is_flipping:
        car.flip_time = car.flip_time + SECOND
        early, late = np.float32(0.15), np.float32(0.65)
        if early <= car.flip_time <= late and (car.velocity[2] < 0 or car.flip_time < np.float32(0.21)):
            car.velocity = car.velocity * [1, 1, 0.65]
    elif car.has_flipped:
        car.flip_time = car.flip_time + SECOND


def dodge(car: Car, pitch, sideways, forward_speed) -> None:
    """Direction, torque and velocity of a dodge (part b, 6)."""
    car.flip_time, car.has_flipped, car.is_flipping = np.float32(0), True, True
    direction = np.array([-pitch, sideways])
    direction = direction * 0 if np.all(abs(direction) < 0.1) else unit(direction)
    car.flip_torque = np.array([-direction[1], direction[0], 0])
    direction[abs(direction) < 0.1] = 0
    x, y = direction * 500
    speed = abs(forward_speed)
    backwards = x < 0 if speed < 100 else (x >= 0) != (forward_speed >= 0)
    x *= (1.5 if backwards else 0) * speed / 2300 + 1
    y *= 0.9 * speed / 2300 + 1
    if backwards:
        x *= 16 / 15
    ahead = unit(car.axes[0] * [1, 1, 0])
    car.velocity = car.velocity + x * ahead + y * np.array([-ahead[1], ahead[0], 0])


def auto_roll(car: Car, wheels) -> None:
    """Cars that touch ground badly turn towards it (part b, 7)."""
    forward, right, _ = car.axes
    on_wheels = any(wheel is not None for wheel in wheels)
    up = ground_of(wheels) if on_wheels else car.world_contact_normal
    across = np.cross(up, forward)
    ahead = np.cross(-up, across)
    roll = forward * (-1 if right @ up >= 0 else 1) * (1 - np.clip(right @ across, 0, 1))
    pitch = right * (1 if forward @ up >= 0 else -1) * (1 - np.clip(forward @ ahead, 0, 1))
    car.acceleration -= up * 100
    car.angular_acceleration += (roll + pitch) * 80


def push_wheels(car: Car, wheels) -> None:
    """Suspension, then friction (part b, 8)."""
    arms = [wheel.point - car.position if wheel is not None else None for wheel in wheels]
    for k, wheel in enumerate(wheels):
        if wheel is not None:
            force = (REST[k] - wheel.length) * 500 * wheel.closing - (25 if wheel.speed < 0 else 40) * wheel.speed
            if force > 0:
                car.impulse(wheel.normal * (force * SPRING[k] * DT + car.pushback[k]), arms[k])
    for wheel, arm in zip(wheels, arms, strict=True):
        if wheel is not None:
            car.impulse(wheel.friction * DT, arm - car.axes[2] * (car.axes[2] @ arm))


def boosting(car: Car, boost) -> None:
    """Boost, at least for a tenth of a second once it is pressed (part b, 1 and 8)."""
    if car.boost <= 0:
        car.is_boosting = False
    elif car.is_boosting:
        car.is_boosting = bool(boost or car.boosting_time < np.float32(0.1))
    else:
        car.is_boosting = boost
    car.boosting_time = car.boosting_time + SECOND if car.is_boosting else np.float32(0)
    if car.is_boosting:
        car.boost = max(car.boost - 100 / 3 * DT, 0.0)
        car.acceleration += car.axes[0] * (2975 / 3 if car.on_ground else 3175 / 3)
    car.boost = min(car.boost, 100.0)
