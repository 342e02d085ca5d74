"""The arena: its shape, and users' meshes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer.physics.field import arena, mesh
from jaxrl_envs.car_soccer.physics.vector import vec
from jaxrl_envs.shared.errors import UserError

pytestmark = pytest.mark.thorough

RADIUS, THRESHOLD = 91.25, 1.905


def write(path, shape):
    numbers = np.array([len(shape.triangles), len(shape.vertices)], "<i4")
    vertices = (shape.vertices / 50).astype("<f4")
    path.write_bytes(numbers.tobytes() + shape.triangles.astype("<i4").tobytes() + vertices.tobytes())


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A user's folder: our own arena in two meshes, one for each half of the field."""
    folder = tmp_path_factory.mktemp("meshes") / "soccar"
    folder.mkdir()
    own = mesh.own()
    is_blue = own.vertices[own.triangles].mean(1)[:, 1] < 0
    for name, triangles in (("a", own.triangles[is_blue]), ("b", own.triangles[~is_blue])):
        write(folder / f"{name}.cmf", mesh.Mesh(own.vertices, triangles))
    return folder.parent


def columns(array):
    """f32[N, ..., 3] -> vectors of f32[..., N]."""
    return vec(jnp.moveaxis(jnp.asarray(array), 0, -2))


def test_shape():
    own = mesh.own()
    assert own.vertices.shape == (3114, 3) and own.triangles.shape == (5856, 3)
    corners = own.vertices[own.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    centres = corners.mean(1)
    in_goal = np.abs(centres[:, 1]) > mesh.Y
    middle = np.where(in_goal[:, None], np.sign(centres) * [0, 5600, 0] + [0, 0, 300], [0, 0, 1000])
    assert in_goal.sum() == 24
    assert (((middle - centres) * normals).sum(1) > 0).all()  # all are wound inwards, the goals' too
    edges = np.concatenate([own.triangles[:, [k, k - 2]] for k in range(3)])
    assert len(np.unique(edges, axis=0)) == len(edges)
    points = {tuple(point) for point in own.vertices.tolist()}
    assert points == {(-x, y, z) for x, y, z in points} == {(x, -y, z) for x, y, z in points}


def test_a_folder_of_two_meshes_is_the_same_arena(halves):
    """Ball and wheels meet the same surfaces as in our own; where the meshes meet, edges have no neighbours."""
    own, rng = mesh.own(), np.random.default_rng(1)
    corners = own.vertices[own.triangles]
    corners = corners[abs(corners[..., 1]).min(1) > 200]
    chosen = corners[rng.integers(len(corners), size=300)]
    inward = np.cross(chosen[:, 1] - chosen[:, 0], chosen[:, 2] - chosen[:, 0])
    inward /= np.linalg.norm(inward, axis=1, keepdims=True)
    foot = np.einsum("nk,nkx->nx", rng.dirichlet(np.ones(3), len(chosen)), chosen)
    height = rng.uniform(45, 100, (len(chosen), 1))
    centres = columns(np.float32(foot + inward * height))
    wheels = columns(np.float32(foot + inward * 20)[:, None])
    down = columns(np.float32(-inward)[:, None])

    @functools.partial(jax.jit, static_argnums=0)
    def touched(geometry):
        ball = arena.ball_contacts(geometry, centres, RADIUS, THRESHOLD)
        distance, normal = arena.rays(geometry, wheels, down, 48.0)
        return ball.count, ball.normal.array / jnp.maximum(ball.count, 1)[:, None], distance[0], normal.array[0]

    ours, theirs = touched(arena.own()), touched(arena.of_folder(str(halves)))
    assert (ours[0] > 0)[height[:, 0] < RADIUS].all() and (ours[2] <= 20.01).all()
    assert np.isclose(ours[2], 20, atol=0.01).mean() > 0.8  # the others meet another surface before
    same = [np.isclose(a, b, atol=1e-4).reshape(300, -1).all(1) for a, b in zip(ours, theirs, strict=True)]
    assert np.all(same, 0).mean() > 0.95  # of more than four surfaces others may be kept


def test_empty_space():
    places = columns(np.zeros((3, 3), np.float32))
    assert np.isinf(arena.rays(None, places, places, 50.0)[0]).all()
    assert not arena.ball_contacts(None, places, RADIUS, THRESHOLD).row_live.any()


def broken(own, kind):
    """Bytes of a file that is no mesh."""
    head, triangles = np.array([1, 3], "<i4").tobytes(), np.array([0, 1, 2], "<i4")
    vertices = np.eye(3, dtype="<f4")
    return {
        "short": b"\0" * 5,
        "length": head + triangles.tobytes(),
        "negative": np.array([-1, 3], "<i4").tobytes() + b"\0" * 40,
        "index": head + (triangles + 1).tobytes() + vertices.tobytes(),
        "nan": head + triangles.tobytes() + (vertices * np.float32("nan")).tobytes(),
        "far": head + triangles.tobytes() + (vertices * np.float32(1e6)).tobytes(),
        "flat": head + triangles.tobytes() + (vertices * 0).tobytes(),
    }[kind]


@pytest.mark.parametrize("kind", ["short", "length", "negative", "index", "nan", "far", "flat"])
def test_a_broken_mesh_is_refused(tmp_path, kind):
    (tmp_path / "x.cmf").write_bytes(broken(mesh.own(), kind))
    with pytest.raises(UserError, match=r"x\.cmf.*\.$"):
        mesh.read_folder(tmp_path)


def test_a_folder_without_meshes_is_refused(tmp_path):
    with pytest.raises(UserError, match="no .cmf files"):
        mesh.read_folder(tmp_path)
    (tmp_path / "x.cmf").mkdir()
    with pytest.raises(UserError, match="cannot read the mesh"):
        mesh.read_folder(tmp_path)
