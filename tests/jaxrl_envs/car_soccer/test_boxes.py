"""Boxes that touch: every point equals a slow referee's, in its order, for boxes anyhow and nearly parallel faces."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer.physics.collision import boxcast
from jaxrl_envs.car_soccer.physics.collision.boxes import box_contacts
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec
from tests.jaxrl_envs.car_soccer.referee import car_soccer_boxes as referee

HALF, OFFSET = (60.19, 43.28, 19.26), (13.88, 0.0, 20.76)
BOUND = 0.02  # uu


def rotations(rng, count, size=None):
    """f64[count, 3, 3], uniform, or turned by about `size` rad."""
    q = rng.normal(size=(count, 4))
    if size is not None:
        q = np.concatenate([np.ones((count, 1)), q[:, 1:] * size / 2], 1)
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)


def turned(yaw):
    """f64[count, 3, 3], cars on the ground."""
    zero, one = np.zeros_like(yaw), np.ones_like(yaw)
    return np.array([[np.cos(yaw), np.sin(yaw), zero], [-np.sin(yaw), np.cos(yaw), zero], [zero, zero, one]]).transpose(
        2, 0, 1
    )


def pairs(kind, count):
    """Positions and axes of pairs, most of which touch."""
    rng = np.random.default_rng(5)
    apart = rng.normal(size=(count, 3))
    apart *= rng.uniform(20, 140, (count, 1)) / np.linalg.norm(apart, axis=1, keepdims=True)
    first, second = rotations(rng, count), rotations(rng, count)
    if kind != "any":
        yaw = rng.uniform(-np.pi, np.pi, count)
        other = (
            yaw
            + {"ground": rng.uniform(-np.pi, np.pi, count), "aligned": rng.integers(4, size=count) * np.pi / 2}[kind]
        )
        size = {"ground": 1e-3, "aligned": 1e-4}[kind]
        first, second = turned(yaw) @ rotations(rng, count, size), turned(other) @ rotations(rng, count, size)
        apart[:, 2] = rng.normal(size=count) * 0.1
    position = rng.uniform(-1, 1, (count, 3)) * (4000, 5000, 1000)
    return [np.float64(np.float32(x)) for x in (position, first, position + apart, second)]


def by_component(array):
    """f64[count, 3] -> Vec[1, count]."""
    return Vec(*(jnp.asarray(array[None, :, k], jnp.float32) for k in range(3)))


def rows(vector):
    """Vec[4, 1, count] -> f64[count, 4, 3]."""
    return np.float64(np.stack([vector.x[:, 0], vector.y[:, 0], vector.z[:, 0]], -1)).transpose(1, 0, 2)


@jax.jit
def touch(*bodies):
    return box_contacts(*bodies, HALF, OFFSET)


def differences(kind, count):
    """The greatest difference of any number of a contact, uu, for each pair; inf for another number of points."""
    position_a, axes_a, position_b, axes_b = pairs(kind, count)
    as_axes = lambda array: Axes(*(by_component(array[:, k]) for k in range(3)))  # noqa: E731
    points = touch(by_component(position_a), as_axes(axes_a), by_component(position_b), as_axes(axes_b))
    local, anchor, normal = rows(points.local), rows(points.anchor), rows(points.normal)
    gap, live = np.asarray(points.gap)[:, 0].T, np.asarray(points.live)[:, 0].T
    result, touching = np.zeros(count), 0
    for i in range(count):
        centre_a, centre_b = position_a[i] + OFFSET @ axes_a[i], position_b[i] + OFFSET @ axes_b[i]
        want = referee.box_contacts(centre_a, axes_a[i], centre_b, axes_b[i], np.array(HALF))
        touching += bool(want)
        if live[i].sum() != len(want):
            result[i] = np.inf
        elif want:
            on_a = local[i] @ axes_a[i] + position_a[i] - position_b[i]
            found = np.concatenate([anchor[i] @ axes_b[i], on_a, normal[i], gap[i, :, None]], 1)[live[i]]
            right = [
                (*(t.point - position_b[i]), *(t.point + t.gap * t.normal - position_b[i]), *t.normal, t.gap)
                for t in want
            ]
            result[i] = abs(found - np.array(right)).max()
    assert touching > count / 3
    return result


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["any", "ground", "aligned"])
def test_every_point(kind):
    found = differences(kind, 3_000)
    assert (found > BOUND).sum() <= 1  # a tie: of two points or axes that are equal up to rounding, the other was taken


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any", "ground", "aligned"])
def test_every_point_of_many(kind):
    assert (differences(kind, 60_000) > BOUND).mean() < 1e-3  # edges that are almost parallel cross anywhere


# ---- rays -----------------------------------------------------------------------------------------------------------


def as_rows(array):
    """f64[count, 3] -> Vec[count]."""
    return Vec(*(jnp.asarray(array[:, k], jnp.float32) for k in range(3)))


def random_rays(count, around):
    """f64[count, 3] twice: rays of a wheel's length that start within `around` uu of a box round the origin."""
    rng = np.random.default_rng(3)
    way = rng.normal(size=(count, 3))
    way *= 48.75 / np.linalg.norm(way, axis=1, keepdims=True)
    place = rng.uniform(-1, 1, (count, 3)) * (np.array(HALF) + around)
    return [np.float64(np.float32(x)) for x in (place, way)]


def test_rays_meet_a_box_where_the_referee_finds_it():
    place, way = random_rays(1_500, 30)
    far, normal = jax.jit(lambda *ray: boxcast.cast(*ray, HALF))(*(as_rows(x) for x in (place, way)))
    found = np.stack([far, normal.x, normal.y, normal.z], -1)
    hits = same = 0
    for ray, row in zip(zip(place, way, strict=True), found, strict=True):
        want = referee.cast_box(*ray, np.array(HALF))
        hits += want is not None
        same += want is not None and abs(row - (want[0], *want[1])).max() < 1e-3
    assert hits > 150
    assert same >= 0.85 * hits  # square to a face, rounding decides which corner comes next
    assert abs(np.isfinite(far).sum() - hits) < 0.05 * hits


@pytest.mark.parametrize("around", [30, 200])
def test_few_rays_are_cast_as_all(around):
    rays = [as_rows(x) for x in random_rays(2_000, around)]
    some, all_ = (jax.jit(lambda *ray, cast=cast: cast(*ray, HALF))(*rays) for cast in (boxcast.cast_few, boxcast.cast))
    hits = np.isfinite(all_[0])
    assert hits.any()
    for few, every in zip(jax.tree.leaves(some), jax.tree.leaves(all_), strict=True):
        np.testing.assert_allclose(few[hits], every[hits], atol=1e-5)
    assert not np.isfinite(some[0][~hits]).any()
