"""A car's box against triangles, slowly and obviously, float64: the nearest points of the inner box and a triangle, or
the shortest way out of an overlap. The box is the inner box rounded by a margin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Touch(NamedTuple):
    """gap: between box and triangle. point: on the box, from the car's position. normal: of the contact, from the
    triangle; felt: as it was before edges were smoothed.
    """

    gap: float
    point: np.ndarray
    normal: np.ndarray
    felt: np.ndarray


def touches(mesh, position, axes, body) -> list[Touch]:
    """The triangles that a car touches; `mesh` has corners, normals, sharp and alone, `body` is a hitbox."""
    centre = position + np.array(body.offset) @ axes
    size = np.array(body.half) @ abs(axes)
    low, high = mesh.corners.min(1), mesh.corners.max(1)
    found = []
    for n in np.flatnonzero(((high >= centre - size) & (low <= centre + size)).all(1)):
        touch = meet(mesh, n, centre, axes, body)
        if touch.gap < body.reach:
            found.append(touch._replace(point=touch.point + centre - position))
    return found


def meet(mesh, n, centre, axes, body) -> Touch:
    """One triangle and one box; the point from the box's centre."""
    corners, face, half = (mesh.corners[n] - centre) @ axes.T, axes @ mesh.normals[n], np.array(body.inner)
    foot, way = nearest(corners, face, half)
    distance = np.linalg.norm(way)
    if distance < 0.05:
        overlap, foot, normal = way_out(corners, face, half)
        gap = -overlap - body.margin
    else:
        normal, gap = way / distance, distance - body.margin
    middle = (mesh.corners[n].min(0) + mesh.corners[n].max(0)) / 2
    normal = normal * (1 if (normal @ axes) @ (centre - middle) >= 0 else -1)
    point, felt = (foot + normal * gap) @ axes, normal @ axes
    return Touch(gap, point, smoothed(mesh, n, centre + foot @ axes, felt), felt)


def smoothed(mesh, n, foot, normal):
    """The triangle's normal at an edge that it shares and that does not stick out."""
    apart = [
        np.inf if mesh.alone[n][k] else np.linalg.norm(foot - on_segment(foot, *mesh.corners[n][[k, k - 2]]))
        for k in range(3)
    ]
    k = int(np.argmin(apart))
    is_edge = apart[k] < 5 and not mesh.sharp[n][k] and mesh.normals[n] @ normal >= 0
    return mesh.normals[n] if is_edge else normal


def on_segment(point, a, b):
    return a + np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1) * (b - a)


def is_within(corners, face, point) -> bool:
    """Whether a point of its plane is in a triangle."""
    return all(np.cross(corners[k - 2] - corners[k], point - corners[k]) @ face >= 0 for k in range(3))


def nearest(corners, face, half):
    """The point of a triangle that is nearest to a box round the origin, and the way from there to the box."""
    feet = [lowest(corners[k], corners[k - 2], half) for k in range(3)]
    up = face if corners[0] @ face <= 0 else -face
    corner = np.where(up <= 0, half, -half)
    height, opposite = (corner - corners[0]) @ up, (-corner - corners[0]) @ up
    if height > 0:
        below = corner - up * height
        if is_within(corners, face, below):
            return below, up * height
    elif is_within(corners, face, corner * (opposite + height) / (opposite - height)):
        return corner, np.zeros(3)  # the box stands through the triangle
    ways = [np.clip(foot, -half, half) - foot for foot in feet]
    k = int(np.argmin([np.linalg.norm(way) for way in ways]))
    return feet[k], ways[k]


def lowest(start, end, half):
    """The point of an edge nearest to a box round the origin, by halving: the distance is convex along the edge."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        point = start + (end - start) * middle
        if (point - np.clip(point, -half, half)) @ (end - start) > 0:
            high = middle
        else:
            low = middle
    return start + (end - start) * low


def way_out(corners, face, half):
    """Overlap, the triangle's point and the direction of the shortest way on which a box leaves a triangle."""
    found = []
    for sign in (1, -1):
        overlap = abs(face) @ half + sign * (corners[0] @ face)
        corner = np.where(sign * face <= 0, half, -half)
        found.append((overlap, corner + sign * face * overlap, sign * face))
        for axis in np.eye(3) * sign:
            k = int(np.argmax(corners @ axis))
            found.append((corners[k] @ axis + half @ abs(axis), corners[k], axis))
        for k, axis in np.ndindex(3, 3):
            edge = corners[k - 2] - corners[k]
            way = sign * np.cross(np.eye(3)[axis], edge)
            if np.linalg.norm(way) > 0.04:
                way = way / np.linalg.norm(way)
                overlap = (corners @ way).max() + half @ abs(way)
                corner = np.where(way <= 0, half, -half) + way * overlap
                time, _ = np.linalg.lstsq(np.stack([edge, -np.eye(3)[axis]], 1), corner - corners[k], rcond=None)[0]
                found.append((overlap, corners[k] + edge * time, way))
    return min(found, key=lambda way: way[0])
