"""State of an arena between two ticks.

Units: uu (1 cm), uu/s, rad/s, seconds, f32. x is to the right of the first team when it attacks +y, z up; the first
team ("blue", team 0) defends -y. Shapes are those of ONE arena, P cars; the physics itself works on the same leaves
with the arenas as their last axis (see `vector`).
"""

from __future__ import annotations

import jax
from flax import struct

from jaxrl_envs.car_soccer.physics.vector import Axes, Vec

NUM_PADS = 34  # 6 big, then 28 small, in the order of `pads.POSITIONS`


@struct.dataclass
class Ball:
    """position, velocity (uu, uu/s) and angular_velocity (rad/s): vectors of f32[]."""

    position: Vec
    velocity: Vec
    angular_velocity: Vec


@struct.dataclass
class Wheels:
    """State of the wheels between ticks (the controls reach the road a tick late). f32[P] or f32[P, 4],
    wheels front left, front right, rear left, rear right.

    Attributes:
      steer: f32[P], angle of the front wheels, rad.
      engine: f32[P], force per wheel. brake: f32[P], greatest impulse per wheel.
      lateral, longitudinal: f32[P, 4], friction factors.
      pushback: f32[P, 4], impulse that lifts a wheel out of the ground; kept while the wheel touches something.
      touching: bool[P, 4].
    """

    steer: jax.Array
    engine: jax.Array
    brake: jax.Array
    lateral: jax.Array
    longitudinal: jax.Array
    pushback: jax.Array
    touching: jax.Array


@struct.dataclass
class Cars:
    """All cars; every leaf has the leading axis P.

    Attributes:
      position, velocity, angular_velocity: vectors of f32[P]; the position is the centre of mass.
      axes: orientations.
      boost: f32[P], 0..100.
      on_ground: bool[P], at least three wheels touch something.
      is_jumping, has_jumped, has_double_jumped, has_flipped, is_flipping: bool[P].
      jump_time, flip_time, air_time, air_time_since_jump: f32[P].
      flip_torque: vector of f32[P], in the car's axes, of length 0 or 1.
      is_boosting: bool[P]; boosting_time: f32[P].
      is_supersonic: bool[P]; supersonic_time: f32[P].
      handbrake: f32[P], 0..1, how far the powerslide has set in.
      is_auto_flipping: bool[P]; auto_flip_time: f32[P], left; auto_flip_direction: f32[P], -1 or 1.
      world_contact: bool[P], the body touched the arena in the last tick; world_contact_normal: vector of f32[P].
      is_demoed: bool[P]; respawn_time: f32[P], left.
      bumped_car: i32[P], the car this one last bumped, -1 none; bump_cooldown: f32[P], left.
      jump_held: bool[P], whether jump was pressed in the last tick.
      hit_tick: i32[P], tick of the last extra hit on the ball.
      wheels: memory of the wheels.
    """

    position: Vec
    velocity: Vec
    angular_velocity: Vec
    axes: Axes
    boost: jax.Array
    on_ground: jax.Array
    is_jumping: jax.Array
    has_jumped: jax.Array
    has_double_jumped: jax.Array
    has_flipped: jax.Array
    is_flipping: jax.Array
    jump_time: jax.Array
    flip_time: jax.Array
    air_time: jax.Array
    air_time_since_jump: jax.Array
    flip_torque: Vec
    is_boosting: jax.Array
    boosting_time: jax.Array
    is_supersonic: jax.Array
    supersonic_time: jax.Array
    handbrake: jax.Array
    is_auto_flipping: jax.Array
    auto_flip_time: jax.Array
    auto_flip_direction: jax.Array
    world_contact: jax.Array
    world_contact_normal: Vec
    is_demoed: jax.Array
    respawn_time: jax.Array
    bumped_car: jax.Array
    bump_cooldown: jax.Array
    jump_held: jax.Array
    hit_tick: jax.Array
    wheels: Wheels


@struct.dataclass
class Pads:
    """Boost pads. cooldown: f32[34], 0 = there to be taken; lock: i32[34], the car that stood on it, -1 none."""

    cooldown: jax.Array
    lock: jax.Array


@struct.dataclass
class Counts:
    """Counters since the episode began, i32[P] each: the difference of two states gives the events of a step.

    Attributes:
      touches: ticks in which the car touched the ball. bumps, demolitions: of other cars, by this one.
      demolished: demolitions of this car. small_pads, big_pads: pads taken.
      last_touch: i32[P], the tick of the last touch, -1 if none.
    """

    touches: jax.Array
    bumps: jax.Array
    demolitions: jax.Array
    demolished: jax.Array
    small_pads: jax.Array
    big_pads: jax.Array
    last_touch: jax.Array


@struct.dataclass
class Arena:
    """One arena between two ticks: the whole of what the next tick depends on, but for the controls.

    Attributes:
      tick: i32[], ticks since the episode began.
      seed: u32[], fixed per episode: where demolished cars come back is drawn from it, the tick and the car.
    """

    tick: jax.Array
    seed: jax.Array
    ball: Ball
    cars: Cars
    pads: Pads
    counts: Counts
