"""Rays that meet boxes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer.physics.collision import boxcast
from jaxrl_envs.car_soccer.physics.vector import Vec

HALF = (60.19, 43.28, 19.26)


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


@pytest.mark.parametrize("around", [30, 200])
def test_few_rays_are_cast_as_all(around):
    rays = [as_rows(x) for x in random_rays(2_000, around)]
    some, all_ = (jax.jit(lambda *ray, cast=cast: cast(*ray, HALF))(*rays) for cast in (boxcast.cast_few, boxcast.cast))
    hits = np.isfinite(all_[0])
    assert hits.any()
    pairs = zip(jax.tree.leaves(some), jax.tree.leaves(all_), strict=True)
    apart = np.max([np.abs(few - every)[hits] for few, every in pairs], axis=0)
    # Two corners equally near: rounding decides which is kept, and differs between the two programs on newer jax.
    assert (apart < 1e-5).mean() >= 0.95 and np.abs(some[0] - all_[0])[hits].max() < 0.1
    assert not np.isfinite(some[0][~hits]).any()
