"""The training program as a whole: seeds, devices, seats, metrics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import xla
from jaxrl.algorithms import trajectory
from jaxrl.games import GameForms, compare
from jaxrl.league.config import SeatMix
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.make import make_program
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, TicTacToe
from tests.support.training import (
    assert_identical,
    on_host,
    program,
    run,
    small_config,
    train,
    values_of,
)

BOTS = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("lowest", "random")))


def test_two_calls_equal_one_call_of_twice_the_updates() -> None:
    _, twice, _ = train(HighCard(), small_config(updates=2, calls=4), 2)
    _, once, _ = train(HighCard(), small_config(updates=4, calls=2), 1)
    assert_identical(twice, once)


def test_first_games_are_compiled_fast_and_are_the_same(monkeypatch) -> None:
    config = small_config(seats=BOTS, stagger=5)
    first = make_program(config, TicTacToe()).init(3)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
    assert xla.quick_options() == {}, "a level of the user's own"
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert xla.quick_options()
    assert_identical(make_program(config, TicTacToe()).init(3), first)


def test_options_that_this_xla_does_not_know_are_left_out(monkeypatch) -> None:
    known = {"xla_backend_optimization_level": "0"}
    monkeypatch.setattr(xla, "quick_options", lambda: {"xla_cpu_of_another_version": True, **known})
    assert xla.compile_quickly(jax.jit(lambda x: x + 1).lower(1.0))(2.0) == 3.0
    monkeypatch.setattr(xla, "quick_options", lambda: {"xla_backend_optimization_level": "none"})
    with pytest.raises(jax.errors.JaxRuntimeError):
        xla.compile_quickly(jax.jit(lambda x: x + 1).lower(1.0))


class Ramp(TicTacToe):
    """Every move is paid with the share of the training that is done, in hundredths."""

    id, scale = "ramp", 1.0

    def annealed(self, progress):
        ramp = Ramp()
        ramp.scale = progress
        return ramp

    def _step(self, state, action, key):
        return super()._step(state, action, key).replace(rewards=jnp.full(2, 0.01 * self.scale))


def test_a_game_may_change_what_it_pays_while_training(seeds=2) -> None:
    """The progress is that of the schedules: 0 at the first update, 1 at the last, also for a state that goes on."""
    config = small_config(updates=1, calls=3, seeds=seeds, num_steps=9)
    training = make_program(config, Ramp())
    state, paid = training.init(0), []
    for _ in range(3):
        before = jax.device_get(state.lanes.episode_return)
        state, found = run(training, state)
        total = found["rollout/ep_rew_mean"] * found["rollout/games"] * 2
        paid.append(np.sum(jax.device_get(state.lanes.episode_return) - before) + np.sum(total))
    moves = config.batch_size * seeds * 2
    np.testing.assert_allclose(paid, [0, 0.005 * moves, 0.01 * moves], rtol=0.01, atol=1e-4)


def played(anakin, state, lanes, key, steps):
    """The lanes and the steps of a rollout that is played with the policy of a state."""
    ids = jnp.arange(lanes.episode_length.shape[0], dtype=jnp.uint32)
    policy = anakin.algorithm.policy(state.learner, state.update)
    lanes, rollout, _ = collect(anakin.setup, policy, state.pool, lanes, key, ids, steps)
    return lanes, rollout.steps


def test_opponent_swapped_in_the_middle_of_a_game() -> None:
    """PufferLib 620: controllers change exactly where a game ended, and every mix occurs."""
    config = small_config(seats=(SeatMix(), SeatMix(learners=1, bots=("lowest", "highest"))), num_envs=64)
    anakin = program(HighCard(), config)
    state = anakin.init(0)
    lanes = state.lanes

    @jax.jit
    def one_step(lanes, t):
        return played(anakin, state, lanes, jax.random.fold_in(prng.fast_key(1), t), 1)

    drawn, changed = {0}, False
    for t in range(30):
        before = np.asarray(lanes.controllers)
        lanes, transition = one_step(lanes, t)
        over = np.asarray(transition.terminated[0])
        np.testing.assert_array_equal(np.asarray(lanes.controllers)[~over], before[~over])
        changed = changed or bool(np.any(np.asarray(lanes.controllers)[over] != before[over]))
        drawn |= set(np.unique(lanes.controllers))
        seat = np.asarray(transition.seat[0, :, 0])
        np.testing.assert_array_equal(transition.weight[0, :, 0], before[np.arange(64), seat] == 0)
    learners = np.sum(np.asarray(lanes.controllers) == 0, axis=1)
    assert changed and drawn == {0, 1, 2} and set(learners) == {1, 3}


def test_the_bot_in_the_seat_acts() -> None:
    """Where the bot "lowest" holds the seat the stored action is the lowest legal one."""
    config = small_config(seats=(SeatMix(learners=1, bots=("lowest",)),), num_envs=64)
    anakin = program(HighCard(), config)
    state = anakin.init(0)
    _, steps = played(anakin, state, state.lanes, prng.fast_key(1), 9)
    words = np.asarray(steps.mask)[..., 0]
    lowest = np.log2((words & -words.astype(np.int64)).astype(np.float64))
    held = np.asarray(steps.weight) == 0
    np.testing.assert_array_equal(np.asarray(steps.action)[held], lowest[held])
    assert np.any(np.asarray(steps.action)[~held] != lowest[~held])
    # Two of three seats are bots', and each seat is the learner's equally often.
    share = np.mean(np.asarray(state.lanes.controllers) == 0, axis=0)
    assert np.all((share > 0.15) & (share < 0.5)) and np.isclose(np.sum(share), 1.0)


def test_metrics_describe_the_learners_seats() -> None:
    config = small_config(seats=(SeatMix(learners=1, bots=("lowest",)),), num_envs=32, num_steps=18, updates=1)
    _, state, metrics = train(HighCard(), config, 1)
    assert metrics["rollout/games"] == int(state.games) == 64
    assert metrics["rollout/ep_len_mean"] == 9.0 and metrics["rollout/illegal"] == 0.0
    assert 0.0 < metrics["rollout/stat_tricks"] < 3.0
    assert int(state.env_steps) == 32 * 18
    assert all(np.isfinite(value) for value in metrics.values())


def test_terminal_observation_lost_in_auto_reset() -> None:
    """Stoix 142, mujoco_playground 305: the value of a cut is that of the state before the reset."""
    env = Corridor(length=5, limit=3, random_start=False)
    anakin = program(env, small_config(num_envs=8))
    state = anakin.init(0)
    ids, policy = jnp.arange(8, dtype=jnp.uint32), anakin.algorithm.policy(state.learner, state.update)
    _, rollout, _ = collect(anakin.setup, policy, None, state.lanes, prng.fast_key(0), ids, 6)
    steps = rollout.steps
    truncated = np.asarray(steps.truncated)
    assert np.all(truncated[2]) and np.all(truncated[5]) and truncated.sum() == 16
    position = np.argmax(np.asarray(steps.observation), axis=-1)[..., 0]
    after = np.maximum(position + 2 * np.asarray(steps.action)[..., 0] - 1, 0)  # where the walker stood when cut
    value = values_of(anakin, state.learner.params, jnp.eye(5, dtype=bool))
    final = trajectory.values_of(anakin.algorithm.network, rollout).final
    np.testing.assert_allclose(np.asarray(final)[..., 0], np.where(truncated, value[after], 0.0), atol=1e-6)


def test_the_same_first_state_after_every_reset() -> None:
    """mujoco_playground 169 and 179: deals differ between lanes and after resets."""
    anakin = program(HighCard(), small_config(num_envs=64))
    state = anakin.init(0)
    first = np.asarray(state.lanes.env_state.owner)
    lanes, _ = played(anakin, state, state.lanes, prng.fast_key(1), 9)
    second = np.asarray(lanes.env_state.owner)
    assert len(np.unique(first, axis=0)) > 60 and len(np.unique(second, axis=0)) > 60
    assert np.mean(np.all(first == second, axis=1)) < 0.1


def test_impossible_configurations() -> None:
    cases = [
        (small_config(num_envs=12, devices=5), "run.devices"),
        (small_config(minibatches=5), "minibatches"),
        (small_config(seats=(SeatMix(learners=1, bots=("lowes",)),)), "lowest"),
        (small_config(seats=(SeatMix(learners=1),)), "seats.0.bots"),
        (small_config(seats=(SeatMix(learners=3, bots=("lowest",)),)), "2 seats"),
    ]
    for config, words in cases:
        with pytest.raises(UserError, match=words):
            config.check()
            compare(config, GameForms(TicTacToe(), TicTacToe()))
    with pytest.raises(UserError, match="devices"):
        make_program(small_config(devices=1000, num_envs=1000), TicTacToe())


def test_seed_has_no_effect() -> None:
    """Mava 1194: another seed gives other games, parameters and another training; the same seed the same."""

    def kernel(state):
        return np.asarray(state.learner.params["dense_0"]["kernel"])

    anakin = program(HighCard(), small_config())
    left, right = on_host(anakin.init(0)), on_host(anakin.init(1))
    assert np.any(left.lanes.env_state.owner != right.lanes.env_state.owner)
    assert np.any(kernel(left) != kernel(right))
    assert_identical(left, anakin.init(0))
    left, again, right = (run(anakin, anakin.init(seed))[0] for seed in (0, 0, 1))
    assert_identical(left, again)
    assert np.any(kernel(left) != kernel(right))


def test_staggered_games_are_not_in_step() -> None:
    """Lane i begins i * 9 / 64 random decisions into its game, the last lanes in their second one."""
    anakin = program(HighCard(), small_config(num_envs=64, stagger=18))
    length = np.asarray(anakin.init(0).lanes.episode_length)
    np.testing.assert_array_equal(length, (np.arange(64) * 18 // 64) % 9)


def scans(jaxpr, length: int) -> list:
    """All scans of that length anywhere in a program."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan" and equation.params["length"] == length:
            found.append(equation)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                found += scans(getattr(inner, "jaxpr", inner), length)
    return found


def test_out_of_memory_from_stacked_metrics() -> None:
    """purejaxrl 38: the loop over updates stacks nothing, everything is summed up (that over minibatches is a while
    loop, which cannot stack)."""
    config = small_config(updates=7, epochs=5, minibatches=1)
    anakin = program(TicTacToe(), config)
    traced = anakin.compiled.trace(anakin.abstract_state)
    loops = scans(traced.jaxpr.jaxpr, 7)
    assert len(loops) == 1 and not scans(traced.jaxpr.jaxpr, 5)
    assert not any(each.aval.shape[:1] == (7,) for each in loops[0].outvars)
    assert all(leaf.shape == () for leaf in jax.tree.leaves(traced.out_info[1]))
