"""DQN for compiled games learns: games whose values are known."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from jaxrl.config.schema import LeagueConfig, Schedule, SeatMix
from jaxrl.dqn.compiled import CompiledDQN
from jaxrl.dqn.device_replay import draw, reprioritise
from jaxrl.dqn.program import make_dqn
from tests.dqn_training import action_values, dqn_config, train
from tests.games import Corridor, HighCard, RockPaperScissors
from tests.nim import LARGEST, Nim, best
from tests.training import assert_identical, on_host


@pytest.mark.parametrize(
    "settings",
    [
        {"n_step": 1},
        {"n_step": 3, "replay": "uniform", "epsilon": Schedule("constant", 0.05)},
        {"n_step": 1, "exploration": "noisy", "dueling": False, "double": False},
    ],
    ids=["prioritised", "uniform-3-steps", "noisy"],
)
def test_corridor_values_with_truncation(settings: dict) -> None:
    """From cell p the best value is gamma ** (4 - p), after a step to the left gamma times that of the cell there. The
    cuts, which a learner cannot foresee, do not lower it."""
    gamma, length = 0.9, 6
    env = Corridor(length=length)
    config = dqn_config(hidden=(64,), updates=100, calls=3, gamma=gamma, target_every=100, batch=64, **settings)
    program, state, metrics = train(env, config, 3)
    q = action_values(config, env, state.params, np.eye(length, dtype=bool)[:-1], np.ones((length - 1, 2), bool))
    cells = np.arange(length - 1)
    np.testing.assert_allclose(q[:, 1], gamma ** (length - 2.0 - cells), atol=0.06)
    if settings["n_step"] == 1 and "exploration" not in settings:  # else the left is hardly ever visited, or biased
        np.testing.assert_allclose(q[:, 0], gamma ** (length - 1.0 - np.maximum(cells - 1, 0)), atol=0.1)
    assert np.all(np.argmax(q, axis=1) == 1)
    assert metrics["rollout/ep_rew_mean"] > 0.99 and metrics["train/update_ratio"] == pytest.approx(2.0)


def test_nim_by_self_play() -> None:
    """Every won heap is played right, and its value is near 1 (a random move now and then costs a little)."""
    config = dqn_config(
        hidden=(64, 64), updates=100, calls=4, batch=64, gamma=1.0, epsilon=Schedule("linear", 1.0, 0.02)
    )
    env = Nim()
    _, state, _ = train(env, config, 4)
    heaps = np.arange(1, LARGEST + 1)
    masks = np.arange(3) < heaps[:, None]
    q = action_values(config, env, state.params, np.eye(LARGEST + 1, dtype=bool)[1:], masks)
    for heap, values in zip(heaps, q, strict=True):
        assert not best(heap) or int(np.argmax(values)) in best(heap), heap
    won = np.array([bool(best(heap)) for heap in heaps])
    np.testing.assert_allclose(q.max(axis=1)[won], 1.0, atol=0.25)
    assert np.all(q.max(axis=1)[~won] < 0.0)


def test_beats_random_play_at_nim() -> None:
    config = dqn_config(
        seats=(SeatMix(learners=1, bots=("random",)),),
        hidden=(64,),
        updates=100,
        calls=3,
        batch=64,
        gamma=1.0,
        epsilon=Schedule("linear", 1.0, 0.0),
    )
    _, _, metrics = train(Nim(), config, 3)
    assert metrics["train/epsilon"] == 0.0
    assert metrics["rollout/ep_rew_mean"] > 0.9  # of the last call, in which nothing is random: 95 % of the games


def test_rewards_between_turns_and_a_pool_of_bots() -> None:
    """High card for three: rewards reach a seat between its turns; the league counts results and shifts its weights."""
    league = LeagueConfig(opponents=("self", "lowest", "random"), self_play=0.2)
    config = dqn_config(hidden=(64,), updates=100, calls=3, batch=64, league=league, gamma=1.0)
    program, state, metrics = train(HighCard(), config, 3)
    assert metrics["league/win_rate/lowest"] > 0.5 and metrics["league/games/lowest"] > 0
    assert float(state.pool.elo[0]) > 1000.0 and np.isfinite(metrics["rollout/stat_tricks"])


def test_a_simultaneous_game_and_several_seeds() -> None:
    config = dqn_config(seeds=2, num_envs=8)
    program, state, metrics = train(RockPaperScissors(no_repeat=True), config, 2)
    assert metrics["train/replay"] > 500 and metrics["rollout/illegal"] == 0.0
    first, second = (jax.tree.map(lambda leaf, s=seed: leaf[s], on_host(state.params)) for seed in (0, 1))
    assert not np.array_equal(first["heads"]["value"]["kernel"], second["heads"]["value"]["kernel"])


def test_a_call_continues_bit_by_bit() -> None:
    """Two calls of one update are one call of two; a state that was copied away and back goes on as it would have."""
    whole = dqn_config(updates=4, calls=2)
    parts = dataclasses.replace(whole, train=dataclasses.replace(whole.train, updates_per_call=2))
    env = Corridor()
    program, state, _ = train(env, whole, 2)
    other: CompiledDQN = make_dqn(parts, env)
    again = other.init(0)
    for _ in range(4):
        kept = jax.tree.map(np.array, on_host(again.memory))
        again, _ = other.run(again.replace(memory=jax.device_put(kept)))
    assert_identical(again, state)
    abstract = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), program.abstract_state)
    assert abstract == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)


def test_without_saving_the_memory_it_stays_with_the_program() -> None:
    config = dqn_config(save_replay=False)
    program, state, metrics = train(Corridor(), config, 2)
    assert state.memory is None and program.abstract_state.memory is None
    assert metrics["train/replay"] > 500
    kept = train(Corridor(), dataclasses.replace(config, dqn=dataclasses.replace(config.dqn, save_replay=True)), 2)[1]
    assert_identical(state.params, kept.params)


def test_plays_at_random_until_there_is_enough() -> None:
    config = dqn_config(updates=1, calls=4, learning_starts=300, num_envs=16, num_steps=8)  # 128 a round, some open
    program = make_dqn(config, Corridor())
    state, seen = program.init(0), []
    for _ in range(4):
        state, metrics = program.run(state)
        seen.append((float(metrics["train/update_ratio"]), float(metrics["train/loss"])))
    assert [ratio > 0 for ratio, _ in seen] == [False, False, True, True]
    assert seen[0] == (0.0, 0.0) and int(state.optimizer_steps) == 2 * config.dqn.updates


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
    program = make_dqn(dqn_config(), Corridor())
    memory = program._empty()
    changed = jax.jit(reprioritise)(memory, np.array([5, 7, 5]), np.array([2.0, 0.5, 3.0], np.float32))
    flat = np.asarray(changed.priority).ravel()
    assert flat[5] == 3.0 and flat[7] == 0.5 and flat.sum() == 3.5 and float(changed.highest) == 3.0
