"""Triangles of arenas: our own shape, computed from a dozen dimensions, and files of a user's.

An arena is a list of meshes. Each is one collision object of its own: two triangles are neighbours, with an edge
between them that a ball rolls over, only within one mesh. All triangles are wound so that their normals point into
the arena. Floor, ceiling and side walls are planes besides (see `arena`), so a mesh has no floor and no ceiling.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from jaxrl_envs.car_soccer.physics.constants import CEILING, SIDE_WALL
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

X, Y, Z = SIDE_WALL, 5120.0, CEILING  # where the walls and the ceiling are, from the middle of the floor
CORNER = 8064.0  # |x| + |y| on the planes that cut the corners
SIDE_RAMP, BACK_RAMP, CEILING_RAMP = 256.0, 160.0, 512.0  # radii: below side walls and corners, below back walls, above
FILLET = 362.04  # from a vertical edge to where its rounding begins
GOAL_WIDTH, GOAL_HEIGHT, GOAL_Y = 892.755, 642.775, 6000.0  # half the width of the mouth, its height, the net's back
ARC_FACETS, FILLET_FACETS = 8, 12  # flat pieces of a quarter arc of a ramp, of a fillet's eighth
STRIDE = 400.0  # greatest width of a piece of straight wall

UNIT = 50.0  # uu per unit of a file
MAX_FILES, MAX_TRIANGLES, MAX_DISTANCE = 256, 30_000, 20_000.0


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh:
    """vertices: f64[V, 3], uu; triangles: i64[T, 3], indices of vertices."""

    vertices: np.ndarray
    triangles: np.ndarray


def own() -> Mesh:
    """Our own arena: 3,114 vertices, 5,856 triangles."""
    quads = np.concatenate([_walls(), _goal()])  # f64[Q, 4, 3], the quarter x >= 0, y >= 0
    corners = quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3, 3)
    mirrored = []
    for x, y in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        quarter = corners * [x, y, 1]
        mirrored.append(quarter if x == y else quarter[:, ::-1])
    points = np.concatenate(mirrored).reshape(-1, 3).round(3)
    vertices, indices = np.unique(points + 0.0, axis=0, return_inverse=True)
    return Mesh(vertices, indices.reshape(-1, 3))


def _outline() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the wall seen from above, from the middle of the back wall to that of a side wall.

    Returns:
      points and inward normals, f64[N, 2], and the radius of the ramp below, f64[N].
    """
    end_x, end_y = CORNER - Y - FILLET, CORNER - X - FILLET  # where the straight walls end
    radius = FILLET / np.tan(np.pi / 8)
    back = np.array([0, GOAL_WIDTH, *np.arange(GOAL_WIDTH + 200, end_x, STRIDE)])
    side = np.array([*np.arange(end_y - STRIDE, 0, -STRIDE), 0])
    angles = [np.linspace(a, b, FILLET_FACETS + 1) for a, b in ((np.pi / 2, np.pi / 4), (np.pi / 4, 0))]
    outward = [np.stack([np.cos(angle), np.sin(angle)], -1) for angle in angles]
    points = [
        np.stack([back, np.full_like(back, Y)], -1),
        np.array([end_x, Y - radius]) + radius * outward[0],
        np.array([X - radius, end_y]) + radius * outward[1],
        np.stack([np.full_like(side, X), side], -1),
    ]
    normals = [np.tile([0.0, -1.0], (len(back), 1)), -outward[0], -outward[1], np.tile([-1.0, 0.0], (len(side), 1))]
    blend = np.linspace(BACK_RAMP, SIDE_RAMP, FILLET_FACETS + 1)
    radii = [np.full(len(back), BACK_RAMP), blend, np.full(FILLET_FACETS + 1 + len(side), SIDE_RAMP)]
    return np.concatenate(points), np.concatenate(normals), np.concatenate(radii)


def _walls() -> np.ndarray:
    """Back wall, corner and side wall with their ramps: f64[Q, 4, 3], without the mouth of the goal."""
    points, normals, radii = _outline()
    arc = np.linspace(0, np.pi / 2, ARC_FACETS + 1)
    sin, cos = np.sin(arc), np.cos(arc)
    inward, height = np.zeros((2, len(points), 2 * len(arc) + 1))  # from the foot of the lower ramp to the ceiling
    inward[:, : len(arc)] = radii[:, None] * (1 - sin)
    height[:, : len(arc)] = radii[:, None] * (1 - cos)
    height[:, len(arc)] = GOAL_HEIGHT
    inward[:, len(arc) + 1 :] = CEILING_RAMP * (1 - cos)
    height[:, len(arc) + 1 :] = Z - CEILING_RAMP * (1 - sin)
    level = points[:, None] + normals[:, None] * inward[..., None]
    surface = np.concatenate([level, height[..., None]], -1)  # [N, 19, 3]
    quads = np.stack([surface[:-1, :-1], surface[1:, :-1], surface[1:, 1:], surface[:-1, 1:]], 2)
    below_bar = height[0, 1:] <= GOAL_HEIGHT
    return np.concatenate([quads[0, ~below_bar], quads[1:].reshape(-1, 4, 3)])


def _goal() -> np.ndarray:
    """Side, roof and back of a goal: f64[3, 4, 3]."""
    w, h, front, back = GOAL_WIDTH, GOAL_HEIGHT, Y, GOAL_Y
    side = [(w, front, h), (w, back, h), (w, back, 0), (w, front, 0)]
    roof = [(0, back, h), (w, back, h), (w, front, h), (0, front, h)]
    net = [(w, back, 0), (w, back, h), (0, back, h), (0, back, 0)]
    return np.array([side, roof, net], float)


def read_folder(folder: str | Path) -> list[Mesh]:
    """The meshes of a user's folder of .cmf files, or of the folder `soccar` in it, in the order of their names.

    Raises:
      UserError: the folder has no meshes, or a file is not a mesh; the message names it.
    """
    folder = Path(folder).expanduser()
    try:
        files = sorted(folder.glob("*.cmf")) or sorted((folder / "soccar").glob("*.cmf"))
    except OSError as error:
        raise UserError(f"cannot read the folder {folder} of env.options.meshes: {error.strerror}.") from None
    if not files:
        raise UserError(f"there are no .cmf files in {folder}: env.options.meshes names a folder of collision meshes.")
    if len(files) > MAX_FILES:
        raise UserError(f"{folder} holds {len(files)} .cmf files: at most {MAX_FILES} make an arena.")
    meshes = [_read(file) for file in files]
    total = sum(len(mesh.triangles) for mesh in meshes)
    if total > MAX_TRIANGLES:
        raise UserError(f"the meshes of {folder} have {total:,} triangles: at most {MAX_TRIANGLES:,} make an arena.")
    return meshes


def _read(path: Path) -> Mesh:
    """Returns one file: i32 triangles T, i32 vertices V, i32[T, 3], f32[V, 3] in units of 50 uu."""
    limit = 8 + 24 * MAX_TRIANGLES * 3
    try:
        with files.opened(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UserError(f"cannot read the mesh {path}: {error.strerror}.") from None
    fault = f"{path} is not a collision mesh of an arena"
    if len(data) < 8 or len(data) > limit:
        raise UserError(f"{fault}: it has {'too few' if len(data) < 8 else 'too many'} bytes.")
    count, corners = (int(number) for number in np.frombuffer(data, "<i4", 2))
    if count <= 0 or corners <= 0 or len(data) != 8 + 12 * (count + corners):
        raise UserError(f"{fault}: it says {count} triangles and {corners} vertices, but has {len(data)} bytes.")
    triangles = np.frombuffer(data, "<i4", 3 * count, 8).reshape(-1, 3).astype(np.int64)
    vertices = np.frombuffer(data, "<f4", 3 * corners, 8 + 12 * count).reshape(-1, 3).astype(np.float64) * UNIT
    if triangles.min() < 0 or triangles.max() >= corners:
        raise UserError(f"{fault}: a triangle names a vertex that it does not have.")
    if not (np.abs(vertices) <= MAX_DISTANCE).all():
        raise UserError(f"{fault}: a vertex is not within {MAX_DISTANCE:,.0f} uu of the middle of the field.")
    edges = np.diff(vertices[triangles], axis=1)
    if not np.cross(edges[:, 0], edges[:, 1]).any():
        raise UserError(f"{fault}: none of its triangles has an area.")
    return Mesh(vertices, triangles)
