"""The league: by which rule opponents are drawn, who is promoted and pruned, exploiters, ratings of all members."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.nim import Nim
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.league import pool as pools
from jaxrl.league.config import LeagueConfig
from jaxrl.league.elo import points
from jaxrl.matches.config import EvaluateConfig
from jaxrl.matches.outcomes import GameTally
from jaxrl.networks.config import NetworkConfig
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.training.config import ExploitConfig
from jaxrl.training.exploit import league as leagues
from jaxrl.training.exploit.best_response import Exploiter, lead
from jaxrl.training.exploit.league import members_table
from jaxrl.training.exploit.snapshots import insert_snapshot
from jaxrl.training.make import make_program
from jaxrl.training.sebulba.config import SebulbaConfig
from jaxrl_envs.shared.section import Schedule
from tests.support.games import HighCard, TicTacToe
from tests.support.host_games import HostTicTacToe
from tests.support.training import assert_identical, program, run, small_config

LARGEST, HOLE, CERTAIN = 9, 6, 4.0
FULL = LeagueConfig(opponents=("self", "snapshots", "bots"), snapshots=4, snapshot_every=1, margin=100.0)


def league_config(league: LeagueConfig, **settings):
    return dataclasses.replace(small_config(**settings), league=league)


def seats_of(env, league: LeagueConfig, **settings) -> pools.League:
    return pools.make_league(league_config(league, **settings), env)


def members(seats: pools.League, elo: list[float], born: list[int]) -> pools.PoolState:
    """A pool with snapshots of these births (-1: none), and ratings of all controllers."""
    born_at = jnp.array(born, jnp.int32)
    order = jnp.where(born_at < 0, -1, jnp.arange(len(born)))
    return seats.init({}).replace(elo=jnp.array(elo, jnp.float32), born=born_at, order=order)


# ---- who is met -----------------------------------------------------------------------------------------------------


def test_opponents_are_drawn_as_their_weights_say():
    """Shares of 20,000 drawn games within four standard deviations of the formula's."""
    games = 20_000
    league = LeagueConfig(opponents=("self", "snapshots", "bots"), snapshots=4, self_play=0.4, weighting="elo")
    seats = seats_of(HighCard(), league, num_envs=64, updates=2, calls=50)
    elo = [1100.0, 1000.0, 950.0, 1500.0, 1300.0, 1090.0, 1300.0, 700.0]
    pool = members(seats, elo, [20, 60, 90, 100])  # slot 0 rests; the run has 100 updates
    weight = np.maximum(np.exp(-np.abs(np.array(elo[1:]) - elo[0]) / 200), league.floor)
    weight[3] = 0.0
    expected = np.concatenate([[0.4], 0.6 * weight / weight.sum()])
    np.testing.assert_allclose(seats.wanted_shares(pool), expected, rtol=1e-5)
    assert expected[4:].max() <= 1 / 4, "no slot wants more games than it can take"
    odds = seats.odds(pool, jnp.arange(games, dtype=jnp.uint32))
    drawn = jax.jit(jax.vmap(seats.deal))(jax.random.split(jax.random.key(3), games), odds)
    share = np.bincount(np.asarray(drawn).max(axis=1), minlength=8) / games
    assert (np.abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / games)).all()


# ---- who comes and who leaves ---------------------------------------------------------------------------------------


def test_a_snapshot_is_promoted_by_what_the_policy_has_gained():
    seats = seats_of(TicTacToe(), FULL)
    params = {"w": jnp.zeros(2)}
    pool = seats.renew(seats.init(params), params, jnp.int32(1))
    assert pool.born.tolist() == [1, -1, -1, -1] and pool.mark == 1000.0, "the first one always is"
    for number, rating, born in (
        (2, 1099.0, [1, -1]),
        (3, 1100.0, [1, 3]),
        (4, 1150.0, [1, 3]),
        (5, 1201.0, [1, 3, 5]),
    ):
        pool = seats.renew(pool.replace(elo=pool.elo.at[0].set(rating)), params, jnp.int32(number))
        assert pool.born.tolist()[: len(born)] == born and (pool.born >= 0).sum() == len([b for b in born if b > 0])
    assert pool.mark == 1201.0 and pool.elo[3:6].tolist() == [1000.0, 1100.0, 1201.0]
    always = seats_of(TicTacToe(), dataclasses.replace(FULL, margin=0.0))
    assert always.renew(pool, params, jnp.int32(6)).born.tolist() == [1, 3, 5, 6]


def test_who_falls_far_below_is_pruned_and_its_place_is_free():
    seats = seats_of(TicTacToe(), FULL)
    pool = members(seats, [1400.0, 1000.0, 1000.0, 1100.0, 1099.0, 1150.0, 1390.0], [1, 2, 3, 4])
    assert seats.drawable(pool).tolist() == [True, True, False, True, True, True], "the oldest rests"
    no_results = seats.no_results()
    after = seats.learn(pool, no_results)
    assert after.born.tolist() == [1, -1, 3, 4], "301 points below; 300 are not enough, and bots stay"
    assert seats.drawable(after).tolist() == [True, True, True, False, True, True], "the oldest need not rest"
    assert seats.shares(after)[4] == 0.0 and math.isnan(
        float(seats.metrics(after, no_results)["league/elo/snapshot_1"].amount)
    )
    after = pools.add_snapshot(after, {}, 9, np.int8(pools.EXPLOITER), np.float32(70.0))
    assert after.born.tolist() == [1, 9, 3, 4] and after.role.tolist() == [0, 1, 0, 0]
    assert after.order.tolist() == [0, 4, 2, 3] and after.elo[4] == 1470.0 and after.stale.tolist()[4]
    assert after.mark == pool.mark, "an exploiter is no gain of the policy"
    assert pools.add_snapshot(after, {}, 10).born.tolist() == [10, 9, 3, 4], "full: the oldest goes"
    kept = seats_of(TicTacToe(), dataclasses.replace(FULL, margin=0.0))
    assert kept.learn(pool, no_results).born.tolist() == [1, 2, 3, 4]


def test_equals_keep_their_ratings_however_many_sides_they_hold():
    """One seat against two equals wins a third of the games; the ratings of a pool must not run away for that."""
    league = LeagueConfig(opponents=("self", "snapshots"), snapshots=1)
    seats = seats_of(HighCard(), league)
    elo, games = jnp.array([1000.0, 1000.0]), jnp.array([0.0, 300.0])
    after = seats.rate(elo, pools.Results(games, games / 3, games / 3, jnp.float32(0.0)))
    np.testing.assert_allclose(after, elo, atol=1e-3)
    assert lead(GameTally(100, 0, 200), 3) == pytest.approx(0.0) and lead(GameTally(50, 0, 50), 2) == 0.0
    assert lead(GameTally(298, 2, 0), 2) == pytest.approx(points(301 / 304))


# ---- exploiters -----------------------------------------------------------------------------------------------------


def with_a_hole() -> np.ndarray:
    """f64[LARGEST + 1, 3]: perfect play of Nim with some noise, but of six stones it takes one instead of two."""
    wanted = [(stones % 4 or 1) - 1 for stones in range(LARGEST + 1)]
    wanted[HOLE] = 0
    return CERTAIN * np.eye(3)[wanted]


def exploitability() -> float:
    """What the best response earns against that policy, which against itself earns nothing; exact."""
    logits = with_a_hole()

    def odds(stones: int) -> np.ndarray:
        weight = np.exp(logits[stones]) * (np.arange(1, 4) <= stones)
        return weight / weight.sum()

    @functools.cache
    def of_mover(stones: int, mover_is_best: bool, against_best: bool) -> float:
        """Value of the one who moves."""
        after = [
            1.0 if take == stones else -of_mover(stones - take, against_best, mover_is_best)
            for take in range(1, min(3, stones) + 1)
        ]
        return max(after) if mover_is_best else float(odds(stones)[: len(after)] @ after)

    piles = range(1, LARGEST + 1)
    return float(np.mean([(of_mover(n, True, False) - of_mover(n, False, True)) / 2 for n in piles]))


@pytest.mark.thorough
def test_an_exploiter_finds_the_planted_weakness_and_the_main_agent_closes_it(monkeypatch):
    # A linear policy, in which a weakness can be planted; configurations have a dense layer.
    monkeypatch.setattr(NetworkConfig, "check", lambda self, config: None)
    env = Nim(largest=LARGEST)
    league = LeagueConfig(opponents=("self", "snapshots"), snapshots=2, snapshot_every=0, self_play=0.25, margin=50.0)
    config = league_config(
        league,
        hidden=(),
        num_envs=64,
        num_steps=16,
        updates=20,
        calls=2,
        minibatches=4,
        clip=0.2,
        learning_rate=Schedule("constant", 0.05),
    )
    config = dataclasses.replace(
        config,
        evaluate=EvaluateConfig(deals=300),
        exploit=ExploitConfig(every=2, updates=40, seeds=2, learning_rate=0.05, num_envs=64),
    )
    params = make_algorithm(config, env).network.init(jax.random.key(0))
    hole = {"kernel": jnp.asarray(with_a_hole(), jnp.float32), "bias": jnp.zeros(3)}
    params = params | {"heads": params["heads"] | {"policy": hole}}

    found = Exploiter(config, env, env)(params, update=7)
    best = exploitability()
    assert best == pytest.approx(0.353, abs=1e-3)
    assert found.gain.mean > 0.75 * best and found.returned.mean < best + 2 * found.returned.half
    assert found.lead > 50.0

    main = program(env, config)
    state = main.init(0)
    state = state.replace(learner=state.learner.replace(params=jax.tree.map(jnp.array, params)))
    state = leagues.join(main, state, [found], 7)
    assert state.pool.role.tolist() == [pools.EXPLOITER, pools.PAST] and state.pool.born.tolist() == [7, -1]
    assert state.pool.elo[1] == pytest.approx(1000.0 + found.lead, abs=1e-3)
    assert "| exploiter | 7 " in leagues.tables(main, state, "nim", 0)[0]
    weak = leagues.join(main, state, [found._replace(lead=49.0)], 8)
    assert weak.pool.born.tolist() == [7, -1], "it exploits too little to join"

    def mends(state) -> float:
        head = state.learner.params["heads"]["policy"]
        return float(jax.nn.softmax(head["kernel"][HOLE] + head["bias"])[1])

    before = mends(state)
    for _ in range(2):
        state, metrics = run(main, state)
    assert before < 0.02 and mends(state) > 0.9
    assert found.tally.rates()[0] > 0.6 and metrics["league/win_rate/snapshot_0"] > 0.45, "perfect play draws even"


def test_only_the_seeds_whose_exploiters_are_better_get_them():
    anakin = program(TicTacToe(), league_config(FULL, seeds=2))
    state = anakin.init(0)
    after = insert_snapshot(anakin, state, state.learner.params, 5, role=pools.EXPLOITER, leads=[None, 120.0])
    assert after.pool.born.tolist() == [[-1] * 4, [5, -1, -1, -1]]
    assert after.pool.elo[1, 3] == 1120.0 and after.pool.role[:, 0].tolist() == [0, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("env", [TicTacToe(), HostTicTacToe(opening=True)], ids=lambda env: env.id)
def test_roles_and_ratings_resume_exactly(env):
    """An exploiter in the pool, snapshots that come and go: N updates, a checkpoint and N more are 2 N updates."""
    league = dataclasses.replace(FULL, margin=1.0, weighting="elo", half_life=50.0)
    config = league_config(league, updates=4, calls=50, stagger=5)
    config = dataclasses.replace(config, sebulba=SebulbaConfig(threads=2, timeout=30.0, lag=1))
    anakin = make_program(config, env)
    state = anakin.init(1)
    exploiter = jax.tree.map(lambda leaf: leaf + np.float32(0.1), jax.device_get(state.learner.params))
    state = insert_snapshot(anakin, state, exploiter, 0, role=pools.EXPLOITER, leads=[30.0])
    state, _ = run(anakin, anakin.begin(state))
    packed = checkpoint.pack(anakin.saved(state))
    packed = ({name: array.copy() for name, array in packed[0].items()}, packed[1])
    state, _ = run(anakin, state)
    again, _ = run(anakin, anakin.restored(checkpoint.unpack(*packed, anakin.abstract_state)))
    anakin.close()
    assert_identical(state, again)
    assert packed[0]["pool.role"].tolist() == [pools.EXPLOITER] + [pools.PAST] * 3 and packed[0]["pool.born"][1] > 0
    assert state.pool.role[0] == pools.EXPLOITER and np.isfinite(state.pool.mark)
    assert state.pool.games[3] > 0, "the exploiter was met"


# ---- ratings --------------------------------------------------------------------------------------------------------


def rated(league: LeagueConfig, env) -> tuple[pools.League, pools.PoolState]:
    """Some results: 60 of 100 games won against everybody met; slot 0 is an exploiter, slot 2 was never met."""
    seats = seats_of(env, league)
    entries = len(seats.names)
    pool = members(seats, [1234.0] * entries, [4, 8, 9, -1])
    met = np.ones(entries, bool)
    met[[-1, -2]] = False
    games = jnp.asarray(np.where(met, 100.0, 0.0), jnp.float32)
    return seats, pool.replace(games=games, score=0.6 * games, role=jnp.array([1, 0, 0, 0], jnp.int8))


def test_the_table_of_the_members():
    lines = members_table(*rated(FULL, TicTacToe())).splitlines()
    rows = {cells[1]: cells[2:-1] for line in lines if (cells := [cell.strip() for cell in line.split("|")])}
    assert list(rows) == ["member", "-" * 12, "self", "random", "lowest", "snapshot_0", "snapshot_1", "snapshot_2"]
    assert rows["self"][:2] == ["main", "-"] and rows["self"][-3:] == ["-", "-", "1234"]
    assert rows["snapshot_0"][:2] == ["exploiter", "4"] and rows["snapshot_0"][2] == rows["random"][2]
    assert rows["snapshot_1"] == ["past", "8", rows["snapshot_1"][2], "100", "60.0", "1234"]
    assert rows["snapshot_2"][3:5] == ["0", "-"]
    table = members_table(seats_of(TicTacToe(), FULL), seats_of(TicTacToe(), FULL).init({}))
    assert "| self " in table and "snapshot" not in table
