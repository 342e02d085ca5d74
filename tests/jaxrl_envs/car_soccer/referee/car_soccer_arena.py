"""Points, rays and boxes against all triangles of an arena, slowly and obviously (specification, part c, 6 and 8).

float64. An arena is a list of triangles f64[3, 3], each with the number of its mesh, and four planes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

PLANES = [((0, 0, 1), 0), ((0, 0, -1), 2048), ((1, 0, 0), 4096), ((-1, 0, 0), 4096)]  # normal, offset
SLACK = 0.25


@dataclass
class Arena:
    """corners: f64[N, 3, 3]; normals: f64[N, 3]; sharp: for each triangle, whether edge k sticks out or is unshared;
    alone: whether it is unshared.
    """

    corners: np.ndarray
    meshes: np.ndarray
    normals: np.ndarray
    sharp: list[list[bool]]
    alone: list[list[bool]]


def arena(corners: np.ndarray, meshes: np.ndarray) -> Arena:
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    users = defaultdict(list)
    name = lambda point: tuple(np.round(point, 2))  # noqa: E731
    for i, triangle in enumerate(corners):
        for k in range(3):
            users[meshes[i], frozenset((name(triangle[k]), name(triangle[k - 2])))].append((i, triangle[k - 1]))
    sharp, alone = [], []
    for i, triangle in enumerate(corners):
        edges = [users[meshes[i], frozenset((name(triangle[k]), name(triangle[k - 2])))] for k in range(3)]
        others = [[far for j, far in edge if j != i] for edge in edges]
        sharp.append([not o or normals[i] @ (o[0] - triangle[0]) < -0.005 for o in others])
        alone.append([not o for o in others])
    return Arena(corners, meshes, normals, sharp, alone)


def near(arena: Arena, low, high) -> np.ndarray:
    """Triangles whose boxes overlap a box."""
    corners = arena.corners
    return np.flatnonzero((corners.max(1) >= low).all(1) & (corners.min(1) <= high).all(1))


def on_segment(point, a, b):
    return a + np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1) * (b - a)


def within(triangle, normal, point, slack) -> bool:
    """Whether a point of its plane is in a triangle."""
    return all(turn(triangle[k] - point, triangle[k - 2] - point, normal) >= -slack for k in range(3))


def turn(a, b, axis) -> float:
    """(a x b) . axis"""
    (ax, ay, az), (bx, by, bz), (x, y, z) = a.tolist(), b.tolist(), axis.tolist()
    return (ay * bz - az * by) * x + (az * bx - ax * bz) * y + (ax * by - ay * bx) * z


def closest(triangle, normal, point):
    """The point of a triangle nearest to a point."""
    foot = point - normal * ((point - triangle[0]) @ normal)
    if within(triangle, normal, foot, 0):
        return foot
    return min(
        (on_segment(point, triangle[k], triangle[k - 2]) for k in range(3)), key=lambda q: np.linalg.norm(point - q)
    )


def ball(arena: Arena, centre, radius, threshold):
    """[(normal, gap)] of the contacts that are kept, their mean normal, and whether some had to go."""
    kept, reach, is_crowded = defaultdict(lambda: [None] * 4), radius + threshold, False
    for i in near(arena, centre - reach, centre + reach):
        triangle, normal = arena.corners[i], arena.normals[i]
        q = closest(triangle, normal, centre)
        distance = np.linalg.norm(centre - q)
        if distance >= reach:
            continue
        way = (centre - q) / distance
        normal = normal if normal @ way > 0 else -normal
        apart = [np.linalg.norm(q - on_segment(q, triangle[k], triangle[k - 2])) for k in range(3)]
        edge = int(np.argmin(apart))
        contact = way if apart[edge] <= 5 and arena.sharp[i][edge] else normal
        is_crowded |= None not in kept[arena.meshes[i]]
        _keep(kept[arena.meshes[i]], Point(way, q, contact, distance - radius))
    contacts = [(point.normal, point.gap) for places in kept.values() for point in places if point is not None]
    for normal, offset in PLANES:
        gap = np.array(normal) @ centre + offset - radius
        if gap < threshold:
            contacts.append((np.array(normal, float), gap))
    mean = sum(normal for normal, _ in contacts) / len(contacts) if contacts else np.zeros(3)
    return contacts, mean, is_crowded


def ray(arena: Arena, origin, direction, length):
    """Distance and normal of what a ray meets first, inf if nothing."""
    best = np.inf, np.zeros(3)
    end = origin + direction * length
    for i in near(arena, np.minimum(origin, end) - 1, np.maximum(origin, end) + 1):
        triangle, normal = arena.corners[i], arena.normals[i]
        slope = direction @ normal
        if abs(slope) > 1e-9:
            distance = (triangle[0] - origin) @ normal / slope
            inside = within(triangle, normal, origin + direction * distance, SLACK)
            if 0 <= distance <= length and inside and distance < best[0]:
                best = distance, normal if slope < 0 else -normal
    for normal, offset in PLANES:
        slope, height = -direction @ np.array(normal), origin @ np.array(normal) + offset
        if slope > 1e-9 and height >= 0 and height / slope <= min(length, best[0]):
            best = height / slope, np.array(normal, float)
    return best


def over_planes(position, axes, half, offset):
    """Gap and normal of the deepest of a box's corners over the planes."""
    corners = [np.array(offset) + np.array(half) * sign for sign in itertools.product((1, -1), repeat=3)]
    places = np.array([position + corner @ axes for corner in corners])
    return min(((places @ np.array(normal)).min() + distance, normal) for normal, distance in PLANES)


@dataclass
class Point:
    """local: on the first body. anchor: on the second. normal: from the second to the first. gap: along it."""

    local: np.ndarray
    anchor: np.ndarray
    normal: np.ndarray
    gap: float


def _keep(places: list[Point | None], new: Point) -> None:
    """Into the first of four free places; if all are taken, instead of the point that leaves the greatest area to the
    others and the new one, but never instead of the deepest of the five (part c, 2).
    """
    if None in places:
        places[places.index(None)] = new
        return
    p, n = [point.local for point in places], new.local
    areas = [
        np.cross(n - p[1], p[3] - p[2]),
        np.cross(n - p[0], p[3] - p[2]),
        np.cross(n - p[0], p[3] - p[1]),
        np.cross(n - p[0], p[2] - p[1]),
    ]
    sizes = [area @ area for area in areas]
    deepest = min(range(4), key=lambda k: places[k].gap)
    if places[deepest].gap < new.gap:
        sizes[deepest] = 0.0
    places[int(np.argmax(sizes))] = new
