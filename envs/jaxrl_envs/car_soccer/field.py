"""Coordinates of the field, in uu: x to the right of the first team, which attacks +y, z up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jaxrl_envs.car_soccer.physics import constants as c
from jaxrl_envs.car_soccer.physics.field import mesh

TICKS = round(1 / float(c.DT))  # a second
SIDE, BACK, CEILING = c.SIDE_WALL, mesh.Y, 2044.0  # of the walls; CEILING as observations and rewards know it
CORNER = mesh.CORNER  # |x| + |y| of the walls across the corners
GOAL_HALF_WIDTH, GOAL_HEIGHT = mesh.GOAL_WIDTH, mesh.GOAL_HEIGHT
GOAL_LINE = 5215.5  # |y| of the ball's middle beyond which it is in the goal
BALL_RADIUS, BALL_REST = c.BALL_RADIUS, 93.15  # BALL_REST: height of its middle at a kickoff
BALL_SPEED, CAR_SPEED = c.BALL_SPEED, c.CAR_SPEED  # the greatest, uu/s
CAR_REST = 17.0  # height of a car at a kickoff
START_BOOST = 100 / 3
FLIP_WINDOW, FLIP_SECONDS = c.SECOND_JUMP, c.FLIP_TIME  # after a jump a car may dodge; how long a dodge turns it

# Kickoff places of the first team: x, y and the angle that the car faces. The other team's are these turned by 180°.
KICKOFFS = np.array(
    [
        (-2048, -2560, np.pi / 4),
        (2048, -2560, 3 * np.pi / 4),
        (-256, -3840, np.pi / 2),
        (256, -3840, np.pi / 2),
        (0, -4608, np.pi / 2),
    ],
    np.float32,
)

# Pads of one half and of the middle line, in the order of RLGym's observation; its second half is this turned by 180°.
_HALF = (
    *((0, -4240), (-1792, -4184), (1792, -4184), (-3072, -4096), (3072, -4096), (-940, -3308), (940, -3308)),
    *((0, -2816), (-3584, -2484), (3584, -2484), (-1788, -2300), (1788, -2300), (-2048, -1036), (0, -1024)),
    *((2048, -1036), (-3584, 0), (-1024, 0)),
)
PADS = np.array([*_HALF, *((-x, -y) for x, y in reversed(_HALF))], np.float32)  # [34, 2]


@dataclass(frozen=True)
class Teams:
    """The teams: the seats of the first team, then those of the second. P seats.

    Attributes:
      sizes: cars of both teams; the second may be empty.
    """

    sizes: tuple[int, int]

    @property
    def seats(self) -> int:
        """P."""
        return sum(self.sizes)

    @cached_property
    def of(self) -> np.ndarray:
        """i32[P], the team of each seat."""
        return np.repeat(np.arange(2, dtype=np.int32), self.sizes)

    @cached_property
    def attack(self) -> np.ndarray:
        """f32[P], the direction in y of each seat's opponents' goal, 1 or -1."""
        return np.where(self.of == 0, 1.0, -1.0).astype(np.float32)

    @cached_property
    def mates(self) -> np.ndarray:
        """bool[P, P]: the second is another car of the first one's team."""
        return (self.of[:, None] == self.of) & ~np.eye(self.seats, dtype=bool)

    @cached_property
    def rivals(self) -> np.ndarray:
        """bool[P, P]: the second plays against the first."""
        return self.of[:, None] != self.of
