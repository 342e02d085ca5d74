"""The opponent pool: who is drawn, for how long, and with what weight."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.nim import Nim
from jaxrl import config as configs
from jaxrl.games import GameForms, compare, make_games
from jaxrl.league import pool as pools
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.league.seats import random_ranks
from jaxrl.runs.config import device_count
from jaxrl.training.anakin.rollout import collect
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, OneLoser, RockPaperScissors, TicTacToe
from tests.support.training import assert_close, assert_identical, on_devices, program, run, small_config, train

pytestmark = pytest.mark.thorough

EVERYBODY = LeagueConfig(opponents=("self", "snapshots", "bots"), snapshots=4, snapshot_every=1, half_life=50.0)


def league_config(league: LeagueConfig = EVERYBODY, **settings):
    return dataclasses.replace(small_config(**settings), league=league)


def filled(anakin, count: int, seed: int = 0):
    """The first state of a program whose pool holds `count` snapshots, of parameters that differ."""
    state = anakin.init(seed)
    pool, first = state.pool, jax.device_get(state.learner.params)
    for number in range(count):
        params = jax.tree.map(lambda leaf, n=number: leaf + np.float32(0.1 * (n + 1)), first)
        pool = pools.add_snapshot(pool, params, number)
    return state.replace(pool=pool)


# ---- seeds, devices -------------------------------------------------------------------------------------------


def test_several_seeds_are_trainings_of_their_own() -> None:
    _, both, metrics = train(TicTacToe(), league_config(seeds=2), 1, seed=5)
    single = program(TicTacToe(), league_config())
    for index in range(2):
        state, _ = run(single, single.init(5 + index))
        one = jax.tree.map(lambda leaf, i=index: leaf[i], both)
        assert_close(one.pool, state.pool, 1e-3)
        assert_close(one.replace(pool=None), state.replace(pool=None), 1e-4)
        assert_identical(one.lanes.env_state.board, state.lanes.env_state.board)
    assert metrics["league/share/self"].shape == (2,)


DEVICES_PROGRAM = """
import itertools, json
import jax, numpy as np
from jaxrl.networks.config import RecurrentConfig
from tests.league.test_pool import league_config
from tests.networks.test_normaliser import Physical, normalising
from tests.support.training import train, on_host
results = []
for kind, devices in itertools.product(("recurrent", "mlp"), (1, 2)):
    config = league_config(devices=devices, sequence=4)
    config = normalising(config, kind=kind, hidden=(16,), recurrent=RecurrentConfig(width=8))
    _, state, metrics = train(Physical(), config, 2)
    leaves = [jax.tree.leaves(on_host(tree)) for tree in (state.learner.params, state.lanes, state.pool)]
    results.append({
        "leaves": [np.asarray(leaf, np.float64).ravel().tolist() for part in leaves for leaf in part],
        "metrics": {name: float(value) for name, value in metrics.items() if value == value},
    })
print(json.dumps(results))
"""


def test_two_devices_agree_with_one() -> None:
    """Parameters with the statistics of a normaliser, lanes with their memories, and pool; also without a memory."""
    found = on_devices(DEVICES_PROGRAM, 2)
    for one, two in zip(found[::2], found[1::2], strict=True):
        for left, right in zip(one["leaves"], two["leaves"], strict=True):
            np.testing.assert_allclose(left, right, atol=2e-4, rtol=2e-4)
        for name, value in one["metrics"].items():
            np.testing.assert_allclose(two["metrics"][name], value, rtol=2e-3, atol=2e-4, err_msg=name)


# ---- who plays ----------------------------------------------------------------------------------------------------


@pytest.fixture(name="table", scope="module")
def _table():
    """64 lanes with four snapshots in the pool, and a compiled step of them."""
    anakin = program(HighCard(), league_config(num_envs=64))
    state, ids = filled(anakin, 4), jnp.arange(64, dtype=jnp.uint32)
    policy = anakin.algorithm.policy(state.learner, state.update)

    @jax.jit
    def one_step(lanes, pool, t):
        key = jax.random.fold_in(prng.fast_key(1), t)
        lanes, rollout, sums = collect(anakin.setup, policy, pool, lanes, key, ids, 1)
        return lanes, rollout.steps, sums

    return state, one_step


def test_opponents_stay_for_a_game_and_are_one_per_game(table) -> None:
    """PufferLib 620: controllers change where a game ended only; all entries occur; copies of one fill the seats."""
    state, one_step = table
    pool = state.pool.replace(stale=jnp.zeros(8, bool))
    lanes, drawn, games = state.lanes, set(), np.zeros(8)
    for t in range(60):
        before = np.asarray(lanes.controllers)
        lanes, steps, sums = one_step(lanes, pool, t)
        after, over = np.asarray(lanes.controllers), np.asarray(steps.terminated[0])
        np.testing.assert_array_equal(after[~over], before[~over])
        seat = np.asarray(steps.seat[0, :, 0])
        np.testing.assert_array_equal(steps.weight[0, :, 0], before[np.arange(64), seat] == 0)
        ended = before[over].max(axis=1)
        np.testing.assert_array_equal(sums.results.games, np.bincount(ended, minlength=8))
        games += np.bincount(ended, minlength=8)
        drawn |= set(after.max(axis=1))
        opponents = after[after.max(axis=1) > 0]
        assert np.all(np.sum(opponents == 0, axis=1) == 1), "one learner's seat against copies of one opponent"
        assert np.all(np.sum(opponents == opponents.max(axis=1, keepdims=True), axis=1) == 2)
        slot = after.max(axis=1) - 4
        assert np.all((slot < 0) | (slot == np.arange(64) % 4)), "lane l meets slot l mod K only"
    assert drawn == set(range(8)) - {4}, "slot 0 is overwritten next: it rests"
    assert games[0] > 0 and games[4] == 0


@pytest.mark.parametrize("env", [HighCard(), RockPaperScissors()], ids=lambda env: env.id)
def test_the_opponent_in_the_seat_acts(env) -> None:
    """A snapshot's decisions are those of the parameters in its slot, a bot's are not the network's."""
    league = LeagueConfig(opponents=("snapshots", "random"), snapshots=4, snapshot_every=0)
    anakin = program(env, league_config(league, num_envs=64))
    state = anakin.init(0)
    pool = state.pool
    favourite = np.arange(6) % 3  # by controller: snapshots that choose one action wherever it is legal
    for entry in range(2, 6):
        params = jax.tree.map(jnp.zeros_like, state.learner.params)
        params["heads"]["policy"]["bias"] = 100.0 * (jnp.arange(env.num_actions) == favourite[entry])
        pool = pools.add_snapshot(pool, params, 0)
    ids = jnp.arange(64, dtype=jnp.uint32)
    policy = anakin.algorithm.policy(state.learner, state.update)

    @jax.jit
    def two_steps(lanes, pool, seed):
        lanes, rollout, sums = collect(anakin.setup, policy, pool, lanes, prng.fast_key(seed), ids, 2)
        return lanes, rollout.steps, sums

    lanes, _, sums = two_steps(state.lanes, pools.redeal_all(pool), 1)
    assert sums.results.redealt == 64
    _, steps, _ = two_steps(lanes, pool.replace(stale=jnp.zeros_like(pool.stale)), 2)
    held = np.asarray(lanes.controllers)[np.arange(64)[:, None], np.asarray(steps.seat[0])]  # [B, S]
    legal = (np.asarray(steps.mask[0])[..., 0] >> favourite[held]) & 1 == 1
    as_liked = np.asarray(steps.action[0]) == favourite[held]
    assert set(held.ravel()) == {0, 1, 3, 4, 5}  # slot 0 rests
    for entry in (3, 4, 5):
        assert np.any(legal & (held == entry)) and np.all(as_liked[legal & (held == entry)])
    for entry in (0, 1):
        assert np.any(~as_liked[legal & (held == entry)])


def test_a_resting_slot_is_overwritten_without_a_trace() -> None:
    """In training with a snapshot after every update no game is left against the slot that is overwritten."""
    anakin = program(TicTacToe(), league_config())
    state, metrics = run(anakin, filled(anakin, 4))
    assert int(state.pool.order.max()) == 5 and np.array_equal(state.pool.born, [1, 2, 2, 3])
    np.testing.assert_array_equal(state.pool.stale, np.arange(7) == 4)  # the last written
    assert not np.any(np.asarray(state.lanes.controllers) == 4) and metrics["league/redealt"] == 0
    pair = (state.learner.params, state.pool.snapshots)
    for leaf, all_slots in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_array_equal(leaf, all_slots[1])


def test_a_new_snapshot_in_a_slot_has_no_results_yet() -> None:
    """Games and score of the one before do not count for it, and it is as strong as the learner."""
    anakin = program(TicTacToe(), league_config())
    state, numbers = filled(anakin, 4), jnp.arange(7.0)
    pool = state.pool.replace(games=10 + numbers, score=numbers, elo=1000 + numbers)
    after = pools.add_snapshot(pool, state.learner.params, 9)
    new = np.arange(7) == 3  # slot 0, behind the learner and two bots
    for name, fresh in (("games", 0.0), ("score", 0.0), ("elo", 1000.0)):
        before = np.asarray(getattr(pool, name))
        np.testing.assert_array_equal(getattr(after, name), np.where(new, np.float32(fresh), before), err_msg=name)


def test_games_against_an_overwritten_snapshot_are_dealt_again(table) -> None:
    """Where a slot had no time to rest, its unfinished games do not go on with another opponent."""
    state, one_step = table
    lanes, _, _ = one_step(state.lanes, pools.redeal_all(state.pool), 0)
    pool = state.pool.replace(stale=jnp.zeros(8, bool))
    lanes, _, _ = one_step(lanes, pool, 1)
    controllers = np.asarray(lanes.controllers)
    params = state.learner.params
    pool = pools.add_snapshot(pools.add_snapshot(pool, params, 9), params, 9)  # slots 0 and 1
    hit = controllers.max(axis=1) == 5
    assert np.any(hit) and not np.any(controllers == 4)
    after, _, sums = one_step(lanes, pool, 2)
    assert sums.results.redealt == np.sum(hit)
    np.testing.assert_array_equal(np.asarray(after.episode_length), np.where(hit, 1, 3))
    np.testing.assert_array_equal(np.asarray(after.controllers)[~hit], controllers[~hit])


def test_results_are_the_best_seats() -> None:
    seats = program(HighCard(), league_config()).setup.seats
    cases = [  # controllers, returns, entry, score
        ([0, 2, 2], [1.0, 0.5, -1.0], 2, 1.0),
        ([2, 0, 2], [1.0, 1.0, -1.0], 2, 0.5),
        ([2, 2, 0], [1.0, 0.0, 0.5], 2, 0.0),
        ([0, 0, 5], [-1.0, 1.0, 0.5], 5, 1.0),
        ([0, 0, 0], [1.0, 0.0, 0.5], 0, 0.5),
        ([0, 2, 2], [np.float32(0.1) + np.float32(0.2), 0.3, 0.0], 2, 0.5),  # equal up to rounding
    ]
    for controllers, returns, entry, score in cases:
        for over in (True, False):
            result = seats.results(jnp.array(controllers, jnp.int8), jnp.array(returns), jnp.bool_(over))
            np.testing.assert_array_equal(result.games, over * (np.arange(8) == entry))
            np.testing.assert_array_equal(result.score, over * score * (np.arange(8) == entry))


def test_equal_numbers_have_different_ranks() -> None:
    """One side alone is the learner's also where two draw the same number."""
    assert random_ranks(jnp.array([0.5, 0.25, 0.5, 0.75, 0.25])).tolist() == [2, 0, 3, 4, 1]


def test_results_are_the_outcomes_of_the_game() -> None:
    """Two of three win: each of them has won, as in evaluations, and neither is ahead of the other."""
    seats = pools.make_league(league_config(), OneLoser())
    for controllers, score, points in (([0, 2, 2], 1.0, 0.5), ([2, 2, 0], 0.0, 0.0), ([0, 2, 0], 1.0, 0.5)):
        result = seats.results(jnp.array(controllers, jnp.int8), jnp.array([1.0, 1.0, -2.0]), jnp.bool_(True))
        assert (result.score[2], result.points[2]) == (score, points)
    wild = jnp.array([2.0, 1.0, -3.0])
    result = seats.results(jnp.array([2, 0, 2], jnp.int8), wild, jnp.bool_(True))
    assert (result.score[2], result.points[2]) == (1.0, 0.5), "another return has not won more"


# ---- weights and ratings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weighting, expected",
    [
        ("adaptive", [0.05, 1.0, 0.5]),
        ("pfsp_hard", [0.05, 1.0, 0.25]),
        ("pfsp_even", [0.05, 0.05, 0.25]),
        ("fixed", [1.0, 3.0, 1.0]),
    ],
)
def test_weights(weighting: str, expected: list[float]) -> None:
    """Win rates 1, 0 and 1/2: at the ends the floor holds."""
    weights = {"lowest": 3.0} if weighting == "fixed" else {}
    league = LeagueConfig(opponents=("bots", "self"), self_play=0.1, weighting=weighting, weights=weights)
    seats = pools.make_league(league_config(league), HighCard())
    fresh, games = seats.init({}), jnp.float32(1e9)
    pool = fresh.replace(games=jnp.full(4, games), score=games * jnp.array([0.5, 1.0, 0.0, 0.5]))
    share = np.asarray(seats.shares(pool))
    np.testing.assert_allclose(share[1:], 0.9 * np.array(expected) / np.sum(expected), rtol=1e-5)
    assert share[0] == np.float32(0.1)
    equal = np.array([1.0, 3.0, 1.0] if weighting == "fixed" else [1.0, 1.0, 1.0])
    np.testing.assert_allclose(seats.shares(fresh)[1:], 0.9 * equal / np.sum(equal), rtol=1e-5)


def test_names_are_in_the_order_of_controllers() -> None:
    seats = program(HighCard(), league_config()).setup.seats
    names = ("self", "random", "lowest", "highest", *(f"snapshot_{slot}" for slot in range(4)))
    assert seats.names == names


def test_shares_of_snapshots() -> None:
    """Empty and resting slots are not drawn; the lanes' shares add up to the wanted ones, up to 1 / K a slot."""
    seats = pools.make_league(league_config(), HighCard())
    params = {"x": jnp.zeros(3)}
    pool = seats.init(params)
    np.testing.assert_allclose(seats.shares(pool), [0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0], rtol=1e-5)
    for count in range(1, 7):
        pool = pools.add_snapshot(pool, {"x": jnp.full(3, count)}, count)
        there = np.arange(4) < count
        there[count % 4] = False
        expected = 0.75 * np.concatenate([np.ones(3), there]) / (3 + there.sum())
        np.testing.assert_allclose(seats.shares(pool), np.concatenate([[0.25], expected]), rtol=1e-5)
        table = np.asarray(seats.lane_shares(pool))
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-5)
        np.testing.assert_array_equal(table[:, 4:] * (1 - np.eye(4)), 0.0)
    np.testing.assert_array_equal(pool.born, [5, 6, 3, 4])
    np.testing.assert_array_equal(pool.snapshots["x"][:, 0], [5, 6, 3, 4])


def test_a_share_above_one_lane_in_k_goes_to_the_others() -> None:
    league = LeagueConfig(opponents=("self", "snapshots"), self_play=0.2, snapshots=4, snapshot_every=0)
    seats = pools.make_league(league_config(league), HighCard())
    pool = seats.init({})
    np.testing.assert_array_equal(seats.shares(pool), [1, 0, 0, 0, 0])
    pool = pools.add_snapshot(pool, {}, 0)
    np.testing.assert_allclose(seats.wanted_shares(pool), [0.2, 0.8, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(seats.shares(pool), [0.75, 0.25, 0, 0, 0], rtol=1e-6)
    alone = pools.make_league(league_config(dataclasses.replace(league, opponents=("snapshots",), snapshots=1)), Nim())
    pool = pools.add_snapshot(alone.init({}), {}, 0)
    np.testing.assert_array_equal(alone.shares(pool), [0, 1])  # one slot: drawn until it is overwritten


def test_an_opponent_without_a_share_is_not_drawn() -> None:
    seats = pools.make_league(league_config(num_envs=4000), HighCard())
    pool = pools.add_snapshot(seats.init({}), {}, 0)
    odds = seats.odds(pool, jnp.arange(4000, dtype=jnp.uint32))
    controllers = jax.vmap(seats.deal)(jax.random.split(jax.random.key(0), 4000), odds)
    share = np.bincount(np.asarray(controllers).max(axis=1), minlength=8) / 4000
    np.testing.assert_allclose(share, seats.shares(pool), atol=0.03)
    assert np.all(share[5:] == 0)
    learner = np.mean((np.asarray(controllers) == 0)[np.asarray(controllers).max(axis=1) > 0], axis=0)
    np.testing.assert_allclose(learner, 1 / 3, atol=0.04)


def test_elo_finds_the_strength() -> None:
    """Opponents 200 points apart are found from expected results, in small batches and in large ones; one seat against
    two equals is expected to win a third of the games."""
    seats = pools.make_league(league_config(LeagueConfig(opponents=("bots",))), HighCard())
    true = np.array([1150.0, 1000.0, 1200.0, 1350.0])  # learner, random (the anchor), lowest, highest
    win = 1.0 / (1.0 + 2.0 * 10.0 ** ((true - true[0]) / 400.0))
    for games in (2.0, 50.0, 5000.0):
        elo = jnp.full(4, 1000.0)
        played = jnp.array([0.0, games, games, games])
        results = pools.Results(played, played * win, played * win, jnp.float32(0.0))
        step = jax.jit(lambda elo, results=results: seats.rate(elo, results))
        for _ in range(1500):
            elo = step(elo)
        np.testing.assert_allclose(elo, true, atol=2.0)


def test_old_results_fade() -> None:
    seats = pools.make_league(league_config(), HighCard())
    pool = seats.init({})
    lost = pools.Results(jnp.zeros(8).at[1].set(50.0), jnp.zeros(8), jnp.zeros(8), jnp.float32(0.0))
    won = lost._replace(score=lost.games)
    pool = seats.learn(seats.learn(pool, lost), won)  # 50 games are the half-life
    np.testing.assert_allclose(pool.games[1], 75.0, rtol=1e-6)
    np.testing.assert_allclose(pool.score[1], 50.0, rtol=1e-6)
    np.testing.assert_allclose(pools.win_rates(pool)[1], 52.0 / 79.0, rtol=1e-6)
    assert pools.win_rates(pool)[2] == 0.5


# ---- nothing without a league, clear errors with a wrong one --------------------------------------------------------


def test_without_a_league_there_is_no_pool() -> None:
    anakin = program(TicTacToe(), small_config())
    assert anakin.abstract_state.pool is None
    metrics = jax.eval_shape(anakin.compiled, anakin.abstract_state)[1]
    assert metrics and not [name for name in metrics if name.startswith("league/")]


def test_league_and_other_keys() -> None:
    league = {"opponents": ["self", "snapshots"], "snapshots": 4}
    tree = {"env": {"id": "tests.support.games:HighCard"}, "league": league}
    with pytest.raises(UserError, match="seats and league.opponents"):
        configs.from_dict(tree | {"seats": [{"learners": 1, "bots": ["random"]}]})
    with pytest.raises(UserError, match="one seat only"):
        make_games(configs.from_dict(tree | {"env": {"id": "tests.support.games:Corridor"}}))
    settings = {"num_envs": 520, "num_steps": 64}
    config = configs.from_dict(tree | {"train": settings})
    assert device_count(config, 8) == 2  # 520 = 4 * 2 * 65
    with pytest.raises(UserError, match=r"train.num_envs \(520\).*run.devices \* league.snapshots \(16\).*512"):
        configs.from_dict(tree | {"train": settings, "run": {"devices": 4}})
    with pytest.raises(UserError, match="one seat only"):
        compare(league_config(), GameForms(Corridor(), Corridor()))
    assert LeagueConfig() == small_config(seats=(SeatMix(),)).league
