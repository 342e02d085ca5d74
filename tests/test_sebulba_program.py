"""Training with actors: exact resume, results that do not depend on timing, seats, the pool, figures."""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np
import pytest

from envs.errors import UserError
from jaxrl import checkpoint
from jaxrl import config as configs
from jaxrl.config.schema import SeatMix, SebulbaConfig
from jaxrl.program import make_program
from jaxrl.sebulba.program import Sebulba
from tests.games import TicTacToe
from tests.host_games import HostTicTacToe
from tests.sebulba_training import EVERYBODY, ONE_SLOT, run, sebulba_config, sebulba_program, threads_left
from tests.training import assert_identical, on_devices

BOTS = (SeatMix(weight=2.0), SeatMix(learners=1, bots=("lowest", "random")))


@pytest.fixture(autouse=True)
def no_thread_survives():
    yield
    assert not threads_left()


def through_a_checkpoint(program: Sebulba, state):
    """What another process would restore."""
    arrays, leaves = checkpoint.pack(state)
    return checkpoint.unpack(arrays, leaves, program.abstract_state)


# ---- resume ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "league"), [(0, EVERYBODY), (1, EVERYBODY), (2, ONE_SLOT)], ids=["lag 0", "lag 1", "lag 2, one slot"]
)
def test_resume_is_exact(lag, league):
    """3 + 3 updates and 6 are the same leaf by leaf, games, snapshots and rollouts in flight included."""
    program = sebulba_program(sebulba_config(league=league, sebulba={"lag": lag}, updates=3))
    state, _ = run(program, program.init(3), 1)
    other = sebulba_program(program.config)
    resumed = through_a_checkpoint(program, state)
    state, metrics = run(program, state, 1)
    resumed, again = run(other, resumed, 1)
    program.close()
    other.close()
    assert_identical(state, resumed)
    assert int(state.update) == 6 and len(state.acting) == lag
    assert int(state.pool.taken) == 6 and float(state.pool.games.sum()) > 20
    timed = ("time/",)
    assert {k: float(v) for k, v in metrics.items() if not k.startswith(timed)} == pytest.approx(
        {k: float(v) for k, v in again.items() if not k.startswith(timed)}, nan_ok=True, abs=0
    )
    assert metrics["train/policy_lag"] == lag
    assert (metrics["league/redealt"] > 0) == (league is ONE_SLOT)


def test_nothing_depends_on_timing_threads_or_queue(monkeypatch):
    """One engine thread or three, a slow learner or not, room for one waiting rollout or for three: the same state."""
    base = sebulba_config(seats=BOTS, sebulba={"lag": 2})
    states = []
    for number, change in enumerate(({"threads": 1, "queue": 1}, {"threads": 3, "queue": 3})):
        config = dataclasses.replace(base, sebulba=dataclasses.replace(base.sebulba, **change))
        program = sebulba_program(config)
        assert len(program.storages) == (2, 3)[number]
        state = program.init(0)
        for _ in range(2):
            state, _ = program.run(state)
            time.sleep(0.2 * number)  # the actors of the second one are always ahead of the learner
        program.close()
        states.append(state)
    assert_identical(*states)


def test_two_actors_play_the_games_of_one():
    """Actors and blocks only share the work: the same games, up to rounding of the network in other batches."""
    found = []
    for actors, groups in ((1, 1), (2, 2)):
        program = sebulba_program(sebulba_config(sebulba={"actors": actors, "groups": groups}, updates=1))
        first = program.init(0)
        state, _ = run(program, first, 1)
        program.close()
        found.append((first.lanes.blobs, state.lanes.blobs, state.env_steps))
    for one, two in zip(*found, strict=True):
        assert_identical(one, two)


def test_another_seed_gives_other_games():
    program = sebulba_program(sebulba_config())
    first, other, again = (program.init(seed) for seed in (0, 1, 0))
    assert np.any(first.lanes.blobs != other.lanes.blobs)
    assert_identical(first, again)
    assert_identical(
        jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), program.abstract_state.lanes),
        jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), first.lanes),
    )


DEVICES_PROGRAM = """
import json
import jax, numpy as np
from tests.sebulba_training import EVERYBODY, run, sebulba_config, sebulba_program
from tests.training import on_host
results = []
for devices in (1, 2):
    program = sebulba_program(sebulba_config(league=EVERYBODY, devices=devices, updates=1, sebulba={"actors": 2, "groups": 1}))
    state, metrics = run(program, program.init(0), 2)
    program.close()
    assert program.mesh.size == devices
    leaves = jax.tree.leaves(on_host((state.params, state.lanes.episode_return)))
    results.append([np.asarray(leaf, np.float64).ravel().tolist() for leaf in leaves])
print(json.dumps(results))
"""


def test_a_learner_on_two_devices_agrees_with_one():
    one, two = on_devices(DEVICES_PROGRAM, 2)
    for left, right in zip(one, two, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-5)


# ---- seats ----------------------------------------------------------------------------------------------------------


def test_staggered_games_are_not_in_step():
    program = sebulba_program(sebulba_config(num_envs=64, stagger=4))
    lanes = program.init(0).lanes
    running = lanes.episode == lanes.episode.min()
    np.testing.assert_array_equal(lanes.length[running], (np.arange(64) * 4 // 64)[running])
    assert set(lanes.length) == {0, 1, 2, 3}


def test_seats_are_held_for_a_whole_game_and_bots_play_inside_the_engine():
    """PufferLib 620 for actors: controllers change where a game ended only; every mix occurs; a bot's seat is never
    asked, and the learner's weight is that of its own decisions."""
    program = sebulba_program(sebulba_config(seats=BOTS, num_envs=32, updates=1, sebulba={"lag": 0}))
    state, metrics = run(program, program.init(0), 1)
    storage = program.storages[0]
    rows, controllers = storage.buffers, storage.controllers
    over = rows.terminated[1:] | rows.truncated[1:]
    changed = np.any(controllers[1:] != controllers[:-1], axis=-1)
    assert not np.any(changed & ~over[:-1]) and np.any(changed & over[:-1])
    assert set(np.unique(controllers)) == {0, 1, 2}
    seat = rows.current_player[:-1]
    assert np.all(np.take_along_axis(controllers, seat[..., None], axis=-1) == 0)
    # What the engine was told is what the learner thinks.
    np.testing.assert_array_equal(rows.controllers[1:], program.numbers[controllers])
    assert 0.0 < metrics["rollout/stat_stones"] < 6.0 and metrics["rollout/games"] == np.sum(over)
    assert int(state.games) == np.sum(over) and int(state.env_steps) == 32 * 12
    program.close()


def test_figures_are_those_of_the_learners_seats():
    """Against one bot: means over games and seats from the storage, by hand."""
    seats = (SeatMix(learners=1, bots=("lowest",)),)
    program = sebulba_program(sebulba_config(seats=seats, num_envs=32, updates=1, stagger=0, sebulba={"lag": 0}))
    _, metrics = run(program, program.init(0), 1)
    rows, controllers = program.storages[0].buffers, program.storages[0].controllers
    over = rows.terminated[1:] | rows.truncated[1:]
    own = (controllers == 0)[over]
    assert np.all(own.sum(axis=-1) == 1)
    returns = []
    for lane in range(32):
        total = np.zeros(2)
        for t in range(12):
            total += rows.rewards[t + 1, lane]
            if over[t, lane]:
                returns.append(total[controllers[t, lane] == 0][0])
                total = rows.opening[t + 1, lane].astype(float)
    assert metrics["rollout/ep_rew_mean"] == pytest.approx(np.mean(returns), abs=1e-6)
    stones = rows.stats[1:][over][..., 0][own]
    assert metrics["rollout/stat_stones"] == pytest.approx(stones.mean(), abs=1e-5)
    assert metrics["rollout/ep_len_mean"] == pytest.approx(rows.length[1:][over].mean(), abs=1e-5)
    for tag in ("time/engine_busy", "time/actor_wait", "time/learner_wait", "time/queue_depth"):
        assert 0.0 <= metrics[tag] < 10.0
    program.close()


def test_the_first_update_of_a_rollout_without_lag_has_a_ratio_of_one():
    """Actor and learner agree on the probabilities; without learning nothing is clipped and the divergence is 0."""
    config = sebulba_config(league=EVERYBODY, updates=1, epochs=1, minibatches=1, sebulba={"lag": 0})
    program = sebulba_program(config)
    _, metrics = run(program, program.init(0), 3)
    program.close()
    assert metrics["train/clip_fraction"] == 0.0 and abs(metrics["train/approx_kl"]) < 1e-9


def test_vtrace_with_a_lag_of_two_and_cut_games():
    """Games that are cut off, values of final observations, ratios that are not 1: all finite, and learnt from."""
    env = HostTicTacToe(opening=True, limit=6)
    config = sebulba_config(sebulba={"lag": 2}, updates=2)
    program = sebulba_program(config, env)
    assert program.learner.corrects
    before = program.init(0)
    state, metrics = run(program, before, 2)
    program.close()
    assert metrics["train/policy_lag"] == 2.0 and all(np.isfinite(float(v)) for v in metrics.values())
    assert np.any(program.storages[0].buffers.truncated)
    off = dataclasses.replace(config, sebulba=dataclasses.replace(config.sebulba, vtrace="off"))
    plain = sebulba_program(off, env)
    assert not plain.learner.corrects
    other, _ = run(plain, plain.init(0), 2)
    plain.close()
    assert np.any(np.asarray(other.params["heads"]["value"]["bias"]) != state.params["heads"]["value"]["bias"])


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_said():
    env, config = HostTicTacToe(), sebulba_config()

    def refused(change, game=env) -> str:
        with pytest.raises(UserError) as error:
            make_program(change, game)
        return str(error.value)

    assert "one seed at a time" in refused(dataclasses.replace(config, run=dataclasses.replace(config.run, seeds=2)))
    uneven = dataclasses.replace(config, sebulba=SebulbaConfig(groups=3))
    assert "sebulba.actors * sebulba.groups (3)" in refused(uneven)
    uneven = dataclasses.replace(config, sebulba=SebulbaConfig(groups=8), league=EVERYBODY)
    assert "league.snapshots" in refused(uneven)
    for loop, game, words in (("anakin", env, "lives on the host"), ("sebulba", TicTacToe(), "is compiled")):
        wrong = dataclasses.replace(config, train=dataclasses.replace(config.train, loop=loop))
        assert words in refused(wrong, game)


def test_a_configuration_for_the_host_is_checked_before_anything_starts():
    overrides = ["env.id=tests.host_games:HostTicTacToe", "run.seeds=2"]
    with pytest.raises(UserError, match="one seed at a time"):
        configs.load(None, overrides)
