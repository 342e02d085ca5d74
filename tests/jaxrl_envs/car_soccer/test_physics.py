"""The physics of car soccer against recordings of the reference, and what any physics must keep."""

from __future__ import annotations

import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.car_soccer import golden
from jaxrl_envs.car_soccer.physics.field import pads
from jaxrl_envs.car_soccer.physics.settings import HITBOXES, PhysicsSettings
from jaxrl_envs.car_soccer.physics.tick import ticks
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "car_soccer"
ALONE = PhysicsSettings(teams=(0,))


@functools.cache
def recorded(name):
    return golden.read(FOLDER / f"{name}.json.gz")


def quick():
    """What one program of one car plays: scenarios without ties, and some of the random episodes."""
    flat = {
        k: r for k, r in recorded("trajectories").items() if r["meta"]["arena"] == "SOCCAR" and not r["meta"]["ties"]
    }
    episodes = [*list(recorded("random").items())[::6], *list(recorded("own").items())[11::16]]
    return {name: record for name, record in [*flat.items(), *episodes] if len(record["meta"]["teams"]) < 2}


@pytest.mark.thorough
def test_one_car_agrees():
    report = golden.measure(quick())
    assert report.disagreements == 0, report.first
    assert "hit_slow_push" in report.table and "tumble" in report.table


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trajectories", "random", "own", "encounters"])
def test_all_agree(name):
    report = golden.verify(FOLDER / f"{name}.json.gz")
    print(report)
    assert report.disagreements == 0, report.first


def test_a_suite_fails_by_more_than_chance():
    """Against the binomial sum; few episodes may miss what many may not."""
    for episodes, near, counted in ((8, 64, 64), (8, 60, 64), (64, 60, 64), (20, 0, 0)):
        share, least = (near + 1) / (counted + 2), golden.fewest(episodes, near, counted)
        below = sum(math.comb(episodes, k) * share**k * (1 - share) ** (episodes - k) for k in range(least))
        assert (
            below
            <= golden.CHANCE
            < below + math.comb(episodes, least) * share**least * (1 - share) ** (episodes - least)
        )
    assert golden.fewest(8, 64, 64) < 8 - 1 and golden.fewest(64, 64, 64) > 64 * 0.9
    assert golden.fewest(100_000, 64, 64) > 98_000


@pytest.mark.slow
def test_deviation_is_found():
    record = json.loads(json.dumps(recorded("trajectories")["air_none"]))
    for state in record["states"][1:]:
        state["cars"][0]["pos"][0] += 0.2
    report = golden.measure({"moved": record})
    assert report.disagreements == 1
    assert report.first and "moved" in report.first and "beyond its bound" in report.first


@pytest.mark.parametrize("suite", [None, "play1"])
def test_what_is_no_number_disagrees(monkeypatch, suite):
    record = json.loads(json.dumps(recorded("trajectories")["air_none"]))
    record["meta"]["suite"] = suite
    lost = golden.Poses(*(jnp.full((1, 1000, *end), jnp.nan) for end in ((3,), (1, 3), (1, 3, 3))))
    monkeypatch.setattr(golden, "play", lambda settings, geometry, arenas, pressed: lost)
    assert golden.measure({"lost": record}).disagreements > 0


def flying(count):
    records = [recorded("trajectories")[name] for name in ("air_none", "air_boost_pitch", "air_yaw")]
    arenas = [golden.start(ALONE, records[i % 3]) for i in range(count)]
    controls = np.random.default_rng(0).uniform(-1, 1, (count, 1, 8)).astype(np.float32)
    return arenas, controls


@pytest.mark.thorough
def test_a_batch_is_its_arenas_and_eight_ticks_are_eight_times_one():
    arenas, controls = flying(6)
    step = jax.jit(lambda arena, controls: ticks(None, ALONE, arena, controls, 1))
    single = list(arenas)
    for _ in range(8):
        single = [step(arena, pressed) for arena, pressed in zip(single, controls, strict=True)]
    stack = lambda *leaves: jnp.stack(leaves)  # noqa: E731
    together = jax.jit(jax.vmap(lambda a, c: ticks(None, ALONE, a, c, 8)))(jax.tree.map(stack, *arenas), controls)
    for one, many in zip(jax.tree.leaves(jax.tree.map(stack, *single)), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(many, np.float64), rtol=2e-6, atol=2e-6)


def test_hitboxes_and_pads():
    octane = HITBOXES["octane"]
    assert 2 * octane.half[0] == pytest.approx(120.507 - 0.134, abs=1e-3)
    assert octane.reach == pytest.approx(2.031, abs=1e-3)
    assert pads.POSITIONS.shape == (34, 3) and pads.IS_BIG.sum() == 6
    turned = {(-x, -y, z) for x, y, z in pads.POSITIONS.tolist()}
    assert turned == set(map(tuple, pads.POSITIONS.tolist()))  # the field is the same for both teams
