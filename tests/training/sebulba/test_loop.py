"""Training with actors: results that do not depend on timing, seats, the pool, metrics."""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.games import GameForms, compare, make_games
from jaxrl.league.config import LeagueConfig
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl.training.sebulba.loop import Sebulba
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import HostTicTacToe
from tests.support.sebulba_training import sebulba_config, sebulba_program
from tests.support.training import assert_identical, run

# Rollouts are shorter than games, and one of two slots is overwritten after each: some games must be dealt again.
LEAGUE = LeagueConfig(opponents=("self", "snapshots", "bots"), snapshots=2, snapshot_every=1, half_life=50.0)


def league_program(*, updates: int = 1, **sebulba) -> Sebulba:
    config = sebulba_config(league=LEAGUE, num_steps=4, updates=updates, sebulba=sebulba)
    return sebulba_program(config)


# ---- timing ---------------------------------------------------------------------------------------------------------


def test_nothing_depends_on_timing_threads_or_queue(monkeypatch):
    """One engine thread or three, a slow learner or not, room for one waiting rollout or for three: the same state."""
    states = []
    for number, (threads, queue) in enumerate(((1, 1), (3, 3))):
        monkeypatch.setattr("jaxrl.training.sebulba.loop.QUEUE", queue)
        program = league_program(lag=2, threads=threads)
        assert len(program.storages) == (2, 3)[number]
        state = program.init(0)
        for _ in range(4):
            state, _ = run(program, state)
            time.sleep(0.1 * number)  # the actors of the second one are always ahead of the learner
        program.close()
        states.append(state)
    assert_identical(*states)


def test_two_actors_play_the_games_of_one():
    """Actors and blocks only share the work: the same games, unless rounding in other batches changes a choice."""
    found = []
    for actors, groups in ((1, 2), (2, 4)):
        program = league_program(actors=actors, groups=groups)
        first = program.init(0)
        state, _ = run(program, first, 1)
        program.close()
        found.append((first.lanes, state.lanes, state.env_steps))
    assert_identical(*found)


def test_another_seed_gives_other_games():
    program = league_program()
    first, other, again = (program.init(seed) for seed in (0, 1, 0))
    assert np.any(first.lanes.blobs != other.lanes.blobs)
    assert_identical(first, again)
    forms = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree) for tree in (first, program.abstract_state)]
    assert forms[0] == forms[1]


# ---- seats ----------------------------------------------------------------------------------------------------------


def test_staggered_games_are_not_in_step():
    program = sebulba_program(sebulba_config(num_envs=64, stagger=3))
    lanes = program.init(0).lanes
    assert np.all(lanes.length == np.arange(64) * 3 // 64)  # too few decisions to end a game


def test_seats_are_held_for_a_whole_game_and_bots_play_inside_the_engine():
    """PufferLib 620 for actors: controllers change only where a game ended or was dealt again; every opponent is met; a
    bot's seat is never asked; the engine is told what the learner thinks; metrics are those of the learner's seats."""
    program = league_program(lag=0)
    storage, state = program.storages[0], program.init(0)
    total, met, games = np.array(state.lanes.episode_return, np.float64), set(), 0
    held, over = state.lanes.controllers, np.zeros(16, bool)
    for _ in range(12):
        stale = np.asarray(state.pool.stale)
        seen = {name: [] for name in ("return", "stones", "length")}
        state, metrics = run(program, state)
        rows, controllers = storage.buffers, storage.controllers
        restarted = stale[held.max(axis=1)]
        assert metrics["league/redealt"] == restarted.sum()
        for t in range(4):
            began = restarted if t == 0 else over
            np.testing.assert_array_equal(controllers[t][~began], held[~began])
            held = controllers[t].copy()
            seat = rows.current_player[t]
            asked = held[np.arange(16), seat]
            assert set(asked) <= {0, 3, 4}  # the learner and two snapshots, not the two bots
            np.testing.assert_array_equal(rows.controllers[t + 1], program.host.numbers[held])
            over = rows.terminated[t + 1] | rows.truncated[t + 1]
            if t == 0:
                total[restarted] = rows.opening[0][restarted]
            total += rows.rewards[t + 1]
            own = over[:, None] & (held == 0)
            seen["return"] += total[own].tolist()
            seen["stones"] += rows.stats[t + 1][..., 0][own].tolist()
            seen["length"] += rows.length[t + 1][over].tolist()
            total[over] = rows.opening[t + 1][over]
            games += over.sum()
            met |= set(held.ravel())
        for tag, name in (("ep_rew_mean", "return"), ("stat_stones", "stones"), ("ep_len_mean", "length")):
            assert metrics[f"rollout/{tag}"] == pytest.approx(np.mean(seen[name]), abs=1e-5)
        held = np.array(held)
        held[over] = state.lanes.controllers[over]
        np.testing.assert_array_equal(held, state.lanes.controllers)
        np.testing.assert_allclose(state.lanes.episode_return, total, atol=1e-6)
    program.close()
    assert met == {0, 1, 2, 3, 4}
    assert int(state.games) == games and int(state.env_steps) == 12 * 16 * 4


def test_what_is_stored_is_what_the_network_says():
    """The log-ratio of the learner's decisions is 0 before the first update; storage is that of the engine."""
    program = league_program(lag=0)
    state = program.init(0)
    params = jax.device_get(state.learner.params)
    program.advance(state)
    program.close()
    storage = program.storages[0]
    rows, network = storage.buffers, program.algorithm.network
    for t in (0, 3):
        observation, mask = rows.observation[t], rows.legal_action_mask[t]
        _, logits, value = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))(params, (), observation, mask)
        probability = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
        probability /= probability.sum(axis=-1, keepdims=True)
        action = rows.action[t + 1]
        assert np.all(mask[np.arange(16), action])
        np.testing.assert_allclose(storage.value[t, :, 0], value, atol=1e-6)
        np.testing.assert_allclose(storage.log_prob[t, :, 0], np.log(probability[np.arange(16), action]), atol=1e-5)
    steps = storage.rollout(None, may_truncate=False).steps
    for weight, seat in ((steps.weight, rows.current_player[:-1]), (steps.final_weight, rows.final_player[1:])):
        held = np.take_along_axis(storage.controllers, seat[..., None], axis=-1)[..., 0] == 0
        np.testing.assert_array_equal(weight[..., 0], held & (seat >= 0))  # seat -1: no seat is asked
    assert (rows.final_player == -1).any() and (rows.final_player >= 0).any()
    big = program.storages[0].buffers.observation
    assert big.flags.c_contiguous and big.ctypes.data % (4096 if big.nbytes >= 4096 else 64) == 0


def test_vtrace_with_a_lag_of_two_and_cut_games():
    """Games that are cut off, values of final observations, ratios that are not 1: all finite."""
    config = sebulba_config(sebulba={"lag": 2}, updates=2, num_steps=6)
    program = sebulba_program(config, HostTicTacToe(opening=True, limit=6))
    assert program.algorithm._corrects
    state, metrics = run(program, program.init(0), 2)
    assert metrics["train/policy_lag"] == 2.0 and all(np.isfinite(float(v)) for v in metrics.values())
    assert np.any(program.storages[0].buffers.truncated)
    program.close()


@pytest.mark.thorough
def test_engine_threads_are_busy_where_the_engine_is_the_slowest_part():
    """One block is stepped while the network answers for the other."""
    config = sebulba_config(num_envs=16, num_steps=12, stagger=0, sebulba={"threads": 4})
    env = HostTicTacToe(opening=True)
    env.game.fault = lambda board, action: time.sleep(0.02)
    program = sebulba_program(config, env)
    _, metrics = run(program, program.init(0), 3)
    program.close()
    assert metrics["time/engine_busy"] > 0.9


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_said():
    env, config = HostTicTacToe(), sebulba_config()

    def refused(change) -> str:
        with pytest.raises(UserError) as error:
            compare(change, GameForms(env, env))
        return str(error.value)

    assert "one seed at a time" in refused(dataclasses.replace(config, run=dataclasses.replace(config.run, seeds=2)))
    uneven = dataclasses.replace(config, sebulba=SebulbaConfig(groups=3))
    assert "sebulba.actors * sebulba.groups (3)" in refused(uneven)
    uneven = dataclasses.replace(config, sebulba=SebulbaConfig(groups=16), league=LEAGUE)
    assert "league.snapshots" in refused(uneven)


def test_a_configuration_for_the_host_is_checked_before_anything_starts():
    overrides = ["env.id=tests.support.host_games:HostTicTacToe", "run.seeds=2"]
    with pytest.raises(UserError, match="one seed at a time"):
        make_games(configs.load(None, overrides))
