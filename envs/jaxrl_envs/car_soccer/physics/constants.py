"""Constants of the physics, in uu, uu/s, kg, rad and seconds (docs/games/car_soccer_physics.md gives their sources)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DT = np.float32(1) / np.float32(120)  # s, one tick; timers are added up in f32, as the reference adds them
GRAVITY = -650.0

# ---- bodies ---------------------------------------------------------------------------------------------------------
CAR_MASS, BALL_MASS = 180.0, 30.0
BALL_RADIUS = 91.25
BALL_INERTIA = 0.4 * BALL_MASS * BALL_RADIUS**2
BALL_DRAG = 0.03  # share of its velocity that air takes from it in a second
BALL_KEEPS = np.float32((1 - BALL_DRAG) ** float(DT))  # share of its velocity that air leaves it in a tick
BALL_REACH = 0.02 * (BALL_RADIUS + 4)  # uu, gap below which the ball touches something
CAR_SPEED, CAR_SPIN = 2300.0, 5.5  # limits
BALL_SPEED, BALL_SPIN = 6000.0, 6.0

# ---- arena ----------------------------------------------------------------------------------------------------------
SIDE_WALL, CEILING = 4096.0, 2048.0

# ---- contacts: restitution, friction --------------------------------------------------------------------------------
BALL_ARENA = (0.6, 0.35)
BALL_CAR = (0.0, 2.0)
CAR_ARENA = (0.3, 0.3)
CAR_CAR = (0.1, 0.09)
RESTING = 10.0  # uu/s, below it nothing bounces
NO_SLIP = 1.19e-7 * 50**2  # (uu/s)^2, below it friction has no direction of its own
PUSH = 0.8  # share of an overlap that a tick takes away
PUSH_TURN = 0.1  # share of it that turns a body

# ---- wheels ---------------------------------------------------------------------------------------------------------
TRAVEL = 12.0  # uu, of the suspension, to either side
RAY_SHORTER = 2.5  # uu, how much shorter than the wheel reaches a ray is
STIFFNESS, DAMPING_IN, DAMPING_OUT = 500.0, 25.0, 40.0
SUSPENSION_FRONT, SUSPENSION_REAR = 35.75, 54.265
WHEEL_PUSH = 0.2
ROLLING = 113.73963
ENGINE_FORCE = CAR_MASS * 400  # per wheel, times throttle and curve
BRAKE_FORCE = CAR_MASS * (14.25 + 1 / 3)
COASTING_BRAKE = 0.15
STOPPING_SPEED = 25.0  # uu/s
DEADZONE = 0.001  # of throttle
HANDBRAKE_RISE, HANDBRAKE_FALL = 5.0, 2.0  # per second
STICKY = 0.5

# ---- air ------------------------------------------------------------------------------------------------------------
TORQUE_SCALE = 2 * np.pi / 65536 * 1000
AIR_TORQUE = (130.0, 95.0, 400.0)  # pitch, yaw, roll
AIR_DAMPING = (30.0, 20.0, 50.0)
AIR_THROTTLE = 200 / 3  # uu/s^2
JUMP_SPEED, JUMP_ACCELERATION = 875 / 3, 4375 / 3
JUMP_FIRST = 0.62  # share of the acceleration before JUMP_MIN
JUMP_MIN, JUMP_MAX, JUMP_PAD = np.float32(0.025), np.float32(0.2), np.float32(0.025)
SECOND_JUMP = np.float32(1.25)  # s after the jump ended
DODGE_DEADZONE = 0.5
FLIP_TIME, FLIP_PITCH_LOCK = np.float32(0.65), np.float32(0.3)
FLIP_TORQUE = (260.0, 224.0)  # about forward, about right
FLIP_SPEED = 500.0
FLIP_Z_BEGIN, FLIP_Z_ALWAYS, FLIP_Z_KEEPS = np.float32(0.15), np.float32(0.21), 0.65
AUTO_FLIP_ROLL, AUTO_FLIP_SPEED, AUTO_FLIP_TORQUE, AUTO_FLIP_TIME = 2.8, 200.0, 50.0, 0.4
AUTO_ROLL_ACCELERATION, AUTO_ROLL_TORQUE = 100.0, 80.0

# ---- boost ----------------------------------------------------------------------------------------------------------
BOOST_GROUND, BOOST_AIR = 2975 / 3, 3175 / 3  # uu/s^2
BOOST_MIN = np.float32(0.1)  # s
BOOST_MAX = 100.0
SUPERSONIC, STAYS_SUPERSONIC, SUPERSONIC_TIME = 2200.0, 2100.0, np.float32(1)

# ---- hits and bumps -------------------------------------------------------------------------------------------------
HIT_SPEED, HIT_HEIGHT, HIT_FORWARD = 4600.0, 0.35, 0.35
RESPAWN = np.float32(3)  # s
RESPAWN_X, RESPAWN_Y, RESPAWN_Z = (-2304.0, -2688.0, 2304.0, 2688.0), -4608.0, 36.0
BUMP_COOLDOWN = np.float32(0.25)


class Curve(NamedTuple):
    """A piecewise linear function, constant beyond its ends."""

    at: tuple[float, ...]
    value: tuple[float, ...]

    def __call__(self, x: jax.Array) -> jax.Array:
        total = jnp.float32(self.value[0])
        for left, right, low, high in zip(self.at, self.at[1:], self.value, self.value[1:], strict=False):
            if high != low:
                total = total + jnp.clip((x - left) * (1 / (right - left)), 0, 1) * (high - low)
        return total


# by forward speed, uu/s
STEER = Curve((0, 500, 1000, 1500, 1750, 3000), (0.53356, 0.3193, 0.18203, 0.1057, 0.08507, 0.03454))
POWERSLIDE_STEER = Curve((0, 2500), (0.39235, 0.1261))
DRIVE = Curve((0, 1400, 1410), (1, 0.1, 0))
# by the share of a wheel's speed that is sideways
LATERAL = Curve((0, 1), (1, 0.2))
POWERSLIDE_LATERAL = 0.1
POWERSLIDE_LONGITUDINAL = Curve((0, 1), (0.5, 0.9))
NOT_STICKY = Curve((0, 0.7075, 1), (0.1, 0.5, 1))  # by the normal's z
HIT = Curve((0, 500, 2300, 4600), (0.65, 0.65, 0.55, 0.3))  # by relative speed
