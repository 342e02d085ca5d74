"""The game between two decisions, and the step of one decision, from which events, rewards and figures are computed."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.events import Events, Tracks
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.physics.state import Arena, Ball, Cars
from jaxrl_envs.car_soccer.physics.vector import Vec
from jaxrl_envs.car_soccer.scoreboard import Scoreboard


@struct.dataclass
class CarSoccerGame:
    """Attributes:
    arena: the bodies and pads.
    controls: f32[P, 8], asked for last; the first ticks of the next decision still play them (`delay`).
    board: goals and clock.
    tracks: memory of the events.
    """

    arena: Arena
    controls: jax.Array
    board: Scoreboard
    tracks: Tracks


@dataclasses.dataclass(frozen=True)
class Step:
    """One decision as reward components and figures see it. All are f32[P] or vectors of it unless said otherwise.

    Attributes:
      teams: teams of the game.
      seconds: duration.
      before, after: the game around it; `after` is before a kickoff.
      events: events in it.
    """

    teams: Teams
    seconds: float
    before: CarSoccerGame
    after: CarSoccerGame
    events: Events

    @property
    def controls(self) -> jax.Array:
        """f32[P, 8], what was asked for in this decision."""
        return self.after.controls

    @property
    def cars(self) -> Cars:
        """All cars afterwards; `was` are they before."""
        return self.after.arena.cars

    @property
    def was(self) -> Cars:
        return self.before.arena.cars

    @property
    def ball(self) -> Ball:
        """Afterwards, without an axis of cars; `ball_was` before."""
        return self.after.arena.ball

    @property
    def ball_was(self) -> Ball:
        return self.before.arena.ball

    @property
    def alive(self) -> jax.Array:
        """bool[P]: not demolished, neither before nor afterwards; what a demolished car's state says is old."""
        return ~self.cars.is_demoed & ~self.was.is_demoed

    @property
    def present(self) -> jax.Array:
        """bool[P]: not demolished afterwards; only such cars count as mates and opponents."""
        return ~self.cars.is_demoed

    @cached_property
    def to_ball(self) -> Vec:
        """Vectors from each car to the ball."""
        return self.ball.position - self.cars.position

    @cached_property
    def distance(self) -> jax.Array:
        """Distance to the ball, uu."""
        return self.to_ball.length

    @cached_property
    def distance_was(self) -> jax.Array:
        return (self.ball_was.position - self.was.position).length

    @cached_property
    def ball_y(self) -> jax.Array:
        """Position of the ball along the field, towards the opponents' goal; -5120 is the own goal."""
        return self.ball.position.y * self.teams.attack

    @cached_property
    def y(self) -> jax.Array:
        """Position of each car along the field, as `ball_y`."""
        return self.cars.position.y * self.teams.attack

    @cached_property
    def ball_to_goal(self) -> Vec:
        """From the ball to the middle of the opponents' goal."""
        return self.goal(1.0) - self.ball.position

    @cached_property
    def ball_to_own_goal(self) -> Vec:
        return self.goal(-1.0) - self.ball.position

    def goal(self, side: float) -> Vec:
        """Returns the middle of the opponents' goal (1) or of the own one (-1)."""
        attack = jnp.asarray(self.teams.attack)
        return Vec(0 * attack, side * field.BACK * attack, 0 * attack + field.GOAL_HEIGHT / 2)

    @cached_property
    def mate_distance(self) -> jax.Array:
        """To the nearest car of the own team that is there, inf without one."""
        return self.nearest(self.teams.mates, self.between)

    @cached_property
    def between(self) -> jax.Array:
        """f32[P, P], between two cars."""
        apart = jax.tree.map(lambda leaf: leaf[:, None] - leaf[None, :], self.cars.position)
        return apart.length

    def nearest(self, who: np.ndarray, distance: jax.Array) -> jax.Array:
        """The least of f32[P, P] (or of f32[P], by the second seat) over those of `who`, bool[P, P] that are `present`;
        inf over an empty set."""
        return jnp.min(jnp.where(who & self.present, distance, jnp.inf), axis=1, initial=jnp.inf)

    @cached_property
    def closest_of_team(self) -> jax.Array:
        """bool[P]: no mate is nearer to the ball."""
        return self.distance <= self.nearest(self.teams.mates, self.distance)

    @cached_property
    def last_of_team(self) -> jax.Array:
        """bool[P]: no mate is nearer to the own goal, along the field."""
        return self.y <= self.nearest(self.teams.mates, self.y)

    @property
    def has_mates(self) -> np.ndarray:
        """bool[P]."""
        return np.any(self.teams.mates, axis=1)
