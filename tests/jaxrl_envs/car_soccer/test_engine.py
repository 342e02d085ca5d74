"""The engine of car soccer in random moments of play.

It equals the referee, mirrored states have mirrored futures, lanes do not know of each other.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxrl_envs.car_soccer import golden
from jaxrl_envs.car_soccer.physics.field import pads
from jaxrl_envs.car_soccer.physics.settings import PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena, Ball
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec
from scripts.car_soccer_recordings import FOLDER
from tests.jaxrl_envs.car_soccer.referee import car_soccer as referee
from tests.support.car_soccer_states import crowds, engine, played, random_controls, to_referee, vector

pytestmark = pytest.mark.thorough

LANES = 200  # of every quick test: one program


def differences(teams: tuple[int, ...], count: int, length: int, seed: int) -> np.ndarray:
    """From random moments of play on, the greatest difference between engine and referee after each tick: of positions
    uu, of velocities uu/s, and the number of flags that differ; f64[count, length, 3].
    """
    settings, rng = PhysicsSettings(teams=teams), np.random.default_rng(seed)
    arenas = played(settings, crowds(rng, count, teams), rng, 1)
    controls = random_controls(rng, (count, len(teams)))
    states = [arenas]
    for _ in range(length):
        states.append(jax.device_get(engine(settings, 1)(states[-1], controls)))
    result = np.zeros((count, length, 3))
    for lane in range(count):
        slow = to_referee(settings, jax.tree.map(lambda leaf, lane=lane: leaf[lane], arenas))
        for tick in range(length):
            slow.step(np.float64(controls[lane]))
            fast = jax.tree.map(lambda leaf, lane=lane: leaf[lane], states[tick + 1])
            result[lane, tick] = difference(fast, slow)
    return result


def difference(fast, slow: referee.Arena) -> tuple[float, float, int]:
    cars = [(number, car) for number, car in enumerate(slow.cars) if not car.is_demoed]
    bodies = [(fast.ball, (), slow.ball), *((fast.cars, number, car) for number, car in cars)]
    place = max(abs(vector(body.position, n) - right.position).max() for body, n, right in bodies)
    speed = max(abs(vector(body.velocity, n) - right.velocity).max() for body, n, right in bodies)
    names = (
        "on_ground",
        "has_double_jumped",
        "is_boosting",
        "is_auto_flipping",
        "is_demoed",
        "world_contact",
        "bumped_car",
    )
    names += ("jump_held", "hit_tick", "is_jumping", "has_jumped", "has_flipped", "is_flipping", "is_supersonic")
    flags = sum(getattr(fast.cars, name)[n] != getattr(car, name) for name in names for n, car in enumerate(slow.cars))
    timers = (
        "boost",
        "air_time",
        "boosting_time",
        "supersonic_time",
        "handbrake",
        "bump_cooldown",
        "jump_time",
        "flip_time",
        "air_time_since_jump",
    )
    flags += sum(
        abs(getattr(fast.cars, x)[n] - getattr(car, x)) > 1e-3 for x in timers for n, car in enumerate(slow.cars)
    )
    return (
        place,
        speed,
        flags + (fast.pads.lock != slow.lock).sum() + (abs(fast.pads.cooldown - slow.cooldown) > 1e-3).sum(),
    )


def check(found: np.ndarray, share: float) -> None:
    """Nearly all situations agree to rounding, on the first tick and still after the last."""
    assert (found[:, 0, 0] < 0.002).mean() >= share
    assert (found[:, 0, 1] < 0.1).mean() >= share
    assert (found[:, -1, 0] < 0.05).mean() >= share
    assert (found[..., 2].max(1) == 0).mean() >= share


def test_engine_equals_referee() -> None:
    check(differences((0, 1), LANES, 4, seed=1), 0.95)


def test_two_cars_that_meet() -> None:
    """As recorded, one encounter after the other in the lanes; but head on, where a wheel passes above the wreck."""
    settings = PhysicsSettings(teams=(0, 1))
    recorded = golden.read(FOLDER / "encounters.json.gz")
    records = [each for name, each in recorded.items() if each["meta"]["teams"] == [0, 1] and name != "meets_head_on"]
    lanes = [records[lane % len(records)] for lane in range(LANES)]
    arenas = jax.tree.map(lambda *leaves: np.stack(leaves), *(golden.start(settings, each) for each in lanes))
    pressed = np.stack([golden.controls(each, 2, 440) for each in lanes])
    for tick in range(440):
        arenas = engine(settings, 1)(arenas, pressed[:, tick])
        for lane, record in enumerate(records):
            if tick + 1 in record["ticks"]:
                state = record["states"][record["ticks"].index(tick + 1)]
                right = np.array([car["pos"] for car in state["cars"]])
                assert abs(np.asarray(arenas.cars.position.array[lane]) - right).max() < 0.05, (lane, tick)


@pytest.mark.slow
@pytest.mark.parametrize("teams", [(0,), (0, 1), (0, 0, 1, 1)])
def test_engine_equals_referee_in_thousands(teams) -> None:
    check(differences(teams, 3_000, 4, seed=2), 0.95)


# ---- symmetry -------------------------------------------------------------------------------------------------------


def moved_pads(x: int, y: int) -> np.ndarray:
    """i64[34]: which pad lies where each pad comes to lie."""
    places = pads.POSITIONS.tolist()
    return np.array([places.index([x * a, y * b, c]) for a, b, c in places])


def mirrored(arena: Arena) -> Arena:
    """Left and right exchanged: x of the world, y of every car."""
    way = lambda v: Vec(-v.x, v.y, v.z)  # noqa: E731
    spin = lambda v: Vec(v.x, -v.y, -v.z)  # noqa: E731
    cars, ball, other = arena.cars, arena.ball, moved_pads(-1, 1)
    wheels = jax.tree.map(lambda leaf: leaf[..., [1, 0, 3, 2]] if leaf.ndim == 3 else leaf, cars.wheels)
    return arena.replace(
        ball=Ball(way(ball.position), way(ball.velocity), spin(ball.angular_velocity)),
        cars=cars.replace(
            position=way(cars.position),
            velocity=way(cars.velocity),
            angular_velocity=spin(cars.angular_velocity),
            axes=Axes(way(cars.axes.forward), -way(cars.axes.right), way(cars.axes.up)),
            flip_torque=Vec(-cars.flip_torque.x, cars.flip_torque.y, -cars.flip_torque.z),
            auto_flip_direction=-cars.auto_flip_direction,
            world_contact_normal=way(cars.world_contact_normal),
            wheels=wheels.replace(steer=-wheels.steer),
        ),
        pads=jax.tree.map(lambda leaf: leaf[:, other], arena.pads),
    )


def rotated(arena: Arena) -> Arena:
    """Everything turned by half a turn about the middle of the field."""
    is_vector = lambda leaf: isinstance(leaf, Vec)  # noqa: E731
    turn = lambda leaf: Vec(-leaf.x, -leaf.y, leaf.z) if is_vector(leaf) else leaf  # noqa: E731
    own = arena.cars.flip_torque  # in the car's axes
    arena = jax.tree.map(turn, arena, is_leaf=is_vector)
    other = moved_pads(-1, -1)
    return arena.replace(
        cars=arena.cars.replace(flip_torque=own), pads=jax.tree.map(lambda leaf: leaf[:, other], arena.pads)
    )


@pytest.mark.parametrize(("change", "signs"), [(mirrored, (1, -1, 1, -1, -1, 1, 1, 1)), (rotated, (1,) * 8)])
def test_symmetric_futures(change, signs) -> None:
    """Up to rounding; but two boxes that meet have their points solved in another order, and a ball in a fillet keeps
    others of the triangles that it touches.
    """
    settings, rng = PhysicsSettings(teams=(0, 1)), np.random.default_rng(4)
    arenas = played(settings, crowds(rng, LANES, settings.teams), rng, 1)
    one, other = arenas, jax.device_get(change(arenas))
    for _ in range(4):
        controls = random_controls(rng, (LANES, 2))
        one = engine(settings, 1)(one, controls)
        other = engine(settings, 1)(other, controls * np.float32(signs))
    one = change(jax.device_get(one))
    near = np.ones(LANES, bool)
    for name, bound in (("position", 0.01), ("velocity", 0.2), ("angular_velocity", 0.01)):
        for body in ("ball", "cars"):
            a, b = (np.asarray(getattr(getattr(arena, body), name).array) for arena in (one, other))
            near &= abs(a - b).reshape(LANES, -1).max(-1) < bound
    assert near.mean() >= 0.9
    first, second = np.moveaxis(np.asarray(other.cars.position.array), 1, 0)
    apart = np.linalg.norm(first - second, axis=-1) > 200
    assert apart.sum() > 50 and near[apart].mean() >= 0.98
    near = (one.pads.lock == other.pads.lock).all(-1) & (one.cars.on_ground == other.cars.on_ground).all(-1)
    assert near.mean() >= 0.97


def test_lanes_do_not_know_of_each_other() -> None:
    settings, rng = PhysicsSettings(teams=(0, 1)), np.random.default_rng(6)
    arenas, controls = crowds(rng, LANES, settings.teams), random_controls(rng, (LANES, 2))
    others, order = crowds(rng, LANES, settings.teams), rng.permutation(LANES)
    kept = np.arange(LANES) < LANES // 2  # half of them, elsewhere in the batch, among other arenas
    mixed = jax.tree.map(lambda a, b: np.where(kept.reshape(-1, *[1] * (a.ndim - 1)), a, b)[order], arenas, others)
    one, other = (
        played_one(settings, arena, control, 8) for arena, control in ((arenas, controls), (mixed, controls[order]))
    )
    back = np.argsort(order)[: LANES // 2]
    same = jax.tree.map(lambda a, b: bool((a[: LANES // 2] == b[back]).all()), one, other)
    assert all(jax.tree.leaves(same)), same


def played_one(settings: PhysicsSettings, arenas: Arena, controls: np.ndarray, length: int) -> Arena:
    for _ in range(length):
        arenas = engine(settings, 1)(arenas, controls)
    return jax.device_get(arenas)
