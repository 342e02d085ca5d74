"""State setters: how an episode begins, by name, mixed by weight.

A setter is a function (key, scene) -> `Start`. A file of states, for the setter `replay`, is a NumPy archive (.npz)
with the fields of `Start` by name, each with a leading axis of states.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.car_soccer import field
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.physics.field.spawn import arena_at, cars_at
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball
from jaxrl_envs.car_soccer.physics.vector import axes, vec
from jaxrl_envs.contract.env import Key, select
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

LARGEST = 1 << 27  # bytes of a file of states, unpacked
_ORDERS = np.array(list(itertools.permutations(range(5), 3)), np.int32)  # [60, 3], kickoff places of up to three cars


@struct.dataclass
class Start:
    """Initial positions and motions, uu, uu/s and rad/s. P cars.

    Attributes:
      ball_position, ball_velocity, ball_spin: f32[3].
      position, velocity, spin: f32[P, 3], of the cars. rotation: f32[P, 3, 3], rows forward, right, up.
      boost: f32[P], 0..100.
    """

    ball_position: jax.Array
    ball_velocity: jax.Array
    ball_spin: jax.Array
    position: jax.Array
    velocity: jax.Array
    spin: jax.Array
    rotation: jax.Array
    boost: jax.Array


@dataclasses.dataclass(frozen=True)
class Scene:
    """The inputs of a setter.

    Attributes:
      teams: teams of the game.
      difficulty: 0..1, how far from easy the setters that have a choice begin; a curriculum lets it grow.
      states: [N] of a file, for `replay`; None without one.
    """

    teams: Teams
    difficulty: float = 1.0
    states: Start | None = None


Setter = Callable[[Key, Scene], Start]


# ---- the setters ----------------------------------------------------------------------------------------------------


def kickoff(key: Key, scene: Scene) -> Start:
    """Returns a kickoff in one of the five positions, the same for both teams, in random order."""
    teams = scene.teams
    order = jnp.asarray(_ORDERS)[jax.random.randint(key, (), 0, len(_ORDERS))]
    number = np.concatenate([np.arange(size) for size in teams.sizes])
    x, y, yaw = jnp.moveaxis(jnp.asarray(field.KICKOFFS)[order[number]], -1, 0)
    position = jnp.stack([x * teams.attack, y * teams.attack, jnp.full(teams.seats, field.CAR_REST)], axis=-1)
    ball = jnp.array([0.0, 0.0, field.BALL_REST], jnp.float32), jnp.zeros(3), jnp.zeros(3)
    return _on_wheels(ball, position, yaw + np.pi * teams.of, jnp.full(teams.seats, field.START_BOOST))


def random(key: Key, scene: Scene) -> Start:
    """Ball and cars anywhere, turned and moving anyhow; every other car stands on its wheels."""
    keys, teams = jax.random.split(key, 8), scene.teams
    grounded = jax.random.bernoulli(keys[0], 0.5, (teams.seats, 1))
    position = _anywhere(keys[1], (teams.seats,))
    yaw = jax.random.uniform(keys[2], (teams.seats,), minval=-np.pi, maxval=np.pi)
    flat, turned = _yaw_rotation(yaw), _any_rotation(keys[3], teams.seats)
    velocity = _direction(keys[4], (teams.seats,), field.CAR_SPEED)
    forwards = flat[:, 0] * jnp.sum(flat[:, 0] * velocity, axis=-1, keepdims=True)
    ball = jax.random.split(keys[7], 3)
    inside = position * jnp.array([0.9, 0.9, 0.0]) + jnp.array([0.0, 0.0, field.CAR_REST])
    return Start(
        ball_position=_anywhere(ball[0], ()),
        ball_velocity=_direction(ball[1], (), field.BALL_SPEED / 2),
        ball_spin=_direction(ball[2], (), 5.0),
        position=jnp.where(grounded, inside, position),
        velocity=jnp.where(grounded, forwards, velocity),
        spin=jnp.where(grounded, 0.0, _direction(keys[5], (teams.seats,), 5.0)),
        rotation=jnp.where(grounded[..., None], flat, turned),
        boost=_any_boost(keys[6], teams),
    )


def air(key: Key, scene: Scene) -> Start:
    """Returns the ball in the air, up to 200 uu high if easy and 1,600 uu if not, cars on the ground anywhere."""
    keys, teams, hard = jax.random.split(key, 5), scene.teams, scene.difficulty
    ball = _anywhere(keys[0], ()) * 0.8
    ball = ball.at[2].set(field.BALL_RADIUS + jax.random.uniform(keys[1]) * (200 + 1400 * hard))
    start = random(keys[2], scene)
    yaw = jax.random.uniform(keys[3], (teams.seats,), minval=-np.pi, maxval=np.pi)
    ground = start.position * jnp.array([0.9, 0.9, 0.0]) + jnp.array([0.0, 0.0, field.CAR_REST])
    velocity = _direction(keys[4], (), 500 + 1500 * hard)
    return _on_wheels((ball, velocity, jnp.zeros(3)), ground, yaw, start.boost)


def shoot(key: Key, scene: Scene) -> Start:
    """Returns the ball in front of a goal, a car behind it that faces it, the other team near its goal.

    Easy: the ball rests, the car is near and faces it. The harder, the faster the ball rolls, the farther to the side
    it is, the farther the car is away and the more it is turned.
    """
    keys, teams, hard = jax.random.split(key, 9), scene.teams, scene.difficulty
    first = jax.random.bernoulli(keys[0], teams.sizes[0] / teams.seats)  # whose chance it is
    way = jnp.where(first, 1.0, -1.0)
    attacks = teams.attack == way  # bool[P]
    unit = jax.random.uniform(keys[1], (3,))
    ball_x = (2 * unit[0] - 1) * (800 + 2200 * hard)
    ball_y = way * (3000 - 3000 * hard * unit[1] + 1000 * unit[2])
    ball = jnp.stack([ball_x, ball_y, jnp.float32(field.BALL_REST)])
    velocity = _direction(keys[2], (), 1000.0 * hard) * jnp.array([1.0, 1.0, 0.0])
    number = np.concatenate([np.arange(size) for size in teams.sizes])
    side = jax.random.uniform(keys[3], (teams.seats,), minval=-1.0, maxval=1.0) * (0.2 + 0.8 * hard) * np.pi / 2
    away = 500 + 900 * number + jax.random.uniform(keys[4], (teams.seats,)) * (300 + 1700 * hard)
    behind = ball[None, :2] - jnp.stack([jnp.sin(side), jnp.cos(side) * way], axis=-1) * away[:, None]
    home = jnp.stack([(2 * jax.random.uniform(keys[5], (teams.seats,)) - 1) * 1200, way * (4700.0 - 500 * number)], -1)
    flat = jnp.where(jnp.asarray(attacks)[:, None], behind, home)
    flat = jnp.clip(flat, -jnp.array([3500.0, 4700.0]), jnp.array([3500.0, 4700.0]))
    flat *= jnp.minimum(1.0, (field.CORNER - 500) / jnp.sum(jnp.abs(flat), axis=-1, keepdims=True))
    to_ball = ball[None, :2] - flat
    turn = jax.random.uniform(keys[6], (teams.seats,), minval=-1.0, maxval=1.0) * np.pi * hard
    position = jnp.concatenate([flat, jnp.full((teams.seats, 1), field.CAR_REST)], axis=-1)
    boost = _any_boost(keys[7], teams)
    return _on_wheels((ball, velocity, jnp.zeros(3)), position, jnp.arctan2(to_ball[:, 1], to_ball[:, 0]) + turn, boost)


def replay(key: Key, scene: Scene) -> Start:
    """Returns one of the states of the file `replays`."""
    assert scene.states is not None  # checked when the game was made
    index = jax.random.randint(key, (), 0, scene.states.boost.shape[0])
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], scene.states)


SETTERS: dict[str, Setter] = {"kickoff": kickoff, "random": random, "air": air, "shoot": shoot, "replay": replay}


def mixture(weights: Mapping[str, float], known: Mapping[str, Setter] = SETTERS) -> Setter:
    """Returns one setter that is one of several, drawn by weight."""
    names = [name for name, weight in weights.items() if weight > 0]
    share = np.array([weights[name] for name in names])
    below = np.cumsum(share / share.sum())[:-1]

    def drawn(key: Key, scene: Scene) -> Start:
        which, key = jax.random.split(key)
        index = jnp.sum(jax.random.uniform(which) >= below.astype(np.float32)) if len(names) > 1 else 0
        start = known[names[0]](key, scene)
        for number, name in enumerate(names[1:], start=1):
            start = select(jnp.asarray(index == number), known[name](jax.random.fold_in(key, number), scene), start)
        return start

    return drawn


# ---- files ----------------------------------------------------------------------------------------------------------


def save_states(path: str | Path, states: Start) -> None:
    """Writes states [N] for the setter `replay`."""
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in vars(states).items()}
    np.savez_compressed(path, **arrays)


def load_states(path: str, teams: Teams) -> Start:
    """States [N] of a file.

    Raises:
      UserError: the file cannot be read, or its states have another number of cars.
    """
    try:
        with files.opened(Path(path).expanduser()) as file, np.load(file, allow_pickle=False) as archive:
            if (size := sum(each.file_size for each in archive.zip.infolist())) > LARGEST:
                raise ValueError(f"it unpacks to {size:,} bytes, at most are {LARGEST:,}")
            found = {name: np.asarray(archive[name], np.float32) for name in archive.files}
    except Exception as error:  # NumPy, zipfile and zlib raise many types
        raise UserError(f"car_soccer: cannot read the states of replays={path}: {error}.") from None
    one = jax.eval_shape(lambda: kickoff(jax.random.key(0), Scene(teams)))
    form = {name: spec.shape for name, spec in vars(one).items()}
    count = {len(value) if value.ndim else 0 for value in found.values()}
    wrong = sorted(name for name in form if name not in found or found[name].shape[1:] != form[name])
    if wrong or len(count) != 1 or 0 in count or not all(np.isfinite(value).all() for value in found.values()):
        about = f"{', '.join(wrong)} missing or of another shape" if wrong else "it holds no finite states"
        raise UserError(
            f"car_soccer: replays={path} is no file of states with {teams.seats} cars ({about}); "
            "jaxrl_envs.car_soccer.setters.save_states writes one."
        )
    arrays: dict[str, Any] = {name: found[name] for name in form}  # NumPy: making a game starts no device
    return Start(**arrays)


# ---- parts of a start -----------------------------------------------------------------------------------------------


def _on_wheels(
    ball: tuple[jax.Array, jax.Array, jax.Array], position: jax.Array, yaw: jax.Array, boost: jax.Array
) -> Start:
    """Cars [P] that stand, and a ball (position, velocity, spin)."""
    zero = jnp.zeros_like(position)
    return Start(*ball, position.astype(jnp.float32), zero, zero, _yaw_rotation(yaw), boost.astype(jnp.float32))


def _yaw_rotation(yaw: jax.Array) -> jax.Array:
    """f32[P, 3, 3], rows forward, right, up of cars that stand flat and face an angle f32[P]."""
    cosine, sine, zero = jnp.cos(yaw), jnp.sin(yaw), jnp.zeros_like(yaw)
    rows = [(cosine, sine, zero), (-sine, cosine, zero), (zero, zero, zero + 1)]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2).astype(jnp.float32)


def _any_rotation(key: Key, seats: int) -> jax.Array:
    """f32[P, 3, 3], turned anyhow."""
    forward, other = _direction(key, (2, seats))
    right = jnp.cross(other, forward)
    right /= jnp.linalg.norm(right, axis=-1, keepdims=True) + 1e-9
    return jnp.stack([forward, right, jnp.cross(forward, right)], axis=-2)


def _direction(key: Key, shape: tuple[int, ...], longest: float | None = None) -> jax.Array:
    """f32[..., 3], evenly in all directions, of length one, or of any length up to `longest`."""
    unit = jax.random.uniform(key, (3, *shape))
    height, angle = 2 * unit[0] - 1, 2 * np.pi * unit[1]
    wide = jnp.sqrt(jnp.maximum(1 - jnp.square(height), 0))
    towards = jnp.stack([wide * jnp.cos(angle), wide * jnp.sin(angle), height], axis=-1)
    return towards if longest is None else towards * (unit[2] * longest)[..., None]


def _anywhere(key: Key, shape: tuple[int, ...]) -> jax.Array:
    """f32[..., 3], places within the field that are off all ramps."""
    unit = jax.random.uniform(key, (3, *shape), minval=-1.0)
    z = field.CEILING / 2 + unit[2] * (field.CEILING / 2 - 100)
    # ramps reach 256 uu into the field at the floor and 512 at the ceiling, the fillets of the corners 72
    margin = jnp.where(z < 356, 356.0, jnp.where(z > 1436, 612.0, 200.0))
    x, y = unit[0] * (field.SIDE - margin), unit[1] * (field.BACK - margin)
    shrink = jnp.minimum(1.0, (field.CORNER - 1.5 * margin) / jnp.maximum(jnp.abs(x) + jnp.abs(y), 1.0))
    return jnp.stack([x * shrink, y * shrink, z], axis=-1)


def _any_boost(key: Key, teams: Teams) -> jax.Array:
    return jax.random.uniform(key, (teams.seats,), maxval=100.0)


# ---- what the physics begins with -----------------------------------------------------------------------------------


def arena(start: Start, settings: PhysicsSettings, seed: jax.Array) -> Arena:
    """Returns the arena of a start; all pads are there, and cars that stand flat near the floor are on it."""
    standing = (start.position[:, 2] < 25) & (start.rotation[:, 2, 2] > 0.9)
    cars = cars_at(vec(start.position), axes(start.rotation), start.boost)
    cars = cars.replace(velocity=vec(start.velocity), angular_velocity=vec(start.spin), on_ground=standing)
    ball = Ball(vec(start.ball_position), vec(start.ball_velocity), vec(start.ball_spin))
    return arena_at(settings, ball, cars, seed)
