"""Contact of two cars' boxes: separating axes, then one face clipped by another (specification, part c, 3).

Everything is arithmetic on arrays [K, B], written out by component: XLA makes a few loops of it, while sums along an
axis of three or eight take three times as long. A face clipped by a rectangle has at most eight sides: four lie on the
edges of the face, four on those of the rectangle, so its corners are where eight sides begin, some of which are
missing. All is decided by the same numbers in the order of Sutherland and Hodgman (x, then y): parallel faces, which
cars on the ground always have, neither lose corners nor gain any by rounding.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxrl_envs.car_soccer.physics.collision.manifold import PER_PAIR, Points
from jaxrl_envs.car_soccer.physics.vector import Axes, Vec, where

FACES_FIRST = 1.05  # an edge against an edge must separate less than the best face by more than this factor
PARALLEL = 1e-5  # added to every cosine: parallel edges do not separate
ROUNDING = 6e-6  # uu


Size = tuple[float, float, float]


def boxes_touch(
    first_position: Vec, first_axes: Axes, second_position: Vec, second_axes: Axes, half: Size, offset: Size
) -> jax.Array:
    """bool: whether pairs of cars touch; arguments as of `box_contacts`, which has no point where this is false."""
    return _best_axis(_box_pair(first_position, first_axes, second_position, second_axes, half, offset))[2]


def box_contacts(
    first_position: Vec, first_axes: Axes, second_position: Vec, second_axes: Axes, half: Size, offset: Size
) -> Points:
    """Returns the points in which pairs of cars touch, none for boxes apart.

    Args:
      first_position, first_axes, second_position, second_axes: state of the cars, [K, B].
      half: half the length, width and height of the box, uu.
      offset: offset of its centre from the car's position, in the car's axes.

    Returns:
      leaves [4, K, B]: points on either car in its own axes, in the reference's order: ten rounds of impulses do not
      forget it.
    """
    middle = _vector(offset)
    pair = _box_pair(first_position, first_axes, second_position, second_axes, half, offset)
    axis, separation, touching = _best_axis(pair)
    edge, crossing, faces = axis >= 6, _edge_contact(pair, axis - 6, separation), _face_contacts(pair, axis)
    points = [
        _BoxContact(
            local=where(edge, crossing.local, point.local) + middle,
            anchor=where(edge, crossing.anchor, point.anchor) + middle,
            normal=where(edge, crossing.normal, point.normal),
            gap=jnp.where(edge, crossing.gap, point.gap),
            live=touching & jnp.where(edge, index == 0, point.live),  # two edges touch in one point
        )
        for index, point in enumerate(faces)
    ]
    return Points(**jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)._asdict())


class _BoxPair(NamedTuple):
    """Two boxes, the first at the origin.

    Attributes:
      half: half their lengths.
      apart: vector from the first centre to the second.
      first, second: their axes.
      cosines: [i][j] of the first's axis i and the second's j, so column j is that axis in the first's axes.
      from_first, from_second: `apart` in the first's axes, in the second's.
    """

    half: Size
    apart: Vec
    first: tuple[Vec, Vec, Vec]
    second: tuple[Vec, Vec, Vec]
    cosines: tuple[tuple[jax.Array, ...], ...]
    from_first: tuple[jax.Array, ...]
    from_second: tuple[jax.Array, ...]

    def into_first(self, local: list[jax.Array]) -> list[jax.Array]:
        """Returns a point in the second's axes, from the first's centre in the first's axes."""
        return [_dot(row, local) + shift for row, shift in zip(self.cosines, self.from_first, strict=True)]


class _BoxContact(NamedTuple):
    """A point as in `manifold.Points`, here relative to the boxes' centres."""

    local: Vec
    anchor: Vec
    normal: Vec
    gap: jax.Array
    live: jax.Array


def _vector(numbers: Size) -> Vec:
    return Vec(*(jnp.float32(value) for value in numbers))


def _box_pair(
    first_position: Vec, first_axes: Axes, second_position: Vec, second_axes: Axes, half: Size, offset: Size
) -> _BoxPair:
    middle = _vector(offset)
    apart = second_position - first_position + (second_axes.to_world(middle) - first_axes.to_world(middle))
    first = first_axes.forward, first_axes.right, first_axes.up
    second = second_axes.forward, second_axes.right, second_axes.up
    return _BoxPair(
        half=half,
        apart=apart,
        first=first,
        second=second,
        cosines=tuple(tuple(a.dot(b) for b in second) for a in first),
        from_first=tuple(a.dot(apart) for a in first),
        from_second=tuple(b.dot(apart) for b in second),
    )


def _dot(left, right) -> jax.Array:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _choose(index: jax.Array, rows):
    """Returns the row that i32[K, B] says of three, arrays or vectors."""
    pick = lambda a, b, c: jnp.where(index == 0, a, jnp.where(index == 1, b, c))  # noqa: E731
    return jax.tree.map(pick, *rows)


def _best_axis(pair: _BoxPair) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The axis along which two boxes overlap least: 0-2 faces of the first, 3-5 of the second, 6-14 edge by edge.

    Returns:
      i32[K, B], the separation along it (f32, not above 0 if they touch), bool whether they touch.
    """
    half, cosines = pair.half, pair.cosines
    widths = [[jnp.abs(cosine) for cosine in row] for row in cosines]
    columns = list(zip(*widths, strict=True))
    faces = [jnp.abs(pair.from_first[i]) - (half[i] + _dot(widths[i], half)) for i in range(3)]
    faces += [jnp.abs(pair.from_second[j]) - (half[j] + _dot(columns[j], half)) for j in range(3)]
    touching = functools.reduce(jnp.logical_and, [separation <= 0 for separation in faces])
    best, axis = faces[0], jnp.zeros(touching.shape, jnp.int32)
    for index in range(1, 6):
        better = faces[index] > best
        best, axis = jnp.where(better, faces[index], best), jnp.where(better, index, axis)
    widths = [[width + PARALLEL for width in row] for row in widths]
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            reach = half[i1] * widths[i2][j] + half[i2] * widths[i1][j]
            reach = reach + half[j1] * widths[i][j2] + half[j2] * widths[i][j1]
            along = pair.from_first[i2] * cosines[i1][j] - pair.from_first[i1] * cosines[i2][j]
            separation = jnp.abs(along) - reach
            touching = touching & (separation <= ROUNDING)
            square = cosines[i1][j] ** 2 + cosines[i2][j] ** 2  # of the sine between the edges
            separation = separation * lax.rsqrt(jnp.maximum(square, 1e-12))
            better = (square > 1e-12) & (separation * FACES_FIRST > best)
            best, axis = jnp.where(better, separation, best), jnp.where(better, 6 + 3 * i + j, axis)
    return axis, best, touching


def _edge_contact(pair: _BoxPair, edges: jax.Array, separation: jax.Array) -> _BoxContact:
    """Crossing of edge `edges // 3` of the first with edge `edges % 3` of the second: one point, on the latter."""
    of_first, of_second = edges // 3, edges % 3
    along_first, along_second = _choose(of_first, pair.first), _choose(of_second, pair.second)
    normal = along_first.cross(along_second).unit()
    normal = normal * jnp.where(normal.dot(pair.apart) < 0, -1.0, 1.0)  # first to second
    inside = [axis.dot(normal) for axis in pair.first]
    corner_first = [jnp.where(steep > 0, side, -side) for steep, side in zip(inside, pair.half, strict=True)]
    corner_second = [
        jnp.where(axis.dot(normal) > 0, -side, side) for axis, side in zip(pair.second, pair.half, strict=True)
    ]
    between = [b - a for a, b in zip(corner_first, pair.into_first(corner_second), strict=True)]
    direction = [_choose(of_second, row) for row in pair.cosines]
    cosine = _choose(of_first, direction)
    square = 1 - cosine * cosine
    shift = (cosine * _choose(of_first, between) - _dot(direction, between)) / jnp.maximum(square, 1e-4)
    shift = jnp.where(square > 1e-4, shift, 0)
    anchor = [corner + jnp.where(of_second == j, shift, 0) for j, corner in enumerate(corner_second)]
    local = [point - steep * separation for point, steep in zip(pair.into_first(anchor), inside, strict=True)]
    return _BoxContact(Vec(*local), Vec(*anchor), -normal, separation, separation <= 0)


class _Face(NamedTuple):
    """The face of one box that looks at a face of the other ("the rectangle"), in the rectangle's axes x, y and
    height above its box's centre; all f32[K, B].

    Attributes:
      middle: x, y, height of the face's middle. across, down: how they change along its two edges.
      half_across, half_down: half its edges. half_x, half_y, top: of the rectangle.
    """

    middle: tuple[jax.Array, ...]
    across: tuple[jax.Array, ...]
    down: tuple[jax.Array, ...]
    half_across: jax.Array
    half_down: jax.Array
    half_x: jax.Array
    half_y: jax.Array
    top: jax.Array


def _split(axis: jax.Array, rows) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of three rows the lower and the higher of the other two, and that of the axis."""
    a, b, c = rows
    return jnp.where(axis == 0, b, a), jnp.where(axis == 2, b, c), _choose(axis, rows)


def _merge(axis: jax.Array, low: jax.Array, high: jax.Array, along: jax.Array) -> Vec:
    """Inverts `_split`."""
    return Vec(
        jnp.where(axis == 0, along, low),
        _choose(axis, (low, along, high)),
        jnp.where(axis == 2, along, high),
    )


def _face_contacts(pair: _BoxPair, axis: jax.Array) -> list[_BoxContact]:
    """Up to four points in which a face lies in the other box; `axis` names the rectangle, edges give nonsense."""
    swapped, facing = axis >= 3, axis % 3
    offset = [jnp.where(swapped, -b, a) for a, b in zip(pair.from_first, pair.from_second, strict=True)]
    x, y, height = _split(facing, offset)  # of the face's box, in the rectangle's axes
    sign = jnp.where(height < 0, -1.0, 1.0)  # which of the two faces is the rectangle
    columns = []  # its axes, likewise
    for j in range(3):
        column = [jnp.where(swapped, pair.cosines[j][i], pair.cosines[i][j]) for i in range(3)]
        low, high, along = _split(facing, column)
        columns.append((low, high, along * sign))
    steep = [jnp.abs(column[2]) for column in columns]  # the face is the one that looks at the rectangle most squarely
    wide = jnp.where(steep[0] > steep[2], 0, 2)
    looking = jnp.where(steep[1] > steep[0], jnp.where(steep[1] > steep[2], 1, 2), wide)
    half_across, half_down, half_along = _split(looking, pair.half)
    half_x, half_y, top = _split(facing, pair.half)
    edges = [_split(looking, rows) for rows in zip(*columns, strict=True)]
    shift = jnp.where(edges[2][2] < 0, half_along, -half_along)
    face = _Face(
        middle=tuple(k + shift * edge[2] for k, edge in zip((x, y, height * sign), edges, strict=True)),
        across=tuple(edge[0] for edge in edges),
        down=tuple(edge[1] for edge in edges),
        half_across=half_across,
        half_down=half_down,
        half_x=half_x,
        half_y=half_y,
        top=top,
    )
    outward = [where(swapped, b, -a) * sign for a, b in zip(pair.first, pair.second, strict=True)]
    normal, result = _choose(facing, outward), []
    for across, down, x, y, depth, live in _pick(face, _clip(face)):
        on_face, on_rectangle = _merge(looking, across, down, shift), _merge(facing, x, y, sign * top)
        local, anchor = where(swapped, on_face, on_rectangle), where(swapped, on_rectangle, on_face)
        result.append(_BoxContact(local, anchor, normal, -depth, live))
    return result


class _Side(NamedTuple):
    """A side of a polygon, from one point to another, or none; `turn` and `end_turn` grow on the way round the face
    from its first corner: 0.0 at that one, 1.5 where the second of its sides is cut.
    """

    x: jax.Array
    y: jax.Array
    end_x: jax.Array
    end_y: jax.Array
    live: jax.Array
    turn: jax.Array | float = 0.0
    end_turn: jax.Array | float = 0.0

    def flipped(self) -> _Side:
        """With x and y exchanged."""
        return self._replace(x=self.y, y=self.x, end_x=self.end_y, end_y=self.end_x)

    def turned(self, mask: jax.Array) -> _Side:
        """Exchanges both ends where the mask is true."""
        x, end_x = jnp.where(mask, self.end_x, self.x), jnp.where(mask, self.x, self.end_x)
        y, end_y = jnp.where(mask, self.end_y, self.y), jnp.where(mask, self.y, self.end_y)
        return self._replace(x=x, y=y, end_x=end_x, end_y=end_y)


def _clip(face: _Face) -> list[_Side]:
    """Returns the part of the face above or below the rectangle: at most eight sides, all the same way round."""
    corners = []
    for i, j in ((-1, -1), (-1, 1), (1, 1), (1, -1)):
        across, down = i * face.half_across, j * face.half_down
        corners.append([face.middle[k] + across * face.across[k] + down * face.down[k] for k in range(2)])
    live = jnp.ones(face.top.shape, bool)
    around = zip(corners, corners[1:] + corners[:1], strict=True)
    sides = [_Side(a[0], a[1], b[0], b[1], live, i, i + 0.5) for i, (a, b) in enumerate(around)]
    # The face's corners run clockwise unless `across` and `down` are left-handed: so must what lies on the rectangle.
    clockwise = face.across[0] * face.down[1] - face.across[1] * face.down[0] > 0
    for half, against, turn in ((face.half_x, ~clockwise, 0.1), (face.half_y, clockwise, 0.05)):
        sides = [side.flipped() for side in _slab(sides, half, against, turn)]
    return sides


def _slab(sides: list[_Side], half: jax.Array, against: jax.Array, turn: float) -> list[_Side]:
    """Returns a convex polygon between x = -half and x = half: its sides cut, and two new ones along the borders.

    Args:
      against: bool, whether the polygon runs down x = -half.
      turn: difference of a border's `turn` from the polygon's there.
    """
    cut, low, high = [], [jnp.full_like(half, jnp.inf)] * 2, [jnp.full_like(half, -jnp.inf)] * 2
    leaves = [jnp.zeros_like(half)] * 2  # where on the way round the polygon meets a border from inside
    for side in sides:
        out, end_out = jnp.abs(side.x) >= half, jnp.abs(side.end_x) >= half
        border, end_border = jnp.where(side.x < 0, -half, half), jnp.where(side.end_x < 0, -half, half)
        live = side.live & ~(out & end_out & (border == end_border))
        slope = (side.end_y - side.y) / jnp.where(side.end_x == side.x, 1, side.end_x - side.x)
        y = jnp.where(out, side.y + slope * (border - side.x), side.y)
        end_y = jnp.where(end_out, side.y + slope * (end_border - side.x), side.end_y)
        for crosses, below, value in ((live & out, side.x < 0, y), (live & end_out, side.end_x < 0, end_y)):
            for k, here in enumerate((crosses & below, crosses & ~below)):
                low[k] = jnp.where(here, jnp.minimum(low[k], value), low[k])
                high[k] = jnp.where(here, jnp.maximum(high[k], value), high[k])
        for k, here in enumerate((side.end_x < 0, side.end_x >= 0)):
            leaves[k] = jnp.where(live & end_out & here, side.end_turn, leaves[k])
        x, end_x = jnp.where(out, border, side.x), jnp.where(end_out, end_border, side.end_x)
        cut.append(side._replace(x=x, y=y, end_x=end_x, end_y=end_y, live=live))
    for k, (border, down) in enumerate(((-half, against), (half, ~against))):
        live = low[k] < high[k]
        start, end = jnp.where(live, low[k], 0), jnp.where(live, high[k], 0)
        side = _Side(border, start, border, end, live, leaves[k] + turn, leaves[k] + 2 * turn)
        cut.append(side.turned(down))
    return cut


def _pick(face: _Face, sides: list[_Side]) -> list[tuple[jax.Array, ...]]:
    """At most four of the corners that lie in the other box: the deepest, and those nearest to a quarter, half and
    three quarters of a turn from it round the middle of all.

    Returns:
      for each, f32[K, B]: where on the face (across, down), where on the rectangle (x, y), depth; bool live.
    """
    scale = 1 / (face.across[0] * face.down[1] - face.across[1] * face.down[0])

    def on_face(x, y):
        x, y = (x - face.middle[0]) * scale, (y - face.middle[1]) * scale
        return x * face.down[1] - y * face.down[0], y * face.across[0] - x * face.across[1]

    def depth_at(x, y):
        across, down = on_face(x, y)
        return face.top - (face.middle[2] + across * face.across[2] + down * face.down[2])

    depths = [depth_at(side.x, side.y) for side in sides]
    starts = [side.live & (depth >= 0) for side, depth in zip(sides, depths, strict=True)]
    ends = [side.live & (depth_at(side.end_x, side.end_y) >= 0) for side in sides]
    middle_x, middle_y = _centroid(sides, starts, ends)
    many = sum(start.astype(jnp.int32) for start in starts) > PER_PAIR
    arms = []
    for side in sides:
        x, y = side.x - middle_x, side.y - middle_y
        shrink = lax.rsqrt(jnp.maximum(x * x + y * y, 1e-12))
        arms.append((x * shrink, y * shrink))
    left, scores, picked = starts, depths, []
    for turn in range(PER_PAIR):
        best, which = jnp.full_like(scale, -jnp.inf), jnp.full(scale.shape, -1)
        for index, score in enumerate(scores):
            score = jnp.where(many, score, -sides[index].turn)  # as they come
            better = left[index] & (score > best)
            best, which = jnp.where(better, score, best), jnp.where(better, index, which)
        here = [which == index for index in range(8)]
        x, y, depth = (_only(here, rows) for rows in ([s.x for s in sides], [s.y for s in sides], depths))
        picked.append((*on_face(x, y), x, y, depth, which >= 0))
        left = [start & ~taken for start, taken in zip(left, here, strict=True)]
        if turn == 0:
            deepest_x, deepest_y = (_only(here, rows) for rows in zip(*arms, strict=True))
        aside = [y * deepest_x - x * deepest_y for x, y in arms]
        scores = (aside, [-(x * deepest_x + y * deepest_y) for x, y in arms], [-value for value in aside], [])[turn]
    return picked


def _only(masks, rows) -> jax.Array:
    """Returns the row whose mask is true; 0 without one."""
    total = jnp.zeros_like(rows[0])
    for mask, row in zip(masks, rows, strict=True):
        total = jnp.where(mask, row, total)
    return total


def _centroid(sides: list[_Side], starts, ends) -> tuple[jax.Array, jax.Array]:
    """Middle of the polygon of the corners deep enough; they follow each other, so that one new side closes it."""
    begin = [start & ~end for start, end in zip(starts, ends, strict=True)]  # at the last corner before the gap
    close = [end & ~start for start, end in zip(starts, ends, strict=True)]  # ends in the first one after it
    closing = _Side(
        _only(begin, [side.x for side in sides]),
        _only(begin, [side.y for side in sides]),
        _only(close, [side.end_x for side in sides]),
        _only(close, [side.end_y for side in sides]),
        jnp.ones(starts[0].shape, bool),
    )
    area = x = y = jnp.zeros_like(closing.x)
    both = [start & end for start, end in zip(starts, ends, strict=True)]
    for side, live in zip([*sides, closing], [*both, closing.live], strict=True):
        share = jnp.where(live, side.x * side.end_y - side.end_x * side.y, 0)
        area, x, y = area + share, x + share * (side.x + side.end_x), y + share * (side.y + side.end_y)
    scale = 1 / jnp.where(jnp.abs(area) > 1e-6, 3 * area, jnp.inf)
    return x * scale, y * scale
