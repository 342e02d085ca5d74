"""Spatial grid of cubes over the arena, each with a list of its triangles.

A lane of a batch (one ball, one wheel) is seldom near any triangle, and reading sixteen of them costs more than the
rest of a tick. So lanes are asked first whether their cell lists anything, and only those that are near some are
gathered, a chunk at a time, and go through their lists (`near`). The planes of most triangles of a list are out of
reach, which four numbers tell: only the others are read whole.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.car_soccer.physics.collision.triangles import Triangles
from jaxrl_envs.car_soccer.physics.gather import gathered
from jaxrl_envs.car_soccer.physics.vector import Vec

CELL = 64.0  # uu
AT_ONCE, BITS = 8, 32  # triangles of a list that are asked about together; a word of answers
LENGTHS = (0, 8, 16, 32, 1 << 14)  # of lists: lanes whose lists are about as long go together


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """Lists of the triangles that come within `reach` of a cell.

    Attributes:
      low: the least coordinates of the first cell; shape: cells along x, y and z.
      cells: i32[cells], where in `lists` a cell's list begins: 0 is the empty one.
      lists: i16[L], each list as its length, then the triangles. longest: the greatest length.
    """

    low: tuple[float, float, float]
    shape: tuple[int, int, int]
    cells: np.ndarray
    lists: np.ndarray
    longest: int

    def find(self, place: Vec) -> jax.Array:
        """i32: where in `lists` the list of a place begins; places outside of the grid have that of its rim."""
        index = jnp.zeros(place.x.shape, jnp.int32)
        for coordinate, low, count in zip((place.x, place.y, place.z), self.low, self.shape, strict=True):
            cell = jnp.floor((coordinate - low) * (1 / CELL)).astype(jnp.int32)
            index = index * count + jnp.clip(cell, 0, count - 1)
        return jnp.asarray(self.cells).at[index].get(mode="promise_in_bounds")


def build(triangles: Triangles, reach: float) -> Grid:
    """Returns the grid over all triangles (NumPy leaves)."""
    corners = np.stack([np.stack([c.x, c.y, c.z], -1) for c in triangles.corners], 1).astype(np.float64)  # [N, 3, 3]
    normals = np.stack([triangles.normal.x, triangles.normal.y, triangles.normal.z], -1).astype(np.float64)
    low = corners.min((0, 1)) - reach
    shape = np.ceil((corners.max((0, 1)) + reach - low) / CELL).astype(int)
    found = _cells_near(corners, normals, low, shape, reach)
    cell = np.concatenate(found)
    order = np.argsort(cell, kind="stable")
    where, first, length = np.unique(cell[order], return_index=True, return_counts=True)
    cells = np.zeros(shape.prod(), np.int32)
    lists, places, size = [np.zeros(1, np.int16)], {}, 1
    listed = np.repeat(np.arange(len(corners)), [len(near) for near in found])[order].astype(np.int16)
    for place, start, count in zip(where.tolist(), first.tolist(), length.tolist(), strict=True):
        members = listed[start : start + count]
        key = members.tobytes()
        if key not in places:  # most cells along a wall have the same list as their neighbours
            places[key] = size
            lists += [np.array([count], np.int16), members]
            size += 1 + count
        cells[place] = places[key]
    return Grid(tuple(low.tolist()), tuple(shape.tolist()), cells, np.concatenate(lists), int(length.max(initial=1)))


def _cells_near(
    corners: np.ndarray, normals: np.ndarray, low: np.ndarray, shape: np.ndarray, reach: float
) -> list[np.ndarray]:
    """For each triangle the numbers of the cells that it comes within reach of, and of a few more at its corners: those
    that none of its faces (the two sides, and three walls that stand on its edges) has beyond reach.
    """
    walls = np.cross(np.roll(corners, -1, axis=1) - corners, normals[:, None])
    walls /= np.linalg.norm(walls, axis=2, keepdims=True)
    faces = np.concatenate([normals[:, None], -normals[:, None], walls], 1)  # [N, 5, 3]
    points = np.concatenate([corners[:, :1], corners[:, :1], corners], 1) - low - CELL / 2
    limits = (faces * points).sum(2) + reach + CELL / 2 * np.abs(faces).sum(2)  # of where the middle of a cell is
    firsts = np.floor((corners.min(1) - reach - low) / CELL).astype(int).clip(0)
    lasts = np.minimum(np.floor((corners.max(1) + reach - low) / CELL).astype(int), shape - 1)
    result = []
    for face, limit, first, last in zip(faces * CELL, limits, firsts, lasts, strict=True):
        x, y, z = np.ogrid[tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))]
        near = np.ones((x.size, y.size, z.size), bool)
        for (a, b, c), end in zip(face, limit, strict=True):
            near &= x * a + y * b + z * c <= end
        result.append(((x * shape[1] + y) * shape[2] + z)[near])
    return result


def near(
    grid: Grid,
    triangles: Triangles,
    start: jax.Array,
    lanes: Any,
    nothing: Callable[[int], Any],
    may: Callable[[Vec, jax.Array, Any], jax.Array] | None,
    one: Callable[[Any, Triangles, Any, jax.Array], Any],
    last: Callable[[Any], Any] = lambda found: found,
) -> Any:
    """Finds for every lane a result among the triangles near it.

    Args:
      start: i32[..., n], what `Grid.find` says of each place; n lanes with some places each, which are gathered if one
        of them is near a triangle.
      lanes: a pytree of [..., n].
      nothing: results of n lanes before they have seen a triangle, a pytree of [..., n].
      may: (normals, offsets, lanes) -> bool, false only where a triangle of the plane normal * point + offset = 0 is
        nothing to a lane; a broad test, of several planes at once on a first axis. None: all of a list are read.
      one: (found, a triangle per place, lanes, whether that triangle is really in the place's list) -> found.
      last: function of that for the final result, a pytree of f32[..., n].

    Returns:
      the pytree of `last`, [..., n].
    """
    lists = jnp.asarray(grid.lists)

    def all_listed(at, lanes):
        length = lists[at].astype(jnp.int32)

        def next_triangle(k, found):
            is_listed = k < length
            item = lists.at[at + jnp.where(is_listed, k + 1, 0)].get(mode="promise_in_bounds").astype(jnp.int32)
            return one(found, triangles.at(jnp.where(is_listed, item, 0)), lanes, is_listed)

        return jax.lax.fori_loop(0, length.max(), next_triangle, nothing(at.shape[-1]))

    def through_lists(chosen):
        at, lanes = chosen
        if may is None:
            return last(all_listed(at, lanes))
        left = _candidates(grid, triangles, at, lanes, may)

        def next_triangle(carry):
            left, found = carry
            left, k = _first(left)
            item = lists.at[at + k].get(mode="promise_in_bounds").astype(jnp.int32)
            return left, one(found, triangles.at(jnp.where(k > 0, item, 0)), lanes, k > 0)

        more = lambda carry: functools.reduce(jnp.bitwise_or, carry[0]).any()  # noqa: E731
        return last(jax.lax.while_loop(more, next_triangle, (left, nothing(at.shape[-1])))[1])

    longest = lists[start].reshape(-1, start.shape[-1]).max(0)
    lengths = LENGTHS if may else (0, LENGTHS[-1])  # what a ball keeps may hang on a rounding: its program stays plain
    by_length = jnp.stack([(longest > low) & (longest <= high) for low, high in itertools.pairwise(lengths)])
    return gathered(by_length, (start, lanes), through_lists, last(nothing(start.shape[-1])))


def _candidates(grid: Grid, triangles: Triangles, at: jax.Array, lanes: Any, may: Callable) -> tuple[jax.Array, ...]:
    """u32[..., n] each: bit i % BITS of word i // BITS is set where triangle i of a lane's list may matter to it."""
    lists = jnp.asarray(grid.lists)
    normal = jax.tree.map(jnp.asarray, triangles.normal)
    offset = jnp.asarray(-triangles.corners[0].dot(triangles.normal))
    length = lists[at].astype(jnp.int32)
    each = jnp.arange(AT_ONCE).reshape(-1, *(1,) * at.ndim)

    def some(turn, words):
        k = turn * AT_ONCE + each
        is_listed = k < length
        item = lists.at[at + jnp.where(is_listed, k + 1, 0)].get(mode="promise_in_bounds").astype(jnp.int32)
        item = jnp.where(is_listed, item, 0)
        planes = jax.tree.map(lambda leaf: leaf.at[item].get(mode="promise_in_bounds"), (normal, offset))
        bits = (is_listed & may(*planes, lanes)).astype(jnp.uint32) << (k % BITS).astype(jnp.uint32)
        bits = functools.reduce(jnp.bitwise_or, list(bits))
        return tuple(
            jnp.where(turn // (BITS // AT_ONCE) == number, word | bits, word) for number, word in enumerate(words)
        )

    words = (jnp.zeros(at.shape, jnp.uint32),) * -(-grid.longest // BITS)
    return jax.lax.fori_loop(0, (length.max() + AT_ONCE - 1) // AT_ONCE, some, words)


def _first(words: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Returns the words without their first bit, and the number of that bit, counted from one; 0 if none is set."""
    number, rest, done = jnp.zeros(words[0].shape, jnp.int32), [], jnp.zeros(words[0].shape, bool)
    for index, word in enumerate(words):
        here = ~done & (word > 0)
        low = jax.lax.population_count((word & -word) - 1).astype(jnp.int32)
        number = jnp.where(here, index * BITS + low + 1, number)
        rest.append(jnp.where(here, word & (word - 1), word))
        done |= here
    return tuple(rest), number
