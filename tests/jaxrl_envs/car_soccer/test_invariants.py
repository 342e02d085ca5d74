"""What holds in car soccer whatever is played: ten million ticks of random play in crowds.

No number is lost, nothing leaves the arena or gets faster than it may, and results do not depend on how many arenas are
computed together, nor, but for rounding, on how many devices. The figures stand in docs/games/car_soccer_physics.md.
"""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.settings import HITBOXES, PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena
from jaxrl_envs.car_soccer.physics.tick import ticks
from tests.support.car_soccer_states import crowds, engine, played, random_controls

LANES = 200
RADIUS = 91.25
BALL_OUT = 50.0  # uu, of the ball's surface: what it flies in a tick at its highest speed
CORNER_OUT = 200.0  # uu, of a car's corner, in crowds that press a car into a corner of the arena
SLACK, SELDOM = 20.0, 1e-3  # uu beyond which a car's corner is seldom outside, and in what share of arenas and times


def corners(arenas: Arena) -> np.ndarray:
    """f32[N, P, 8, 3], of all cars' boxes."""
    box = HITBOXES["octane"]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, 8).T
    local = np.array(box.offset) + signs * box.half
    cars = arenas.cars
    return np.asarray(cars.position.array)[..., None, :] + local @ np.asarray(cars.axes.array)


def outside(points: np.ndarray, radius: float) -> np.ndarray:
    """How far balls of a radius are outside of field and goals, uu, from f32[..., 3]; 0 inside."""
    x, y, z = np.moveaxis(np.abs(points), -1, 0)
    low = radius - points[..., 2]
    field = np.max([x - 4096 + radius, y - 5120 + radius, (x + y - 8064) / np.sqrt(2) + radius], axis=0)
    goal = np.max([x - 893 + radius, y - 6000 + radius, z - 643 + radius], axis=0)
    return np.max([np.minimum(field, goal), low, z - 2048 + radius, 0 * z], axis=0)


def check_limits(arenas: Arena) -> np.ndarray:
    """How far corners of cars are outside, uu, f32[N]."""
    for leaf in jax.tree.leaves(arenas):
        assert np.isfinite(leaf).all()
    cars, ball = arenas.cars, arenas.ball
    length = lambda vector: np.linalg.norm(np.asarray(vector.array), axis=-1)  # noqa: E731
    spin = np.where(cars.is_demoed, 0, length(cars.angular_velocity))  # a car is taken off the field before the limit
    assert length(cars.velocity).max() <= 2300.1 and spin.max() <= 5.501
    assert length(ball.velocity).max() <= 6000.1 and length(ball.angular_velocity).max() <= 6.001
    assert (cars.boost >= 0).all() and (cars.boost <= 100).all()
    centres = np.asarray(ball.position.array)
    assert outside(centres, 0).max() == 0 and outside(centres, RADIUS).max() < BALL_OUT
    deepest = outside(corners(arenas), 0).max(axis=(1, 2))
    assert deepest.max() < CORNER_OUT
    return deepest


@pytest.mark.thorough
def test_limits() -> None:
    settings, rng = PhysicsSettings(teams=(0, 1)), np.random.default_rng(8)
    check_limits(played(settings, crowds(rng, LANES, settings.teams), rng, 8))


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize(("teams", "calls"), [((0, 1), 900), ((0, 0, 1, 1), 250), ((0, 0, 0, 1, 1, 1), 100)])
def test_ten_million_ticks(teams, calls) -> None:
    """1,000 arenas, checked every 8 ticks and restarted every 5 s."""
    settings, rng = PhysicsSettings(teams=teams), np.random.default_rng(9)
    far = 0
    for call in range(calls):
        if call % 75 == 0:
            arenas = crowds(rng, 1000, teams)
        arenas = jax.device_get(engine(settings, 8)(arenas, random_controls(rng, (1000, len(teams)))))
        far += int((check_limits(arenas) > SLACK).sum())
    assert far / (calls * 1000) < SELDOM


# ---- how it is computed ---------------------------------------------------------------------------------------------

TIMES, ELSEWHERE = 4, 0.1  # calls of 8 ticks; uu


def parted(arenas: Arena, controls: np.ndarray, devices: int) -> Arena:
    """`TIMES` calls over several devices, as trainings share arenas out."""
    lanes = Spec("lanes")
    mesh = Mesh(np.array(jax.devices()[:devices]), ("lanes",))
    one = jax.vmap(lambda arena, pressed: ticks(world.own(), PhysicsSettings(), arena, pressed, 8))
    run = jax.jit(jax.shard_map(one, mesh=mesh, in_specs=(lanes, lanes), out_specs=lanes, check_vma=False))
    for _ in range(TIMES):
        arenas = run(arenas, controls)
    return jax.device_get(arenas)


def compare_parts() -> None:
    """Prints how many numbers of 256 arenas differ if they are two batches, and in how many arenas a body is elsewhere,
    by more than `ELSEWHERE`, if two devices compute them."""
    rng = np.random.default_rng(7)
    arenas, controls = crowds(rng, 256, (0, 1)), random_controls(rng, (256, 2))
    whole = parted(arenas, controls, 1)
    halves = [
        parted(jax.tree.map(lambda leaf, at=at: leaf[at], arenas), controls[at], 1)
        for at in (slice(128), slice(128, 256))
    ]
    batches = jax.tree.map(lambda *leaves: np.concatenate(leaves), *halves)
    print(sum(int((a != b).sum()) for a, b in zip(*map(jax.tree.leaves, (whole, batches)), strict=True)))
    one, two = (
        [state.ball.position.array, state.cars.position.array] for state in (whole, parted(arenas, controls, 2))
    )
    apart = [np.abs(np.asarray(a) - np.asarray(b)).reshape(256, -1).max(1) for a, b in zip(one, two, strict=True)]
    print(int((np.max(apart, axis=0) > ELSEWHERE).sum()))


@pytest.mark.slow
def test_batches_and_devices_make_no_difference() -> None:
    """Batches bit by bit; two devices have a program of their own, which rounds by itself: after 32 ticks in crowds a
    body is elsewhere in few of 256 arenas. A process of its own has two devices."""
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_extra_options=xla_cpu_use_multi_output_fusion"
    done = subprocess.run(
        [sys.executable, "-c", "from tests.jaxrl_envs.car_soccer import test_invariants as t; t.compare_parts()"],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    bits, arenas = map(int, done.stdout.split())
    assert bits == 0 and arenas <= 8
