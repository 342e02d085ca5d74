"""DQN's memory on the device, and the compiled program that holds it: exact to the bit."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from jaxrl.algorithms.dqn.device_replay import DeviceReplay, RecordFormat, draw, empty
from jaxrl.runs.config import RunConfig
from tests.support.dqn_training import dqn_config, program
from tests.support.games import RockPaperScissors
from tests.support.training import assert_close, assert_identical, run


@pytest.mark.thorough
def test_several_seeds_play_at_random_until_there_is_enough() -> None:
    """A simultaneous game: 8 games x 2 seats x 8 steps are 128 decisions a round, some of them still open."""
    config = dqn_config(seeds=2, updates=1, calls=4, learning_starts=300, num_envs=8)
    dqn = program(RockPaperScissors(no_repeat=True), config)
    state, seen = dqn.init(0), []
    for _ in range(4):
        state, metrics = run(dqn, state)
        seen.append(metrics)
    assert [(each["train/update_ratio"] > 0).tolist() for each in seen] == [[False] * 2] * 2 + [[True] * 2] * 2
    assert np.all(np.isnan(seen[0]["train/loss"])) and seen[0]["train/epsilon"].tolist() == [1.0, 1.0]
    assert seen[2]["train/epsilon"].tolist() == [1.0, 1.0] and np.all(seen[3]["train/epsilon"] < 1.0)
    assert state.learner.steps.tolist() == [2 * config.dqn.updates] * 2
    assert seen[3]["rollout/illegal"].tolist() == [0.0, 0.0]
    first, second = np.asarray(state.learner.params["heads"]["value"]["kernel"])
    assert not np.array_equal(first, second)
    single = program(RockPaperScissors(no_repeat=True), dataclasses.replace(config, run=RunConfig(seeds=1)))
    alone, _ = run(single, single.init(1), 4)  # what the second seed is
    assert_close(jax.tree.map(lambda leaf: leaf[1], state.learner.params), alone.learner.params, 1e-5)
    assert_identical(jax.tree.map(lambda leaf: leaf[1], state.lanes), alone.lanes)


# ---- drawing on the device ----


def test_drawn_in_proportion_to_the_priorities_on_the_device() -> None:
    random = np.random.default_rng(0)
    priority = (random.random((16, 16)) ** 2 * (random.random((16, 16)) < 0.7)).astype(np.float32)
    draws = jax.jit(jax.vmap(draw, in_axes=(None, 0)))
    found = draws(priority, random.random((2000, 200)).astype(np.float32))
    counts = np.bincount(np.asarray(found).ravel(), minlength=256)
    flat = priority.ravel().astype(np.float64)
    assert not counts[flat == 0].any()
    expected = 400_000 * flat[flat > 0] / flat.sum()
    # Strata make counts more even than independent draws: the statistic is at most what chi-square expects.
    statistic = np.sum((counts[flat > 0] - expected) ** 2 / expected)
    freedom = expected.size - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)
    one = draws(priority, random.random((20_000, 1)).astype(np.float32))  # one stratum: independent draws
    counts = np.bincount(np.asarray(one).ravel(), minlength=256)[flat > 0]
    statistic = np.sum((counts - expected / 20) ** 2 / (expected / 20))
    assert abs(statistic - freedom) < 6 * np.sqrt(2 * freedom)


def test_draws_at_the_edges_find_what_can_be_drawn() -> None:
    priority = np.zeros((4, 8), np.float32)
    priority[1, 3], priority[3, 0] = 1e-30, 1e30
    edges = np.array([0.0, np.nextafter(np.float32(1.0), np.float32(0.0))], np.float32)
    assert set(np.asarray(jax.jit(draw)(priority, edges)).tolist()) <= {11, 24}
    priority[3, 0] = 0.0
    assert np.asarray(jax.jit(draw)(priority, edges)).tolist() == [11, 11]


def test_the_larger_of_two_new_priorities_counts() -> None:
    memory = empty(RecordFormat(jax.ShapeDtypeStruct((3,), np.float32), 2, "float16"), 100, 4, 2)
    changed = jax.jit(DeviceReplay.reprioritise)(memory, np.array([5, 7, 5]), np.array([2.0, 0.5, 3.0], np.float32))
    flat = np.asarray(changed.priority).ravel()
    assert flat[5] == 3.0 and flat[7] == 0.5 and flat.sum() == 3.5 and float(changed.highest) == 3.0
