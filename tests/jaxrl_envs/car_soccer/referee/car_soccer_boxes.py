"""Two boxes that touch, slowly and obviously (specification, part c, 3): lists of points, float64."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np


class Touch(NamedTuple):
    """A contact: the point on the second box, the normal from the second to the first, and the gap, not above 0."""

    point: np.ndarray
    normal: np.ndarray
    gap: float


def box_contacts(centre_a, axes_a, centre_b, axes_b, half) -> list[Touch]:
    """All points of two boxes; `axes` have the box's own axes as rows."""
    best = least_overlap(centre_b - centre_a, axes_a, axes_b, half)
    if best is None:
        return []
    separation, normal, first_edge, second_edge = best
    if normal @ (centre_b - centre_a) < 0:
        normal = -normal  # from a to b
    if second_edge is not None:
        point = edge_point(centre_a, axes_a, first_edge, centre_b, axes_b, second_edge, half, normal)
        return [Touch(point, -normal, separation)]
    if first_edge < 3:
        return [
            Touch(p, -normal, -d) for p, d in face_points(centre_a, axes_a, first_edge, centre_b, axes_b, half, normal)
        ]
    points = face_points(centre_b, axes_b, first_edge - 3, centre_a, axes_a, half, -normal)
    return [Touch(p - normal * d, -normal, -d) for p, d in points]


def least_overlap(apart, axes_a, axes_b, half):
    """The rule of the fifteen axes: (separation, axis, face or edge of a, edge of b or None); None if one separates."""
    best = (-math.inf, None, None, None)
    for face, axis in enumerate([*axes_a, *axes_b]):
        separation = abs(axis @ apart) - half @ abs(axes_a @ axis) - half @ abs(axes_b @ axis)
        if separation > 0:
            return None
        if separation > best[0]:
            best = (separation, axis, face, None)
    for i in range(3):
        for j in range(3):
            axis = np.cross(axes_a[i], axes_b[j])
            reach = sum(half[k] * (abs(axes_b[j] @ axes_a[3 - i - k]) + 1e-5) for k in range(3) if k != i)
            reach += sum(half[k] * (abs(axes_a[i] @ axes_b[3 - j - k]) + 1e-5) for k in range(3) if k != j)
            separation, length = abs(axis @ apart) - reach, np.linalg.norm(axis)
            if separation > 6e-6:
                return None
            if length > 1e-6 and separation / length * 1.05 > best[0]:
                best = (separation / length, axis / length, i, j)
    return best


def edge_point(centre_a, axes_a, i, centre_b, axes_b, j, half, normal):
    """The point on b's edge that is nearest to a's."""
    on_a = centre_a + np.where(axes_a @ normal > 0, half, -half) @ axes_a
    on_b = centre_b + np.where(axes_b @ normal > 0, -half, half) @ axes_b
    cosine, between = axes_a[i] @ axes_b[j], on_b - on_a
    square = 1 - cosine**2
    shift = (cosine * (axes_a[i] @ between) - axes_b[j] @ between) / square if square > 1e-4 else 0.0
    return on_b + shift * axes_b[j]


def face_points(centre_a, axes_a, face, centre_b, axes_b, half, normal):
    """Where the face of b that looks at a's lies inside of a: at most four (point, depth)."""
    steep = axes_b @ normal
    looking = int(np.argmax(abs(steep)))
    u, v = (k for k in range(3) if k != looking)
    x, y = (k for k in range(3) if k != face)
    middle = centre_b - centre_a - math.copysign(half[looking], steep[looking]) * axes_b[looking]
    corners = [
        middle + s * half[u] * axes_b[u] + t * half[v] * axes_b[v] for s, t in ((-1, -1), (-1, 1), (1, 1), (1, -1))
    ]
    polygon = clip([(axes_a[x] @ c, axes_a[y] @ c) for c in corners], half[x], half[y])
    edges = np.array([[axes_a[x] @ axes_b[u], axes_a[x] @ axes_b[v]], [axes_a[y] @ axes_b[u], axes_a[y] @ axes_b[v]]])
    origin = np.array([axes_a[x] @ middle, axes_a[y] @ middle])
    inside = []
    for corner in polygon:
        s, t = np.linalg.solve(edges, np.array(corner) - origin)
        point = middle + s * axes_b[u] + t * axes_b[v]
        depth = half[face] - normal @ point
        if depth >= 0:
            inside.append((corner, centre_a + point, depth))
    if len(inside) > 4:
        inside = [inside[k] for k in four_of([c for c, _, _ in inside], [d for _, _, d in inside])]
    return [(point, depth) for _, point, depth in inside]


def clip(polygon, half_x, half_y):
    """Sutherland and Hodgman: a polygon cut by the four sides of a rectangle round the origin."""
    for k, half in ((0, half_x), (1, half_y)):
        for sign in (-1, 1):
            cut = []
            for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
                if sign * a[k] < half:
                    cut.append(a)
                if (sign * a[k] < half) != (sign * b[k] < half):
                    share = (sign * half - a[k]) / (b[k] - a[k])
                    other = a[1 - k] + share * (b[1 - k] - a[1 - k])
                    cut.append((sign * half, other) if k == 0 else (other, sign * half))
            polygon = cut
    return polygon


def four_of(corners, depths):
    """The deepest corner and those nearest to a quarter, half and three quarters of a turn from it round the middle."""
    area = [a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    middle = [
        sum(w * (a[k] + b[k]) for w, a, b in zip(area, corners, corners[1:] + corners[:1], strict=True))
        / (3 * sum(area))
        for k in (0, 1)
    ]
    angles = [math.atan2(c[1] - middle[1], c[0] - middle[0]) for c in corners]
    chosen = [depths.index(max(depths))]
    for turn in (1, 2, 3):
        wanted = angles[chosen[0]] + turn * math.pi / 2
        rest = [k for k in range(len(corners)) if k not in chosen]
        chosen.append(min(rest, key=lambda k: abs(math.remainder(angles[k] - wanted, 2 * math.pi))))
    return chosen


# ---- a ray ----------------------------------------------------------------------------------------------------------


def cast_box(place, way, half):
    """Where a ray meets a box round the origin: share of the way and normal, None if it does not or starts inside.

    As the reference does it: a point moves along the ray through planes square to the way to the nearest point of what
    the box's corners found so far span; but they stay as they were seen when they were found (part c, 1).
    """
    if (abs(place + way / 2) - abs(way) / 2 > half + 2).any():
        return None
    along, normal, away = 0.0, None, place - farthest(way, half)
    kept, last = [], None
    for _ in range(32):
        if away @ away <= 0.5**2:
            break
        corner = place + along * way - farthest(away, half)
        if along > 1:
            return None
        if away @ corner > 0:
            if away @ way >= 0:
                return None
            along, normal = along - (away @ corner) / (away @ way), away
        if np.array_equal(corner, last) or any((corner - other) @ (corner - other) <= 0.5**2 for other in kept):
            continue
        last, kept = corner, [*kept, corner]
        if len(kept) == 4 and (abs(np.linalg.det(np.array(kept[1:]) - kept[0])) < 12.5 or holds_origin(kept)):
            break
        away, kept = nearest_of(kept)
    if normal is None or normal @ way >= 0 or along >= 1:
        return None
    return along, normal / np.linalg.norm(normal)


def farthest(way, half):
    """The corner of a box that is farthest along a way."""
    return np.where(way >= 0, half, -half)


def holds_origin(corners):
    """Whether the origin is inside of four corners."""
    shares = np.linalg.solve(np.vstack([np.transpose(corners), np.ones(4)]), [0, 0, 0, 1])
    return bool((shares >= 0).all())


def nearest_of(corners):
    """The point nearest to the origin of what corners span, and those of them that it lies between."""
    found = []
    for count in range(1, min(len(corners), 3) + 1):
        for some in itertools.combinations(corners, count):
            edges = np.array([corner - some[0] for corner in some[1:]]).reshape(-1, 3)
            shares = np.linalg.lstsq(edges.T, -some[0], rcond=None)[0]
            if (shares > 0).all() and shares.sum() < 1 or count == 1:
                found.append((some[0] + shares @ edges, list(some)))
    return min(found, key=lambda each: each[0] @ each[0])
