"""Random states of car soccer for tests of functions of states, as arrays and as the referee's plain numbers."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer import events, field, prediction, scoreboard, setters
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import CarSoccerGame
from jaxrl_envs.car_soccer.physics.field.pads import POSITIONS
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings

FLAGS = ("on_ground", "is_jumping", "has_jumped", "has_double_jumped", "has_flipped", "is_supersonic", "world_contact")
FLAGS += ("jump_held", "is_demoed")
TIMERS = ("flip_time", "air_time_since_jump", "handbrake", "boosting_time", "air_time", "respawn_time")
NAMES = (*FLAGS, *TIMERS, "boost")


COUNT = 64  # of games: always as many, so that a program is compiled once for each size of teams


def games(teams: Teams, seed: int = 0) -> CarSoccerGame:
    """Returns [COUNT] games with random bodies, flags and timers, in which some boost pads are taken."""
    return _made(teams)(jax.random.split(jax.random.key(seed), COUNT))


@functools.cache
def _made(teams: Teams):
    settings = PhysicsSettings(tuple(map(int, teams.of)))
    scene = setters.Scene(teams)
    setter = setters.mixture({"random": 2.0, "kickoff": 1.0, "shoot": 1.0, "air": 1.0})

    def one(key):
        keys = iter(jax.random.split(key, 40))
        arena = setters.arena(setter(next(keys), scene), settings, jnp.uint32(0))
        seats = (teams.seats,)
        flags = {name: jax.random.bernoulli(next(keys), 0.4, seats) for name in FLAGS}
        timers = {name: jax.random.uniform(next(keys), seats, maxval=2.0) for name in TIMERS}
        timers["boosting_time"] = jnp.maximum(timers["boosting_time"] - 1, 0)
        timers["respawn_time"] = timers["respawn_time"] * flags["is_demoed"]
        taken = jax.random.uniform(next(keys), (len(POSITIONS),), minval=-10.0, maxval=10.0)
        arena = arena.replace(
            cars=arena.cars.replace(**flags, **timers),
            pads=arena.pads.replace(cooldown=jnp.maximum(taken, 0.0)),
            tick=jax.random.randint(next(keys), (), 0, 2000),
        )
        controls = jax.random.uniform(next(keys), (*seats, 8), minval=-1.0)
        board = scoreboard.begin(300.0)
        tracks = events.begin(teams, prediction.foreseen(arena.ball), kickoff=jnp.bool_(False))
        return CarSoccerGame(arena=arena, controls=controls, board=board, tracks=tracks)

    return jax.jit(jax.vmap(one))


def moments(game: CarSoccerGame, teams: Teams) -> list[dict]:
    """Returns all games as states of the referee `tests.jaxrl_envs.car_soccer.referee.car_soccer_play`."""
    game = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64 if leaf.dtype == jnp.float32 else None), game)
    return [_moment(jax.tree.map(lambda leaf, i=i: leaf[i], game), teams) for i in range(len(game.controls))]


def _moment(game: CarSoccerGame, teams: Teams) -> dict:
    def place(vector, *index):
        return [float(part[index]) for part in (vector.x, vector.y, vector.z)]

    cars, ball = game.arena.cars, game.arena.ball
    found = []
    for seat, team in enumerate(teams.of):
        vectors = {"position": cars.position, "velocity": cars.velocity, "spin": cars.angular_velocity}
        vectors |= {"forward": cars.axes.forward, "right": cars.axes.right, "up": cars.axes.up}
        car = {name: place(vector, seat) for name, vector in vectors.items()}
        car |= {name: getattr(cars, name)[seat].item() for name in NAMES}
        found.append(car | {"team": int(team)})
    pads = {tuple(map(int, place[:2])): float(game.arena.pads.cooldown[i]) for i, place in enumerate(POSITIONS)}
    assert set(pads) == {tuple(map(int, place)) for place in field.PADS}
    moving = {"position": ball.position, "velocity": ball.velocity, "spin": ball.angular_velocity}
    return {"ball": {name: place(vector) for name, vector in moving.items()}, "cars": found, "pads": pads}
