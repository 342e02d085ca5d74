"""Functions of one lane as kernels: interpreted, they give what `jax.vmap` gives, bit by bit."""

from __future__ import annotations

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxrl_envs.beasty_bar.env import BeastyBar
from jaxrl_envs.car_soccer.physics.field.arena import own, rays
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.vector import vec
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.fused.kernel import fused, fused_if_possible, inside_kernel
from jaxrl_envs.skull_king.env import SkullKing

GAMES = int(os.environ.get("KERNEL_GAMES", "10000"))  # of each card game in the slow test, by tens of thousands
TOGETHER = 10_000
LANES = 70  # two blocks of 32 lanes and a part of a third


def words(tree):
    """The leaves as NumPy arrays; random keys by words."""
    is_key = lambda leaf: jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for leaf in jax.tree.leaves(tree)]


def check(function, *arguments):
    """Checks a function of one lane against `jax.vmap`."""
    expected, found = jax.jit(jax.vmap(function))(*arguments), jax.jit(fused(function, interpret=True))(*arguments)
    assert jax.tree.structure(expected) == jax.tree.structure(found)
    for old, new in zip(words(expected), words(found), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        np.testing.assert_array_equal(old, new)


def numbers(*shape, below=100):
    return jnp.asarray(np.random.default_rng(0).integers(-below, below, (LANES, *shape)), jnp.int32)


TABLE = np.random.default_rng(1).integers(0, 1000, 300).astype(np.int16)


def collatz(n, small):
    """Loops that end by data, one inside the other, and a branch that few lanes take."""

    def halved(n):
        return lax.while_loop(lambda n: n % 2 == 0, lambda n: n // 2, n)

    def step(carry):
        n, count = carry
        return lax.cond(n % 2 == 0, halved, lambda n: 3 * n + 1, n), count + 1

    last, count = lax.while_loop(lambda carry: carry[0] > 1, step, (jnp.abs(n) + 1, 0))
    return count, last, lax.switch(n % 3, [lambda: small, lambda: small + 1, lambda: small[::-1]]), n > 0


def indexing(n, small):
    at = n % 6
    looked_up = jnp.asarray(TABLE)[jnp.abs(n) * 2], jnp.asarray(TABLE)[jnp.arange(3) + at], small[at], small[n]
    table = small.reshape(2, 3)
    changed = small.at[at].set(7), small.at[n].add(n, mode="drop"), table.at[:, at % 3].add(1)
    slices = lax.dynamic_slice(table, (n, n), (1, 2)), lax.dynamic_update_slice(small, jnp.int32([1, 2]), (at,))
    return looked_up, changed, slices, jnp.take_along_axis(table, table % 3, axis=1)


def along_axes(n, small):
    table = jnp.stack([small.reshape(2, 3), n + small.reshape(2, 3)])
    sums = table.sum(1), table.max((0, 2)), jnp.cumsum(small), lax.cummax(small, reverse=True), (table > n).any()
    places = jnp.argmax(table, axis=2), jnp.argmin(small), jnp.searchsorted(jnp.arange(6), small)
    moves = jnp.flip(table, 1).transpose(2, 0, 1), jnp.pad(small, (1, 2)), jnp.roll(small, 2), table[:, ::2]
    return sums, places, moves, functools.reduce(jnp.bitwise_xor, small), lax.reduce(small, 0, lax.bitwise_or, (0,))


def loops(n, small):
    counted = lax.fori_loop(0, 5, lambda i, x: x + i * n, 0)
    total, rows = lax.scan(lambda total, row: (total + row, total * row), n, small)
    return counted, total, rows, lax.scan(lambda t, row: (t * 3 + row, t), n, small, reverse=True)


def bits(n, small):
    word = n.astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
    counts = lax.population_count(word), lax.clz(word), (word >> 3) & (word << 5), ~word % 7, word // 3
    narrow = n.astype(jnp.int8), n.astype(jnp.uint8) >> 1, n.astype(jnp.int16), (small > n) | (small == n), -n // 7
    return counts, narrow, jnp.float32(n) / 3, jnp.floor(n / 4), jnp.clip(n, -5, 5), jnp.sign(n), lax.rem(n, 7)


@pytest.mark.parametrize("function", [collatz, indexing, along_axes, loops, bits])
def test_a_kernel_gives_what_vmap_gives(function):
    check(function, numbers(), numbers(6, below=10))


@pytest.mark.parametrize("seed", [prng.fast_key, jax.random.key])
def test_random_keys(seed):
    def draws(key, n):
        first, second = jax.random.split(key)
        return (
            jax.random.bits(first, (3,)),
            jax.random.fold_in(second, n),
            jax.random.uniform(second),
            jax.random.randint(key, (), 0, 9),
        )

    keys = jax.random.split(seed(3), LANES)
    if seed is prng.fast_key:
        check(draws, keys, numbers())
    else:
        with pytest.raises(NotImplementedError, match="threefry"):
            fused(draws, interpret=True)(keys, numbers())


def test_what_is_passed_through_stays_and_what_surrounds_the_kernel_is_read():
    def outer(offset, small):
        return fused(lambda n, row: (n + offset.sum(), row), interpret=True)(numbers(), small)

    moved, small = jax.jit(outer)(jnp.arange(40), numbers(3))
    np.testing.assert_array_equal(moved, numbers() + 780)
    np.testing.assert_array_equal(small, numbers(3))
    assert "swap" not in str(jax.make_jaxpr(fused(lambda n: n, interpret=True))(numbers()))


def test_what_a_kernel_lacks_runs_as_many_kernels(caplog):
    function = lambda row: jnp.sort(row)  # noqa: E731
    with pytest.raises(NotImplementedError, match="a kernel has no sort"):
        fused(function, interpret=True)(numbers(3))
    np.testing.assert_array_equal(fused_if_possible(function)(numbers(3)), jnp.sort(numbers(3), axis=1))
    assert "a kernel has no sort" in caplog.text


def test_functions_know_that_they_are_traced_for_a_kernel():
    seen = []
    fused(lambda n: (seen.append(inside_kernel()), n)[1], interpret=True)(numbers())
    assert seen == [True] and not inside_kernel()


# ---- games ----------------------------------------------------------------------------------------------------------


def play(env, lanes, steps, block, deals=1):
    """Random play of all lanes, through the kernel and without it: every leaf is the same in every step.

    Returns how many games ended within these steps, of `deals` for each lane, one after the other.
    """
    step, kernel = jax.jit(jax.vmap(env.step)), jax.jit(fused(env.step, block=block, interpret=True))
    init, act = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.random_action))
    fold, over = jax.jit(jax.vmap(jax.random.fold_in, (0, None))), 0
    for deal in range(deals):
        keys = jax.random.split(prng.fast_key(5 + deal), lanes)
        state = init(keys)
        for turn in range(steps):
            keys = fold(keys, turn)
            action = act(state, keys)
            new, found = step(state, action, keys), kernel(state, action, keys)
            for one, other in zip(words(new), words(found), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{env.id}, deal {deal}, step {turn}")
            state = new
        over += int(state.terminated.sum())
    return over


def test_lanes_that_need_work_are_gathered_one_by_one():
    def function(n, small):
        needs = jnp.stack([small > n, small < n - 5])
        return gathered(
            needs, (small.astype(jnp.float32), jnp.arange(6)), lambda lane: lane[0] * 2 + lane[1], needs[0] * 0.5
        )

    check(function, numbers(below=10), numbers(6, below=10))


@pytest.mark.thorough
def test_rays_of_car_soccer_hit_the_same_triangles_in_a_kernel():
    rng = np.random.default_rng(2)
    where = rng.uniform((3900, -5000, 5), (4090, 5000, 200), (LANES, 4, 3)).astype(np.float32)  # by the curved ramp
    way = rng.normal(size=(LANES, 4, 3)).astype(np.float32)
    way /= np.linalg.norm(way, axis=-1, keepdims=True)

    def function(where, way):
        return rays(own(), vec(where[..., None, :]), vec(way[..., None, :]), jnp.float32(50))

    expected, found = jax.vmap(function)(where, way), jax.jit(fused(function, interpret=True))(where, way)
    assert np.isfinite(expected[0]).sum() > 20
    for one, other in zip(words(expected), words(found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.thorough
def test_beasty_bar_in_a_kernel():
    assert play(BeastyBar(), 200, 60, 64) == 200


@pytest.mark.slow
@pytest.mark.parametrize(("env", "steps"), [(BeastyBar(), 60), (SkullKing(), 350)], ids=["beasty_bar", "skull_king"])
def test_many_games_in_a_kernel(env, steps):
    deals = -(-GAMES // TOGETHER)
    assert play(env, TOGETHER, steps, TOGETHER, deals) == deals * TOGETHER
