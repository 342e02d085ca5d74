"""Observations of a seat: RLGym's floats, absolute or relative to the car, and optional parts behind them.

Everybody sees the whole field. The second team sees it turned by 180 degrees, so that one policy plays for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.actions import has_flip
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import CarSoccerGame
from jaxrl_envs.car_soccer.physics.field.pads import POSITIONS
from jaxrl_envs.car_soccer.physics.state import Cars
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec

PADDED = 3  # cars of a team that a padded observation has room for
_PAD_ORDER = np.array([int(np.argmin(((POSITIONS[:, :2] - place) ** 2).sum(axis=1))) for place in field.PADS])

View = Callable[[CarSoccerGame, Teams, bool], jax.Array]


def default(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, 52 + 20 cars], RLGym's DefaultObs: ball 9, pads 34, own secrets 9, own car, mates, opponents 20 each."""
    turn = jnp.asarray(_turned(teams))  # f32[P, 3]
    ball, arena = game.arena.ball, game.arena
    spheres = [ball.position.array / 2300, ball.velocity.array / 2300, ball.angular_velocity.array / np.pi]
    balls = jnp.concatenate([part * turn for part in spheres], axis=-1)
    cars = _car(arena.cars, arena.cars.position, arena.cars.velocity, arena.cars.angular_velocity, arena.cars.axes)
    both = [cars * np.concatenate([np.tile(np.array(sign, np.float32), 5), np.ones(5)]) for sign in _SIGNS]
    seen = [both[team] for team in teams.of]
    return _joined(game, teams, padded, balls, seen)


def relative(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """The same numbers with the ball and all other cars in the axes of the own car, from its place and velocity."""
    turn, arena = jnp.asarray(_turned(teams)), game.arena
    cars, ball = arena.cars, arena.ball
    balls, seen = [], []
    for seat in range(teams.seats):
        own, here, speed = cars.axes.at(seat), cars.position.at(seat), cars.velocity.at(seat)
        spin = cars.angular_velocity.at(seat)
        parts = [ball.position - here, ball.velocity - speed, ball.angular_velocity - spin]
        scaled = zip(parts, (2300, 2300, np.pi), strict=True)
        balls.append(jnp.concatenate([own.to_local(part).array / scale for part, scale in scaled]))
        axes = Axes(own.to_local(cars.axes.forward), own.to_local(cars.axes.right), own.to_local(cars.axes.up))
        others = _car(
            cars,
            own.to_local(cars.position - here),
            own.to_local(cars.velocity - speed),
            own.to_local(cars.angular_velocity - spin),
            axes,
        )
        absolute = _car(cars, cars.position, cars.velocity, cars.angular_velocity, cars.axes)[seat]
        turned = absolute * jnp.concatenate([jnp.tile(turn[seat], 5), jnp.ones(5)])
        seen.append(others.at[seat].set(turned))
    return _joined(game, teams, padded, jnp.stack(balls), seen)


OBSERVATIONS: dict[str, View] = {"default": default, "relative": relative}


# ---- parts that may follow ------------------------------------------------------------------------------------------


def present(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, cars - 1], 1 for every other place of the observation that has a car."""
    del game
    return jnp.stack([jnp.asarray(order[1:] >= 0, jnp.float32) for order in _orders(teams, padded)])


def previous_action(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, 8], the controls of the last decision."""
    del teams, padded
    return game.controls


def scoreboard(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, 3]: goals ahead (in five, cut), minutes left (in five), overtime."""
    del padded
    goals, board = game.board.goals, game.board
    ahead = jnp.clip((goals[teams.of] - goals[1 - teams.of]) / 5, -1.0, 1.0)
    left = jnp.broadcast_to(board.left / 300, ahead.shape)
    return jnp.stack([ahead, left, jnp.broadcast_to(board.overtime, ahead.shape).astype(jnp.float32)], axis=-1)


def prediction(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, 9], where the ball will be in 0.5, 1 and 2 seconds."""
    del padded
    ahead = game.tracks.ahead.position.array / 2300  # [3, 3]
    return (ahead * jnp.asarray(_turned(teams))[:, None]).reshape(teams.seats, -1)


def aim(game: CarSoccerGame, teams: Teams, padded: bool) -> jax.Array:
    """f32[P, 16], what a car must bring into one line, in its own axes: directions to the ball, from there to the
    opponents' goal, and to both goals (the opponents' first), each with the logarithm of the distance (in 1,000 uu)."""
    del padded
    cars, attack = game.arena.cars, jnp.asarray(teams.attack)
    ball = jax.tree.map(lambda leaf: leaf[..., None], game.arena.ball.position)
    theirs = Vec(0 * attack, field.BACK * attack, 0 * attack + field.GOAL_HEIGHT / 2)
    own = Vec(theirs.x, -theirs.y, theirs.z)
    ways = [ball - cars.position, theirs - ball, theirs - cars.position, own - cars.position]
    parts = [(cars.axes.to_local(way.unit()).array, jnp.log((way.length[:, None] + 1) / 1000)) for way in ways]
    return jnp.concatenate([part for pair in parts for part in pair], axis=-1)


EXTRAS: dict[str, View] = {
    "present": present,
    "aim": aim,
    "previous_action": previous_action,
    "scoreboard": scoreboard,
    "prediction": prediction,
}


def observe(game: CarSoccerGame, teams: Teams, kind: View, extras: Sequence[View], padded: bool) -> jax.Array:
    """f32[P, F], what all seats see."""
    return jnp.concatenate([kind(game, teams, padded), *(part(game, teams, padded) for part in extras)], axis=-1)


# ---- layout ---------------------------------------------------------------------------------------------------------

_SIGNS = ((1.0, 1.0, 1.0), (-1.0, -1.0, 1.0))  # of x, y, z as a team sees them


def _turned(teams: Teams) -> np.ndarray:
    """f32[P, 3]: the signs with which each seat sees a vector of the field."""
    return np.array(_SIGNS, np.float32)[teams.of]


def _orders(teams: Teams, padded: bool) -> list[np.ndarray]:
    """i32[cars] for every seat: itself, its mates, its opponents by number; -1 where a place is empty."""
    orders = []
    for seat in range(teams.seats):
        mates, rivals = np.flatnonzero(teams.mates[seat]), np.flatnonzero(teams.rivals[seat])
        spare = (PADDED - 1 - len(mates), PADDED - len(rivals)) if padded else (0, 0)
        order = [seat, *mates, *[-1] * spare[0], *rivals, *[-1] * spare[1]]
        orders.append(np.array(order, np.int32))
    return orders


def _car(cars: Cars, position: Vec, velocity: Vec, spin: Vec, axes: Axes) -> jax.Array:
    """f32[P, 20], all cars, of which some vectors may have been turned."""
    flags = [cars.on_ground, cars.boosting_time > 0, cars.is_supersonic]
    rest = [cars.boost / 100, cars.respawn_time * cars.is_demoed, *(flag.astype(jnp.float32) for flag in flags)]
    vectors = [position.array / 2300, axes.forward.array, axes.up.array, velocity.array / 2300, spin.array / np.pi]
    return jnp.concatenate([*vectors, jnp.stack(rest, axis=-1)], axis=-1)


def _joined(game: CarSoccerGame, teams: Teams, padded: bool, balls: jax.Array, seen: Sequence[jax.Array]) -> jax.Array:
    """f32[P, F] of balls f32[P, 9] and the cars f32[P, 20] as each seat sees them."""
    arena, cars = game.arena, game.arena.cars
    timers = arena.pads.cooldown[_PAD_ORDER] / 10
    can_flip = ~cars.on_ground & ~cars.jump_held & has_flip(cars)
    secrets = jnp.stack(
        [
            cars.jump_held.astype(jnp.float32),
            cars.handbrake,
            cars.has_jumped.astype(jnp.float32),
            cars.is_jumping.astype(jnp.float32),
            cars.has_flipped.astype(jnp.float32),
            (cars.has_flipped & (cars.flip_time < field.FLIP_SECONDS)).astype(jnp.float32),
            cars.has_double_jumped.astype(jnp.float32),
            can_flip.astype(jnp.float32),
            cars.air_time_since_jump,
        ],
        axis=-1,
    )
    rows = []
    for seat, order in enumerate(_orders(teams, padded)):
        pads = timers[::-1] if teams.of[seat] else timers
        places = [seen[seat][number] if number >= 0 else jnp.zeros(20) for number in order]
        rows.append(jnp.concatenate([balls[seat], pads, secrets[seat], *places]))
    return jnp.stack(rows)
