"""Settings of the physics that are fixed before it is compiled: teams, hitbox, solver iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from jaxrl_envs.car_soccer.physics.constants import CAR_MASS, TRAVEL
from jaxrl_envs.car_soccer.physics.vector import Vec


@dataclass(frozen=True)
class Hitbox:
    """The shape of a car, uu, in its own axes (forward, right, up) from its centre of mass.

    Attributes:
      size, offset: measures of the box. wheel_radius, wheel_rest: front, rear; rest: length of the free suspension.
      front, rear: places of the left wheels' suspension (the right ones mirror them).
    """

    size: tuple[float, float, float]
    offset: tuple[float, float, float]
    wheel_radius: tuple[float, float]
    wheel_rest: tuple[float, float]
    front: tuple[float, float, float]
    rear: tuple[float, float, float]

    @cached_property
    def margin(self) -> float:
        """The radius of the box's rounding, uu."""
        return min(2.0, 0.1 * min(self.size) / 2)

    @cached_property
    def inner(self) -> tuple[float, float, float]:
        """Half extents of the box without what is rounded."""
        x, y, z = self.size
        return x / 2 - 2.0, y / 2 - 2.0, z / 2 - 2.0

    @cached_property
    def half(self) -> tuple[float, float, float]:
        """Half extents that collide: a little less than the size says, as in the reference (part b, 1)."""
        x, y, z = self.inner
        return x + self.margin, y + self.margin, z + self.margin

    @cached_property
    def inertia(self) -> tuple[float, float, float]:
        """About the three axes, kg uu^2."""
        x, y, z = (4 * side * side * CAR_MASS / 12 for side in self.half)
        return y + z, x + z, x + y

    @cached_property
    def inverse_inertia(self) -> Vec:
        return Vec(*(1 / value for value in self.inertia))

    @cached_property
    def reach(self) -> float:
        """Gap below which the body touches something, uu."""
        return 0.02 * (math.hypot(*self.half) + math.hypot(*self.offset))

    @cached_property
    def wheels(self) -> tuple[tuple[float, float, float], ...]:
        """Positions of the wheels: front left, front right, rear left, rear right."""
        return tuple((x, side * y, z) for x, y, z in (self.front, self.rear) for side in (1, -1))

    @cached_property
    def radius(self) -> tuple[float, ...]:
        """Radii of the four wheels, uu."""
        return tuple(value for value in self.wheel_radius for _ in range(2))

    @cached_property
    def rest(self) -> tuple[float, ...]:
        """Length of the suspension of the four wheels about which it travels."""
        return tuple(value - TRAVEL for value in self.wheel_rest for _ in range(2))


HITBOXES = {
    "octane": Hitbox(
        size=(120.507, 86.6994, 38.6591),
        offset=(13.8757, 0, 20.755),
        wheel_radius=(12.5, 15),
        wheel_rest=(38.755, 37.055),
        front=(51.25, 25.9, 20.755),
        rear=(-33.75, 29.5, 20.755),
    ),
    "dominus": Hitbox(
        size=(130.427, 85.7799, 33.8),
        offset=(9, 0, 15.75),
        wheel_radius=(12, 13.5),
        wheel_rest=(33.95, 33.85),
        front=(50.3, 31.1, 15.75),
        rear=(-34.75, 33, 15.75),
    ),
    "plank": Hitbox(
        size=(131.32, 87.1704, 31.8944),
        offset=(9.00857, 0, 12.0942),
        wheel_radius=(12.5, 17),
        wheel_rest=(31.9242, 27.9242),
        front=(49.97, 27.8, 12.0942),
        rear=(-35.43, 20.28, 12.0942),
    ),
    "breakout": Hitbox(
        size=(133.992, 83.021, 32.8),
        offset=(12.5, 0, 11.75),
        wheel_radius=(13.5, 15),
        wheel_rest=(29.7, 29.666),
        front=(51.5, 26.67, 11.75),
        rear=(-35.75, 35, 11.75),
    ),
    "hybrid": Hitbox(
        size=(129.519, 84.6879, 36.6591),
        offset=(13.8757, 0, 20.755),
        wheel_radius=(12.5, 15),
        wheel_rest=(38.755, 37.055),
        front=(51.25, 25.9, 20.755),
        rear=(-34, 29.5, 20.755),
    ),
    "merc": Hitbox(
        size=(123.22, 79.2103, 44.1591),
        offset=(11.3757, 0, 21.505),
        wheel_radius=(15, 15),
        wheel_rest=(39.505, 39.105),
        front=(51.25, 25.9, 21.505),
        rear=(-33.75, 29.5, 21.505),
    ),
}


@dataclass(frozen=True)
class PhysicsSettings:
    """Static: a program is compiled for each.

    Attributes:
      teams: 0 or 1 for each car; their number is that of the cars.
      hitbox: hitbox of all cars, one of `HITBOXES`.
      iterations: iterations of the contact solver; 10 as in the reference.
      boost_use: amount per second. boost_at_spawn: amount that a car comes back with.
    """

    teams: tuple[int, ...] = (0, 1)
    hitbox: str = "octane"
    iterations: int = 10
    boost_use: float = 100 / 3
    boost_at_spawn: float = 100 / 3

    @property
    def body(self) -> Hitbox:
        return HITBOXES[self.hitbox]

    @property
    def cars(self) -> int:
        return len(self.teams)
