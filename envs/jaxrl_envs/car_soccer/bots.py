"""Scripted bots, functions (game, teams) -> controls f32[P, 8] of all cars; `actions.nearest` makes rows of them.

A car that lies on its roof or side presses jump now and then, which turns it over, under every driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.actions import BOOST, JUMP, THROTTLE, has_flip, lies
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import CarSoccerGame
from jaxrl_envs.car_soccer.physics.field.pads import IS_BIG, POSITIONS
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Vec

Driver = Callable[[CarSoccerGame, Teams], jax.Array]


def still(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Does nothing."""
    del teams
    return jnp.zeros_like(game.controls)


def chase(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Full throttle at the ball; neither boost nor jump."""
    cars, ball = game.arena.cars, game.arena.ball
    view = _View.of(game, teams)
    return _recovered(cars, view.drive(Vec(*(value + 0 * view.distance for value in _parts(ball.position))), 3.0))


def rule_policy(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Roles by rules, of which the first that holds decides.

    1. Kickoff: at the ball, boost while there is more than 20.
    2. A high ball within 2,000 uu that will still be high when the car gets there, boost for it: jumps and flies at it,
       dodges into it.
    3. The last car of its team while the ball comes to its goal: to the middle between that goal and where the ball
       will be in half a second.
    4. Boost below 10 and another car is nearer to the ball: to the nearest big pad that is there, in the own half
       unless it is the last car.
    5. Boost below 30 and another car is nearer to the ball, which is more than 1,500 uu away: the same.
    6. The ball within 1,000 uu: challenges if no mate is nearer and there is boost 30; else goes back to the far post,
       in reverse if that is behind it.
    7. No mate is nearer to the ball: at the ball, boost while there is more than 50.
    8. Else waits 2,000 uu in the own half, on the ball's side.

    Demolished cars are no mates and no opponents. Boost is used where the car drives nearly straight, or flies at a
    ball before it. Of the two kinds of play that the rules were written for this is the aggressive one: the other
    challenges only while the ball comes to its goal.
    """
    arena, cars = game.arena, game.arena.cars
    view = _View.of(game, teams)
    ball = Vec(*(value + 0 * view.distance for value in _parts(arena.ball.position)))
    flat, zero = view.distance * 0, jnp.zeros_like(view.distance)
    goal = Vec(flat, flat - field.BACK * teams.attack, flat)
    soon = Vec(*(value + 0.5 * speed for value, speed in zip(_parts(ball), _parts(arena.ball.velocity), strict=True)))
    middle = (goal + soon) * 0.5
    coming = (arena.ball.velocity.y * teams.attack < -300) & (ball.y * teams.attack < 0)
    fetch = view.fetch(arena.pads.cooldown)
    hungry = ~view.closest_of_all & ((cars.boost < 10) | ((cars.boost < 30) & (view.distance > 1500)))
    post = Vec(-jnp.where(ball.x > 0, 800.0, -800.0), goal.y, zero)
    challenge = view.closest_of_team & (cars.boost >= 30)
    hold = Vec(0.5 * ball.x, flat - 2000 * teams.attack, zero)
    kickoff = jnp.broadcast_to(view.kickoff(game), flat.shape)
    rules = [
        (kickoff, _boosting(view.drive(ball, 3.0), cars.boost > 20)),
        (view.aerial(arena), view.fly(ball)),
        (view.last_of_team & coming, view.drive(middle, 3.0)),
        (hungry & fetch.found, view.drive(fetch.pad, 3.0)),
        ((view.distance < 1000) & challenge, _boosting(view.drive(ball, 3.0), cars.boost > 50)),
        (view.distance < 1000, view.back_off(post)),
        (view.closest_of_team, _boosting(view.drive(ball, 3.0), cars.boost > 50)),
        (jnp.ones_like(kickoff), view.drive(hold, 2.0)),
    ]
    controls = rules[-1][1]
    for holds, chosen in reversed(rules[:-1]):
        controls = jnp.where(holds[:, None], chosen, controls)
    return _recovered(cars, controls)


def striker(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Shoots: meets the ball where it will come down, from behind, and dodges into it.

    1. Kickoff: at the ball with boost, and a dodge into it.
    2. The ball is not between the car and the goal that it attacks: round it.
    3. Else at a point behind the ball on the line from that goal, the closer to the ball the nearer the car is, at the
       speed that brings both there together; a dodge where the ball is in front, near and low.
    """
    return _recovered(game.arena.cars, _View.of(game, teams).shoot(game))


def keeper(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Keeps goal: waits before it, on the ball's side, and plays as `striker` while the ball is near or comes fast."""
    return _recovered(game.arena.cars, _View.of(game, teams).keep(game))


def rotation(game: CarSoccerGame, teams: Teams) -> jax.Array:
    """Plays as a team that rotates: the car nearest to the ball shoots, the last other keeps goal, the rest follow.

    They follow 2,000 uu behind the ball, on the other side of the field's middle. A car without mates is a `striker`.
    """
    view = _View.of(game, teams)
    ball = view.ball(game)
    follow = Vec(-0.4 * ball.x, ball.y - 2000 * view.attack, 0 * ball.x)
    rest = jnp.where(view.last_of_others[:, None], view.keep(game), view.drive(follow, 2.0))
    return _recovered(game.arena.cars, jnp.where(view.closest_of_team[:, None], view.shoot(game), rest))


DRIVERS: dict[str, Driver] = {
    "still": still,
    "chase": chase,
    "keeper": keeper,
    "rule_policy": rule_policy,
    "rotation": rotation,
    "striker": striker,
}


# ---- what drivers know ----------------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    """The nearest big pad that is there: `pad`, vectors of f32[P]; `found`, bool[P]."""

    pad: Vec
    found: jax.Array


class _View(NamedTuple):
    """All cars and how they stand to the ball and to each other; f32[P] or bool[P]."""

    cars: Cars
    attack: jax.Array
    to_ball: Vec
    distance: jax.Array
    closest_of_team: jax.Array
    closest_of_all: jax.Array
    last_of_team: jax.Array
    last_of_others: jax.Array  # of those of its team that are not the closest to the ball

    @classmethod
    def of(cls, game: CarSoccerGame, teams: Teams) -> _View:
        cars = game.arena.cars
        to_ball = game.arena.ball.position - cars.position
        distance, y = to_ball.length, cars.position.y * teams.attack

        def least(value: jax.Array, who: np.ndarray) -> jax.Array:
            return value <= jnp.min(jnp.where(who & ~cars.is_demoed, value, jnp.inf), axis=1, initial=jnp.inf)

        closest = least(distance, teams.mates)
        attackers = jnp.where(closest, jnp.inf, y)
        return cls(
            cars=cars,
            attack=jnp.asarray(teams.attack),
            to_ball=to_ball,
            distance=distance,
            closest_of_team=closest,
            closest_of_all=least(distance, teams.mates | teams.rivals),
            last_of_team=least(y, teams.mates),
            last_of_others=least(attackers, teams.mates),
        )

    def ball(self, game: CarSoccerGame, seconds: jax.Array | float = 0.0) -> Vec:
        """Returns the ball's position after some seconds (f32[P]) of straight flight, within the walls."""
        ball = game.arena.ball
        speeds = zip(_parts(ball.position), _parts(ball.velocity), strict=True)
        x, y, z = (place + seconds * speed + 0 * self.distance for place, speed in speeds)
        width, length = field.SIDE - field.BALL_RADIUS, field.BACK - field.BALL_RADIUS
        return Vec(jnp.clip(x, -width, width), jnp.clip(y, -length, length), z)

    def lands(self, game: CarSoccerGame) -> jax.Array:
        """Seconds until the ball comes down to where cars reach it, f32[]; 0 if it is there."""
        ball, reach, half = game.arena.ball, 160.0, 325.0
        above = jnp.maximum(ball.position.z - reach, 0)
        falls = (ball.velocity.z + jnp.sqrt(jnp.square(ball.velocity.z) + 4 * half * above)) / (2 * half)
        return jnp.where((above > 0) | (ball.velocity.z > 300), jnp.maximum(falls, 0), 0.0)

    def shoot(self, game: CarSoccerGame) -> jax.Array:
        """See `striker`."""
        cars, flat = self.cars, 0 * self.distance
        speed = cars.velocity.length
        seconds = jnp.minimum(jnp.maximum(self.distance / jnp.maximum(speed, 1400), self.lands(game)), 3.0)
        ball = self.ball(game, seconds)
        line = (Vec(flat, flat + field.BACK * self.attack, ball.z) - ball).unit()  # from the ball to the goal
        to_ball = ball - cars.position
        along = to_ball.dot(line)
        side = jnp.sign(to_ball.x * line.y - to_ball.y * line.x)
        across = Vec(-line.y * side, line.x * side, flat)
        behind = ball - line * jnp.clip(0.35 * self.distance, 0, 1000)
        around = ball - line * 900.0 + across * 500.0
        kickoff = self.kickoff(game)
        target = _where(kickoff, self.ball(game), _where(along > 0, behind, around))
        straight = jnp.abs(self.angle(target)) < 0.25
        wanted = (target - cars.position).length / jnp.maximum(seconds, 0.1)  # to be there with the ball
        controls = _boosting(self.drive(target, 3.0), straight & (cars.boost > 0) & (kickoff | (wanted > speed + 200)))
        controls = controls.at[:, THROTTLE].set(jnp.where(kickoff | (speed < wanted + 100), 1.0, 0.0))
        ahead = cars.axes.to_local(self.to_ball).unit().x > 0.9
        near = ahead & (self.distance < jnp.where(kickoff, 700, 450)) & (self.ball(game).z < 250)
        dodges = has_flip(cars) & ((near & (along > 0) & (speed > 700)) | (~cars.on_ground & ahead))
        return jnp.where(dodges[:, None], self.dodge(), controls)

    def dodge(self) -> jax.Array:
        """Jumps, releases, and dodges forwards."""
        jump = self.cars.on_ground | ~self.cars.jump_held
        flat = 0 * self.distance
        return _controls(throttle=1 + flat, steer=flat, pitch=flat - 1.0, jump=jump.astype(jnp.float32))

    def keep(self, game: CarSoccerGame) -> jax.Array:
        """See `keeper`."""
        ball, flat = self.ball(game, 0.5), 0 * self.distance
        near = (ball.y + field.BACK * self.attack) * self.attack < 1800
        toward = (game.arena.ball.velocity.y * self.attack < -600) & (self.distance < 2500)
        mine = (near | toward) & (jnp.abs(ball.x) < 2500)
        place = Vec(jnp.clip(0.3 * ball.x, -700, 700), flat - (field.BACK - 250) * self.attack, flat)
        return jnp.where(mine[:, None], self.shoot(game), self.stand(place))

    def stand(self, place: Vec) -> jax.Array:
        """Drives to a place, in reverse if it is behind, and stops there."""
        apart = (place - self.cars.position).length
        return self.back_off(place).at[:, THROTTLE].multiply(jnp.clip((apart - 100) / 600, 0, 1))

    @staticmethod
    def kickoff(game: CarSoccerGame) -> jax.Array:
        """bool[]: the ball lies in the middle."""
        ball = game.arena.ball
        return (jnp.abs(ball.position.x) + jnp.abs(ball.position.y) < 50) & (ball.velocity.length < 50)

    def angle(self, target: Vec) -> jax.Array:
        """Returns the angle from the car's front to a target, to the right, seen from above, rad."""
        towards, front = target - self.cars.position, self.cars.axes.forward
        return jnp.arctan2(front.x * towards.y - front.y * towards.x, front.x * towards.x + front.y * towards.y)

    def drive(self, target: Vec, gain: float) -> jax.Array:
        """Full throttle to a place."""
        return _controls(throttle=1.0 + 0 * self.distance, steer=jnp.clip(gain * self.angle(target), -1, 1))

    def back_off(self, target: Vec) -> jax.Array:
        """Drives to a place, in reverse if it is behind."""
        angle = self.angle(target)
        reverse = jnp.cos(angle) < -0.5
        steer = jnp.where(reverse, -jnp.sin(angle), angle)  # a car in reverse steers the other way round
        return _controls(throttle=jnp.where(reverse, -1.0, 1.0), steer=jnp.clip(2.0 * steer, -1, 1))

    def aerial(self, arena) -> jax.Array:
        """bool[P]: it is worth flying, or the car already does so."""
        cars, ball = self.cars, arena.ball
        reach = self.distance / 1000
        later = ball.position.z + ball.velocity.z * reach - 325 * reach * reach
        high = (ball.position.z >= 300) & (later >= 300) & (self.distance <= 2000)
        begins = cars.on_ground & has_flip(cars) & (cars.boost >= 40)
        return high & (begins | (~cars.on_ground & (cars.boost > 0)))

    def fly(self, ball: Vec) -> jax.Array:
        """Jump, turn the nose to the ball, boost, dodge when there."""
        cars = self.cars
        local = cars.axes.to_local(ball - cars.position).unit()
        pitch = jnp.clip(2 * jnp.arctan2(local.z, local.x), -1, 1)
        yaw = jnp.clip(2 * jnp.arctan2(local.y, local.x), -1, 1)
        dodge = ~cars.on_ground & (local.x > 0.9) & (self.distance < 300) & ~cars.jump_held & has_flip(cars)
        jump = cars.on_ground | cars.is_jumping | dodge
        pitch = jnp.where(dodge, -1.0, pitch)
        rest = {"jump": jump.astype(jnp.float32), "boost": (local.x > 0.3).astype(jnp.float32)}
        return _controls(throttle=1.0 + 0 * yaw, steer=yaw, pitch=pitch, **rest)

    def fetch(self, cooldown: jax.Array) -> Fetch:
        """The nearest big pad that is there; cars that are not their team's last look in their own half only."""
        pads = POSITIONS[IS_BIG]  # [6, 3]
        apart = jnp.hypot(pads[:, 0] - self.cars.position.x[:, None], pads[:, 1] - self.cars.position.y[:, None])
        own_half = pads[:, 1] * self.attack[:, None] <= 0
        open_ = (cooldown[IS_BIG] == 0) & (own_half | self.last_of_team[:, None])
        best = jnp.argmin(jnp.where(open_, apart, jnp.inf), axis=1)
        places = jnp.asarray(pads, jnp.float32)[best]
        return Fetch(Vec(places[:, 0], places[:, 1], 0 * places[:, 0]), jnp.any(open_, axis=1))


def _parts(vector: Vec) -> tuple[jax.Array, jax.Array, jax.Array]:
    return vector.x, vector.y, vector.z


def _where(condition: jax.Array, yes: Vec, no: Vec) -> Vec:
    return Vec(*(jnp.where(condition, one, other) for one, other in zip(_parts(yes), _parts(no), strict=True)))


def _controls(*, throttle, steer, pitch=None, jump=None, boost=None) -> jax.Array:
    """f32[P, 8]; yaw is steer."""
    zero = jnp.zeros_like(steer)
    rows = [throttle, steer, zero if pitch is None else pitch, steer, zero]
    rows += [zero if jump is None else jump, zero if boost is None else boost, zero]
    return jnp.stack(rows, axis=-1)


def _boosting(controls: jax.Array, when: jax.Array) -> jax.Array:
    """Returns the controls, with boost where said so and the car drives nearly straight."""
    return controls.at[:, BOOST].set((when & (jnp.abs(controls[:, 1]) < 0.9)).astype(jnp.float32))


def _recovered(cars: Cars, controls: jax.Array) -> jax.Array:
    """Returns the controls, with a fresh press of jump for cars that lie on their roof or side."""
    lying = lies(cars)
    pressed = jnp.where(lying & ~cars.jump_held, 1.0, controls[:, JUMP])
    return controls.at[:, JUMP].set(jnp.where(lying & cars.jump_held, 0.0, pressed))
