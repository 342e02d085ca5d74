"""Ray cast against a box, as in the reference: a search for the nearest point of the box that moves along the ray.

The search (gilbert, johnson, keerthi) keeps up to three corners of the box, each as it was seen from the point of the
ray at which it was found, and forgets that the point has moved on since. So beside an edge a ray hits that would have
missed, at another distance and with a normal in between: nothing simpler finds the same. It takes some eight rounds,
but few rays come near a car: `cast_few` gathers those.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jaxrl_envs.car_soccer.physics.vector import Vec, corner_along, where
from jaxrl_envs.shared.fused.kernel import inside_kernel

CLOSE = 0.25  # uu^2; a point this near has hit, a corner this near to another is the same
FLAT = 12.5  # uu^3, six times the volume of four corners that are taken for three
ROUNDS = 32
SLACK = 2.0  # uu, by which a ray may miss and still be worth a cast
LEAST, SHARE = 64, 64  # rays that are cast at once: at least LEAST, else one SHARE-th of them

Size = tuple[float, float, float]


def cast_few(place: Vec, way: Vec, half: Size) -> tuple[jax.Array, Vec]:
    """Casts those of many rays that may hit.

    Args:
      place: start of the rays in the axes of a box round the origin, f32[...]. way: vectors to their ends.
      half: half the sides of the box, uu.

    Returns:
      how far along the way each hits (0 to 1, inf if it does not) and the normal of what it hits, in the box's axes.
    """
    shape = place.x.shape
    place, way = jax.tree.map(jnp.ravel, (place, way))
    parts = zip((place.x, place.y, place.z), (way.x, way.y, way.z), half, strict=True)
    over = [jnp.abs(start + 0.5 * step) - 0.5 * jnp.abs(step) - side for start, step, side in parts]
    near = (over[0] < SLACK) & (over[1] < SLACK) & (over[2] < SLACK)
    number = jnp.cumsum(near, dtype=jnp.int32)
    size = 1 if inside_kernel() else min(max(LEAST, near.size // SHARE), near.size)

    def some(carry):
        done, found = carry
        rays = jnp.searchsorted(number, done + 1 + jnp.arange(size, dtype=jnp.int32))  # the size if there are no more
        start, step = jax.tree.map(lambda leaf: leaf.at[rays].get(mode="clip"), (place, way))
        put = lambda whole, part: lax.dynamic_update_slice(whole, part, (done,))  # noqa: E731
        return done + size, jax.tree.map(put, found, cast(start, step, half))

    room = jnp.zeros(near.size + size, jnp.float32)
    start = jnp.int32(0), (room, Vec(room, room, room))
    _, found = lax.while_loop(lambda carry: carry[0] < number[-1], some, start)
    distance, normal = jax.tree.map(lambda leaf: leaf[number - near].reshape(shape), found)
    return jnp.where(near.reshape(shape), distance, jnp.inf), normal


def cast(place: Vec, way: Vec, half: Size) -> tuple[jax.Array, Vec]:
    """Casts all rays at once, as `cast_few`; f32[N]."""
    zero = jnp.zeros_like(place.x)
    none, never = Vec(zero, zero, zero), zero > 1
    away = place - corner_along(way, half)
    start = (0, ~never, never, zero, away, none, [none] * 3, [never] * 3, none)
    state = lax.while_loop(
        lambda state: (state[0] < ROUNDS) & state[1].any(), lambda state: _step(place, way, half, *state), start
    )
    _, _, missed, along, _, normal, _, _, _ = state
    hits = ~missed & (normal.dot(way) < 0) & (along < 1)
    return jnp.where(hits, along, jnp.inf), normal.unit()


def _step(place, way, half, round_, searches, missed, along, away, normal, kept, live, last):
    """One round: `along` the way the plane square to `away` (nearest point of what is kept) through the next corner."""
    corner = place + way * along - corner_along(away, half)
    beyond, slope = away.dot(corner), away.dot(way)
    moves = beyond > 0
    lost = searches & ((along > 1) | (moves & (slope >= 0)))
    missed, searches = missed | lost, searches & ~lost
    moves = moves & searches
    along = jnp.where(moves, along - beyond / jnp.where(moves, slope, -1), along)
    normal = where(moves, away, normal)
    same = (corner.x == last.x) & (corner.y == last.y) & (corner.z == last.z)
    for point, there in zip(kept, live, strict=True):
        gap = point - corner
        same = same | (there & (gap.dot(gap) <= CLOSE))
    adds = searches & ~same
    ends, nearest, rest, there = _nearest(corner, away, kept, live)
    keeps = adds & ~ends
    away = where(keeps, nearest, away)
    kept = [where(keeps, new, old) for new, old in zip(rest, kept, strict=True)]
    live = [jnp.where(keeps, new, old) for new, old in zip(there, live, strict=True)]
    last = where(adds, corner, last)
    searches = searches & (adds | moves) & ~(adds & ends) & (away.dot(away) > CLOSE)
    return round_ + 1, searches, missed, along, away, normal, kept, live, last


def _nearest(new: Vec, away: Vec, kept: list[Vec], live: list[jax.Array]):
    """The point nearest to the origin of what a new corner and those kept span, of which `away` was the nearest.

    Returns:
      bool whether four corners hold the origin or lie flat; the point; the corners that it lies between, and which of
      the three these are: where the new one helps it is the last.
    """
    a, b, c = (corner - new for corner in kept)
    full = live[0] & live[1] & live[2]
    volume = a.dot(b.cross(c))
    holds = full
    for left, right, tip in ((a, b, c), (b, c, a), (c, a, b)):
        out = left.cross(right)
        holds = holds & (-new.dot(out) * tip.dot(out) >= 0)
    out = (b - a).cross(c - a)
    holds = holds & (-kept[0].dot(out) * -a.dot(out) >= 0)
    ends = holds | (full & (jnp.abs(volume) < FLAT))
    old = live[0] | live[1] | live[2]
    best, nearest = jnp.where(old, away.dot(away), jnp.inf), away
    keep, uses = list(live), jnp.zeros_like(old)
    nothing = jnp.zeros_like(old)

    def offer(valid, point, chosen, state):
        best, nearest, keep, uses = state
        square = point.dot(point)
        better = valid & (square < best)
        keep = [jnp.where(better, new, old) for new, old in zip(chosen, keep, strict=True)]
        return jnp.where(better, square, best), where(better, point, nearest), keep, uses | better

    state = offer(~nothing, new, [nothing] * 3, (best, nearest, keep, uses))
    edges = a, b, c
    sides = [-new.dot(edge) for edge in edges]
    squares = [edge.dot(edge) for edge in edges]
    for i in range(3):
        share = sides[i] / jnp.where(live[i], squares[i], 1)
        chosen = [live[i] if k == i else nothing for k in range(3)]
        state = offer(live[i] & (share > 0) & (share < 1), new + edges[i] * share, chosen, state)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        both, slant = live[i] & live[j], edges[i].dot(edges[j])
        scale = squares[i] * squares[j] - slant * slant
        scale = 1 / jnp.where(both & (scale > 0), scale, jnp.inf)
        one = (sides[i] * squares[j] - sides[j] * slant) * scale
        two = (sides[j] * squares[i] - sides[i] * slant) * scale
        chosen = [both if k in (i, j) else nothing for k in range(3)]
        inside = both & (one > 0) & (two > 0) & (one + two < 1)
        state = offer(inside, new + edges[i] * one + edges[j] * two, chosen, state)
    _, nearest, keep, uses = state
    # The new corner takes the first place that is free.
    rest, there, waits = [], [], uses
    for corner, kept_on in zip(kept, keep, strict=True):
        here = waits & ~kept_on
        rest.append(where(here, new, corner))
        there.append(kept_on | here)
        waits = waits & kept_on
    return ends, nearest, rest, there
