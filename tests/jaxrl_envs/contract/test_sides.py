"""Teams: the player of a side holds all its seats, and everything that counts games counts sides."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.algorithms.registry import trained_player
from jaxrl.games import GameForms, compare
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.league.pool import make_league
from jaxrl.league.seats import make_mixed_seats
from jaxrl.matches.deals import FINAL_DEALS, samples_of
from jaxrl.matches.evaluate import Matchup, evaluate_players
from jaxrl.matches.match import GameKeys, Games, SeatedPlayer, play_match
from jaxrl.matches.tables import format_table
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.player import Player, bot_player
from jaxrl.search.player import make_search
from jaxrl.search.policies import bot_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl.training.strength.evaluation import TrainingEvaluation
from jaxrl_envs import conformance
from jaxrl_envs.contract.sides import of_sides
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.games import HighCard, OneAgainstTwo, Signals
from tests.support.host_games import HostSignals
from tests.support.training import small_config, train

pytestmark = pytest.mark.thorough

SILENT = Player("silent", lambda params, memory, state, key: (jnp.int32(0), memory))
LEAGUE = LeagueConfig(opponents=("self", "random", "optimal"), self_play=0.5, weighting="adaptive")


def bots_of(env, *names: str) -> list[Player]:
    return [bot_player(env, name) for name in names]


def test_the_games_keep_the_contract():
    for env in (Signals(), HostSignals()):
        report = conformance.check(env, games=8)
        assert report.ok, report
    assert "4 seats on 2 sides" in str(report)


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ((0, 1), "2 entries for 3 seats"),
        ((0, 2, 2), "numbered 0, 1"),
        ((1, 0, 2), "seat i is side i"),
        ([0, 1, 1], "tuple"),
    ],
)
def test_sides_that_are_none(sides, said):
    class Wrong(HighCard):
        pass

    Wrong.sides = sides
    assert said in conformance.check(Wrong(), games=2, only=["attributes"]).failures["attributes"]


def test_what_a_side_earns():
    values = np.array([[3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(of_sides(values, (0, 1, 1)), [[3.0, 1.5]])
    np.testing.assert_array_equal(jax.jit(lambda x: of_sides(x, (0, 1, 1)))(values), [[3.0, 1.5]])
    assert of_sides(values, (0, 1, 2)) is values


# ---- matches --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def row():
    random, optimal = bots_of(Signals(), "random", "optimal")
    return evaluate_players(Signals(), [optimal], [random], deals=60, seed=1)[0]


def test_a_team_that_wins_every_game_is_counted_so(row):
    assert row.samples.games == 120 and row.samples.outcomes.tally().rates() == (1.0, 0.0, 0.0)
    assert [tally.games for tally in row.samples.outcomes.by_place()] == [60, 60]
    assert row.samples.candidate["right"].min() == 6.0
    opposite = row.samples.opponents["right"].mean()
    assert abs(opposite - 1.5) < 4 * np.sqrt(6 * 3 / 16 / 120), "one of four"
    np.testing.assert_allclose(row.samples.candidate["return"], -row.samples.opponents["return"], atol=1e-6)
    record = row.record()["outcomes"]
    assert [side["wins"] for side in record["by_side"]] == [60, 60] and "by_seat" not in record


def test_the_tables_speak_of_sides(row, capsys):
    assert "on side 0 / 1" in format_table([row], Signals()) and "| opponent |" in format_table([row], Signals())
    command = ["evaluate", "bot:optimal", "--opponents", "random", "--deals", "4", "run.cache_dir=''"]
    assert cli.main([*command, "env.id=tests.support.games:Signals"]) == 0
    assert "4 deals x 2 sides" in capsys.readouterr().out


def test_live_games_count_sides_too():
    env = HostSignals(remote=True)
    random, optimal = bots_of(env, "random", "optimal")
    samples = Matchup(env, optimal, [random], deals=30, seed=1).play()
    assert samples.games == 60 and samples.outcomes.tally().rates() == (1.0, 0.0, 0.0)
    samples = Matchup(env, optimal, [SILENT], deals=10, seed=1).play()
    assert samples.outcomes.tally().wins == 20 and samples.outcomes.place == "side"


def test_a_tournament_of_teams():
    env = Signals()
    results = Tournament(env, [*bots_of(env, "random", "optimal"), SILENT], deals=30).run()
    assert results.total_games == 3 * 60, "a pair of two sides meets once"
    np.testing.assert_array_equal(results.rates()[1, [0, 2]], [[1.0, 0.0, 0.0]] * 2)
    ratings = results.ratings("random")
    assert ratings.order()[0] == 1 and ratings.rating[1] > 400
    assert results.record()["seats"] == 4 and "| row vs column |" in results.matrix_table([0, 1, 2])


def test_sides_of_different_sizes_rotate():
    """A deal is played twice: the candidate alone against two, and as the two against one."""
    env = OneAgainstTwo()
    figures = {
        "return": np.array([[[2.0, -1.0, -1.0], [-4.0, 1.0, 3.0]]]),
        "starter": np.array([[[0, 0, 1], [0, 0, 1]]]),
    }
    ended, length = np.ones((1, 2), bool), np.array([[9, 9]])
    samples = samples_of(Games(figures, length, ended, ~ended), env)
    assert samples.games == 2 and samples.candidate["return"] == (2.0 + 2.0) / 2
    assert samples.opponents["return"] == (-1.0 - 4.0) / 2
    assert samples.outcomes.result.tolist() == [[1, 1]] and samples.outcomes.started.tolist() == [[False, True]]


def test_each_seat_of_a_side_is_held_by_its_holder():
    """With players who do not draw, a deal can be played again by hand: seat 0 against 1 and 2, and the other way."""
    env = OneAgainstTwo()
    highest, lowest = bots_of(env, "highest", "lowest")
    samples = Matchup(env, highest, [lowest], deals=50, seed=3).play()
    base = jax.random.fold_in(jax.random.key(3), FINAL_DEALS)
    deals = jax.vmap(lambda d: prng.from_key(jax.random.split(jax.random.fold_in(base, d), 3)[0]))(jnp.arange(50))
    keys, returns = GameKeys(deals, deals, deals), []
    seated = [SeatedPlayer(player, None, np.arange(2) == number) for number, player in enumerate((highest, lowest))]
    for holders in ([0, 1, 1], [1, 0, 0]):
        table = jnp.tile(jnp.array(holders), (50, 1))
        games = jax.jit(lambda table: play_match(env, seated, table, keys))(table)
        returns.append(of_sides(np.asarray(games.figures["return"]), env.sides)[:, holders[1]])
    np.testing.assert_allclose(samples.candidate["return"], np.mean(returns, axis=0), atol=1e-6)
    assert samples.outcomes.tally().games == 100 and not np.allclose(*returns)


# ---- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [Signals(), OneAgainstTwo()], ids=lambda env: env.id)
def test_a_controller_holds_all_seats_of_a_side(env):
    keys = jax.random.split(jax.random.key(0), 400)
    first = [env.sides.index(side) for side in range(2)]
    mixed = make_mixed_seats([SeatMix(learners=1, bots=("random", list(env.bots)[1]))], env)
    drawn = np.asarray(jax.vmap(lambda key: mixed.deal(key, None))(keys))
    np.testing.assert_array_equal(drawn, drawn[:, first][:, np.array(env.sides)])
    held = drawn[:, first] == 0
    assert (held.sum(axis=1) == 1).all() and 150 < held[:, 0].sum() < 250, "either side, at random"
    assert set(drawn.max(axis=1)) == {1, 2}
    alone = dataclasses.replace(LEAGUE, opponents=("random",))
    league = make_league(dataclasses.replace(small_config(), league=alone), env)
    odds = jnp.array([0.0, 1.0])  # never itself
    drawn = np.asarray(jax.vmap(lambda key: league.deal(key, odds))(keys))
    np.testing.assert_array_equal(drawn, drawn[:, first][:, np.array(env.sides)])
    held = drawn[:, first] == 0
    assert (held.sum(axis=1) == 1).all() and 150 < held[:, 0].sum() < 250


def test_the_pool_counts_a_teams_games():
    """Weights and ratings: two wins against "random", one loss against "optimal" with one seat ahead of the others."""
    league = make_league(dataclasses.replace(small_config(), league=LEAGUE), Signals())
    pool = league.init({})
    games = [([0, 1, 0, 1], [1, -1, 1, -1]), ([1, 0, 1, 0], [-1, 1, -1, 1]), ([2, 0, 2, 0], [1, 3, 1, -4])]
    over = jnp.bool_(True)
    each = [league.results(jnp.array(c, jnp.int8), jnp.array(r, jnp.float32), over) for c, r in games]
    results = jax.tree.map(lambda *leaves: sum(leaves), *each)
    np.testing.assert_array_equal(results.games, [0, 2, 1])
    np.testing.assert_array_equal(results.score, [0, 2, 0])
    after = league.learn(pool, results)
    share = league.shares(after)
    assert share[2] > share[1], "who wins more is met more"
    assert after.elo[2] > 1000.0 == after.elo[1] and after.elo[0] != 1000.0
    drawn = league.results(jnp.array([0, 1, 0, 1], jnp.int8), jnp.array([2.0, 1, 0, 1]), over)
    np.testing.assert_array_equal(drawn.score, [0, 0.5, 0])


def test_what_does_not_fit_is_told_in_sides():
    env, game, league = Signals(), "env.id=tests.support.games:Signals", "league={opponents: [random], learners: 2}"
    for keys, said in (
        ([league, "seats=[{}]"], "league.learners is 2, but .* has 2 sides here"),
        (["seats=[{learners: 3}]"], "seats.0.learners is 3, but .* has 2 sides here"),
        (["seats=[{learners: 1}]"], "1 sides are left for bots"),
    ):
        config = configs.load(None, [game, *keys])
        with pytest.raises(UserError, match=said):
            compare(config, GameForms(env, env))
    with pytest.raises(UserError, match="sides of several seats"):
        make_search(env, SearchSettings(), own=bot_policy(env.bots["random"]), guide=no_guide)


def test_training_learns_to_signal():
    """Self-play and a pool: what the partner says must be found out together."""
    env = Signals()
    config = small_config(
        num_envs=64,
        num_steps=48,
        updates=20,
        calls=3,
        hidden=(64,),
        epochs=4,
        minibatches=4,
        clip=0.2,
        gamma=0.2,  # a word is answered before the next one
        learning_rate=Schedule("constant", 3e-3),
        entropy_coef=Schedule("linear", 0.05, 0.0),
    )
    config = dataclasses.replace(config, league=dataclasses.replace(LEAGUE, opponents=("self", "random")))
    _, state, metrics = train(env, config, 3)
    player = trained_player(config, env, "learnt", state.learner.params, greedy=True)
    evaluation = TrainingEvaluation(config, env, player, bots_of(env, "random", "optimal"))
    verdict = evaluation([player])
    assert verdict.scores["random"] >= 0.95
    assert verdict.row["eval/random/win_rate"] >= 0.95 and verdict.row["eval/optimal/draw_rate"] >= 0.95
    assert metrics["league/elo/self"] > 1300.0 and metrics["league/win_rate/random"] > 0.9
