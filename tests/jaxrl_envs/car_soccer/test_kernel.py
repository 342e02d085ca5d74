"""The physics as a kernel does it, operation by operation on the CPU: the same bits as without a kernel.

XLA would compile minutes for the interpreter of such a kernel, and round fused products and sums otherwise; so nothing
is compiled, and all arenas are one block.
"""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer import actions
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.physics.bodies import controls_of
from jaxrl_envs.car_soccer.physics.tick import tick
from jaxrl_envs.car_soccer.physics.vector import Vec, axes
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.fused import kernel
from jaxrl_envs.shared.fused import trace as kernel_trace
from jaxrl_envs.shared.fused.memory import Indexing
from jaxrl_envs.shared.fused.rules import RULES
from jaxrl_envs.shared.fused.trace import KernelTrace, LaneArray, items_of

ARENAS = int(os.environ.get("KERNEL_ARENAS", "8"))
TOGETHER = 1024


def crowded(arena, rng):
    """Arenas with cars turned anyhow at walls, goals and corners, three of five beside each other; the ball near."""
    count, cars = arena.cars.position.x.shape

    def uniform(low, high, *shape):
        return rng.uniform(low, high, shape).astype(np.float32)

    def vector(*reach, shape):
        return Vec(*(jnp.asarray(uniform(-each, each, *shape)) for each in reach))

    side, wall = rng.choice([-1, 1], (count, 1)), rng.random((count, 1)) < 0.5
    along, across = uniform(-4500, 4500, count, cars), uniform(-3900, 3900, count, cars)
    x = np.where(wall, side * uniform(3950, 4080, count, cars), across)
    y = np.where(wall, along, side * uniform(4900, 5110, count, cars))
    z = uniform(10, 400, count, cars)
    near = rng.random((count, 1)) < 0.6
    x, y, z = (
        np.where(near, each[:, :1] + uniform(-r, r, count, cars), each) for each, r in ((x, 70), (y, 70), (z, 30))
    )
    turned = np.linalg.qr(rng.normal(size=(count, cars, 3, 3)))[0]
    turned[..., 2, :] *= np.sign(np.linalg.det(turned))[..., None]
    place, shape = [each.astype(np.float32) for each in (x, y, z)], (count, cars)
    ball = [each[:, 0] + uniform(-150, 150, count) for each in place]
    return arena.replace(
        cars=arena.cars.replace(
            position=Vec(*map(jnp.asarray, place)),
            axes=axes(jnp.asarray(turned, jnp.float32)),
            velocity=vector(1500, 1500, 900, shape=shape),
        ),
        ball=arena.ball.replace(position=Vec(*map(jnp.asarray, ball)), velocity=vector(900, 900, 900, shape=(count,))),
    )


def in_kernel(function, *arguments):
    """`function` of one arena for all arenas, by the operations of its kernel."""
    leaves, tree = jax.tree.flatten(arguments)
    count, forms = leaves[0].shape[0], [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    with kernel._tracing():
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(tree, forms))
    tables = {id(table): jnp.ravel(table) for table in kernel._tables(closed)}
    trace = KernelTrace(RULES, count, tables, Indexing())
    values = [LaneArray(form.shape, list(leaf.reshape(count, -1).T)) for form, leaf in zip(forms, leaves, strict=True)]
    with jax.disable_jit():
        found = [[np.asarray(trace.vector(item)) for item in items_of(each)] for each in trace.call(closed, values)]
    rows = [np.stack(each, -1) if each else np.zeros((count, 0)) for each in found]
    return jax.tree.unflatten(jax.tree.structure(shapes), rows)


@pytest.mark.slow
def test_ticks_in_a_kernel_are_those_without(monkeypatch):
    """A random tick after another of each arena: cars and ball in contact with the arena and with each other."""
    monkeypatch.setattr(kernel_trace, "LARGEST", 1 << 40)  # here each round of a loop counts
    env = CarSoccer(teams=(1, 1), setters={"random": 1.0, "kickoff": 0.3}, iterations=4)
    rng = np.random.default_rng(1)
    count, touches = min(TOGETHER, ARENAS), 0
    first = jax.jit(jax.vmap(env.init))(jax.random.split(prng.fast_key(1), count)).game.arena

    def advance(arena, controls):
        arena, controls = jax.tree.map(lambda leaf: leaf[..., None], (arena, controls))
        after = tick(env.geometry, env.settings, arena, controls_of(controls))
        return jax.tree.map(lambda leaf: leaf[..., 0], after)

    def all_of(arena, controls):
        arena, controls = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), (arena, controls))
        after = tick(env.geometry, env.settings, arena, controls_of(controls))
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), after)

    for _ in range(-(-ARENAS // count)):
        arena = crowded(first, rng)
        controls = jnp.asarray(actions.TABLE)[rng.integers(0, len(actions.TABLE), (count, 2))]
        with jax.disable_jit():
            expected = all_of(arena, controls)
        found = in_kernel(advance, arena, controls)
        for (path, old), new in zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(found), strict=True):
            np.testing.assert_array_equal(np.asarray(old).reshape(new.shape), new, err_msg=jax.tree_util.keystr(path))
        touches += int(np.asarray(expected.cars.world_contact).sum())
    assert touches > count / 10
