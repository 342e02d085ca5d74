"""Random states of play for the tests of car soccer."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.field.spawn import arena_at, cars_at
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball
from jaxrl_envs.car_soccer.physics.tick import ticks
from jaxrl_envs.car_soccer.physics.vector import axes, vec


def random_controls(rng, shape):
    """Returns f32[*shape, 8], random controls: often full throttle and boost, otherwise uniform."""
    controls = rng.integers(-1, 2, (*shape, 8)).astype(np.float32)
    controls[..., 5:] = rng.random((*shape, 3)) < (0.2, 0.5, 0.15)
    controls[..., 0] = np.where(rng.random(shape) < 0.7, 1, controls[..., 0])
    return controls


def crowds(rng, count, teams):
    """`count` arenas with all cars close to the ball at a random place: NumPy leaves [count, ...]."""
    players = len(teams)
    middle = rng.uniform(-1, 1, (count, 1, 3)) * (4400, 5600, 0)
    middle[..., 2] = np.where(rng.random((count, 1)) < 0.6, 0, rng.uniform(0, 1900, (count, 1)))
    place = middle + rng.uniform(-1, 1, (count, players + 1, 3)) * (180, 180, 130)
    place = np.clip(place, (-3900, -4900, 0), (3900, 4900, 1650))  # ramps lead to walls and ceiling
    corner = (abs(place[..., :2]).sum(-1) - 7600).clip(0) / 2  # out of the corners that are cut off
    place[..., :2] -= np.sign(place[..., :2]) * corner[..., None]
    place[:, 0, 2] += 110
    upright = rng.random((count, players)) < 0.6
    yaw = rng.uniform(-np.pi, np.pi, (count, players))
    zero, one = np.zeros_like(yaw), np.ones_like(yaw)
    level = np.stack([np.cos(yaw), np.sin(yaw), zero, -np.sin(yaw), np.cos(yaw), zero, zero, zero, one], -1)
    anyhow = np.linalg.qr(rng.normal(size=(count, players, 3, 3)))[0]
    anyhow *= np.linalg.det(anyhow)[..., None, None]
    turned = np.where(upright[..., None, None], level.reshape(count, players, 3, 3), anyhow)
    on_floor = upright & (place[:, 1:, 2] < 300)
    place[:, 1:, 2] = np.where(on_floor, 17, place[:, 1:, 2] + 80)
    speed = rng.normal(size=(count, players + 1, 3)) * 500 + (middle - place) * rng.uniform(0, 6, (count, 1, 1))
    speed[:, 1:] = np.where(
        on_floor[..., None], turned[..., 0, :] * rng.uniform(-500, 2290, (count, players, 1)), speed[:, 1:]
    )
    speed *= np.minimum(1, 2290 / np.linalg.norm(speed, axis=-1, keepdims=True))
    spin = np.where(on_floor[..., None], 0, rng.normal(size=(count, players, 3)).clip(-2, 2) * 1.5)

    def begin(place, speed, turned, spin, boost, ball_spin):
        cars = cars_at(vec(place[1:]), axes(turned), boost).replace(velocity=vec(speed[1:]), angular_velocity=vec(spin))
        ball = Ball(vec(place[0]), vec(speed[0]), vec(ball_spin))
        return arena_at(PhysicsSettings(teams=teams), ball, cars, jnp.uint32(1))

    boost, ball_spin = rng.uniform(0, 100, (count, players)), rng.normal(size=(count, 3))
    numbers = [np.float32(x) for x in (place, speed, turned, spin, boost, ball_spin)]
    return jax.device_get(jax.vmap(begin)(*numbers))


@functools.cache
def engine(settings: PhysicsSettings, count: int):
    """Returns the compiled engine: arenas [N, ...], controls f32[N, P, 8] -> arenas `count` ticks later."""
    return jax.jit(jax.vmap(lambda arena, controls: ticks(world.own(), settings, arena, controls, count)))


def played(settings: PhysicsSettings, arenas: Arena, rng, length: int) -> Arena:
    """Arenas after `length` random actions, each held for 8 ticks with one call per tick."""
    count = arenas.tick.shape[0]
    for _ in range(length):
        controls = random_controls(rng, (count, settings.cars))
        for _ in range(8):
            arenas = engine(settings, 1)(arenas, controls)
    return jax.device_get(arenas)
