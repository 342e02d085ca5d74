"""The arena: its shape, users' meshes, and what rays, the ball and cars touch of it, beside a slow referee."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer.physics.field import arena, mesh
from jaxrl_envs.car_soccer.physics.settings import HITBOXES
from jaxrl_envs.car_soccer.physics.vector import axes, vec
from jaxrl_envs.shared.errors import UserError
from tests.jaxrl_envs.car_soccer.referee import car_soccer_arena as referee
from tests.jaxrl_envs.car_soccer.referee import car_soccer_chassis as chassis
from tests.jaxrl_envs.car_soccer.referee.car_soccer import four_of
from tests.jaxrl_envs.car_soccer.test_boxes import rotations

pytestmark = pytest.mark.thorough

RADIUS, THRESHOLD = 91.25, 1.905
PLACES = 300
BODY = HITBOXES["octane"]


def write(path, shape):
    numbers = np.array([len(shape.triangles), len(shape.vertices)], "<i4")
    path.write_bytes(
        numbers.tobytes() + shape.triangles.astype("<i4").tobytes() + (shape.vertices / 50).astype("<f4").tobytes()
    )


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


@pytest.fixture(scope="module", params=["own", "user's"])
def both(request, halves):
    """An arena and the referee's."""
    geometry = arena.own() if request.param == "own" else arena.of_folder(str(halves))
    triangles = geometry.triangles
    corners = np.stack([np.asarray(corner.array, np.float64) for corner in triangles.corners], 1)
    return geometry, referee.arena(corners, triangles.mesh)


def places(slow, seed, low, high):
    """Points about random triangles, `low` to `high` uu above them; one in ten about the middle plane of the arena."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(slow.corners), size=PLACES)
    weights = rng.dirichlet(np.ones(3), PLACES)
    found = np.einsum("nk,nkx->nx", weights, slow.corners[chosen])
    found += slow.normals[chosen] * rng.uniform(low, high, (PLACES, 1)) + rng.normal(size=(PLACES, 3)) * 5
    found[::10, 1] = rng.normal(size=len(found[::10])) * 60
    return np.float32(found)


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


def test_ball(both):
    geometry, slow = both
    centres = places(slow, 1, 45, 100)
    found = jax.jit(lambda centre: arena.ball_contacts(geometry, centre, RADIUS, THRESHOLD))(columns(centres))
    normals, rows, gaps = (np.asarray(x) for x in (found.normal.array, found.row_normals.array, found.row_gaps))
    rng, touching, crowded, tied = np.random.default_rng(7), 0, 0, 0
    for n, centre in enumerate(centres.astype(np.float64)):
        live = np.asarray(found.row_live)[:, n]
        assert found.count[n] == live.sum() and np.abs(rows[live, n].sum(0) - normals[n] * live.sum()).max() < 1e-4
        for turn in range(10):  # rounding may decide what is touched
            near = centre + rng.normal(size=3) * 0.002 * (turn > 0)
            contacts, mean, is_crowded = referee.ball(slow, near, RADIUS, THRESHOLD)
            want = sorted(gap for _, gap in contacts)
            is_same = len(want) == live.sum() and np.abs(normals[n] - mean).max() < 2e-4
            if is_same and np.allclose(sorted(gaps[live, n]), want, atol=0.01):
                break
        else:  # or which of five contacts has to go: two triangles may have the same nearest point
            assert is_crowded, f"at {centre}: {contacts}, but the arena says {gaps[:, n]}, {rows[:, n]}"
        touching, crowded, tied = touching + bool(contacts), crowded + is_crowded, tied + (turn > 0)
    assert touching > PLACES / 3 and crowded > PLACES / 20 and tied < PLACES / 20


def test_rays(both):
    geometry, slow = both
    origins = places(slow, 2, -10, 60).reshape(-1, 2, 2, 3)  # lanes of two cars with two wheels
    directions = rotations(np.random.default_rng(3), PLACES)[:, 0].reshape(origins.shape).astype(np.float32)
    length = np.array([[48.0], [50.0]], np.float32)
    distance, normal = jax.jit(lambda *ray: arena.rays(geometry, *ray, length))(columns(origins), columns(directions))
    distance, normal = np.moveaxis(np.asarray(distance), -1, 0), np.moveaxis(np.asarray(normal.array), -2, 0)
    hits = 0
    for index in np.ndindex(distance.shape):
        ray = origins[index].astype(float), directions[index].astype(float), float(length[index[-1], 0])
        want, want_normal = referee.ray(slow, *ray)
        if np.isinf(want) or np.isinf(distance[index]):
            short, long = (referee.ray(slow, ray[0], ray[1], ray[2] + more)[0] for more in (-0.01, 0.01))
            assert np.isinf(distance[index]) == np.isinf(want) or short != long, ray
            continue
        hits += 1
        assert abs(distance[index] - want) < 0.01, ray
        assert np.abs(normal[index] - want_normal).max() < 1e-4 or distance[index] != pytest.approx(want, abs=1e-4)
    assert hits > PLACES / 5


def test_chassis(both):
    geometry, slow = both
    positions = places(slow, 4, 20, 80)
    turns = rotations(np.random.default_rng(5), PLACES).astype(np.float32)
    cars = columns(positions[:, None]), jax.tree.map(lambda leaf: leaf.T[None], axes(jnp.asarray(turns)))
    found, felt = jax.jit(lambda *car: arena.chassis_contacts(geometry, *car, BODY))(*cars)
    gaps, live = np.asarray(found.gap)[:, 0], np.asarray(found.live)[:, 0]
    normals, points = np.asarray(found.normal.array)[:, 0], np.asarray(found.local.array)[:, 0]
    felt = np.asarray(felt.array)[0]
    touching, deep, unlike = 0, 0, 0
    for n in range(PLACES):
        car = positions[n].astype(float), turns[n].astype(float)
        gap, normal = referee.over_planes(*car, BODY.half, BODY.offset)
        assert live[0, n] == (gap < BODY.reach) or abs(gap - BODY.reach) < 1e-3
        if live[0, n]:
            assert gaps[0, n] == pytest.approx(gap, abs=2e-3) and normals[0, n].tolist() == list(normal)
        if (gaps[1:, n] <= arena.DEEPEST).any():
            continue  # our own rule for cars that were pressed out, see `test_cars_stay_inside`
        want, felt_last = [], normal
        for touch in chassis.touches(slow, *car, BODY):
            want, felt_last = four_of([*want, (touch.gap, touch.point, touch.normal)]), touch.felt
        got = [(gaps[k, n], points[k, n] @ car[1], normals[k, n]) for k in range(1, 5) if live[k, n]]
        touching, deep = touching + bool(want), deep + any(gap < -BODY.margin for gap, *_ in want)
        is_same = len(got) == len(want) and all(
            np.allclose(np.hstack(one), np.hstack(other), atol=0.02) for one, other in zip(got, want, strict=True)
        )
        unlike += not is_same or not (live[0, n] or not want or np.allclose(felt[n], felt_last, atol=0.02))
    assert touching > PLACES / 4 and deep > PLACES / 20 and unlike <= PLACES / 20, (touching, deep, unlike)  # rounding


def test_empty_space():
    places = columns(np.zeros((3, 3), np.float32))
    assert np.isinf(arena.rays(None, places, places, 50.0)[0]).all()
    assert not arena.ball_contacts(None, places, RADIUS, THRESHOLD).row_live.any()


def test_alone_and_among_others():
    """What a lane finds does not depend on the lanes beside it."""
    slow = np.asarray(mesh.own().vertices)
    centres = np.float32(slow[np.random.default_rng(6).integers(len(slow), size=300)] * 0.985)
    query = jax.jit(lambda centre: arena.ball_contacts(arena.own(), centre, RADIUS, THRESHOLD))
    together = query(columns(centres))
    halves = [query(columns(part)) for part in (centres[:150], centres[150:])]
    apart = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, -1), *halves)
    assert (together.count > 0).sum() > 100
    jax.tree.map(np.testing.assert_array_equal, together, apart)


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
