"""Round robins: players of known strength, one program for bots and networks, the comparison with a reference."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.matches import evaluate
from jaxrl.matches.outcomes import Outcomes
from jaxrl.matches.tournaments import known_ratings, tournament
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.networks.factory import make_network
from jaxrl.players.player import Player, bot_player
from jaxrl.policies.find import find_players
from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from scripts import published_matrix
from tests.support.games import Corridor, HighCard, OneLoser, RockPaperScissors, TicTacToe
from tests.support.ladder_game import RATINGS
from tests.support.paths import GOLDEN, ROOT

MATRIX = GOLDEN / "beasty_bar" / "bot_matrix.json"
BOTS = ["env.id=tests.support.games:HighCard", "run.cache_dir=''"]


def ranked(params, memory, state, key):
    """A network for TicTacToe: the legal cell with the largest parameter."""
    return jnp.argmax(jnp.where(state.legal_action_mask, params, -1.0)).astype(jnp.int32), memory


def reversed_ranked(params, memory, state, key):
    """Another network: the legal cell with the smallest parameter."""
    return jnp.argmin(jnp.where(state.legal_action_mask, params, 99.0)).astype(jnp.int32), memory


def bots_of(env, *names) -> list[Player]:
    return [bot_player(env, name) for name in names]


@pytest.fixture(scope="module")
def mixed():
    """Two bots, two sets of parameters of one network and one of another; also against themselves."""
    env = TicTacToe(random_start=True)
    up, down = jnp.arange(9.0), jnp.arange(9.0)[::-1]
    players = [
        bot_player(env, "random"),
        Player("first up", ranked, up),
        bot_player(env, "lowest"),
        Player("first down", ranked, down),
        Player("second up", reversed_ranked, up),
    ]
    return Tournament(env, players, deals=200, seed=3, self_pairs=True).run()


def test_points_are_of_outcomes_before_returns():
    returns = np.float32([[[0.5, 1.0, -1.5], [1.0, 0.5, -1.5], [-0.5, -1.0, -0.7]]])  # one deal, candidate 0, 1, 2
    assert tournament._points(returns, HighCard()) == 0.5 + 0.5 + 0.5
    assert tournament._points(returns, OneLoser()) == 0.75 + 0.75 + 0.5, "winners are equal, losers are compared"


def test_every_player_is_itself_in_every_pair(mixed):
    """The players "first down" and "second up" play as the bot "lowest" does, and "first up" the other way round."""
    names = mixed.names
    assert mixed.games.tolist() == [[400] * 5] * 5 and mixed.total_games == 15 * 400
    lowest = [names.index(name) for name in ("lowest", "first down", "second up")]
    for i in lowest:
        for j in lowest:  # two equal deterministic players on both seats of a deal
            assert mixed.counts[i, j, 0] == mixed.counts[i, j, 2]
            assert mixed.covariance[i, j, 0, 1] == pytest.approx(-mixed.covariance[i, j, 1, 1] / 2)
    first_up, random = names.index("first up"), names.index("random")
    rates = mixed.rates()
    against = [rates[first_up, i] for i in lowest]  # the same meeting on three lists of deals
    assert np.abs(np.subtract(against, against[0])).max() < 0.15
    against = [rates[i, random] for i in lowest]
    assert np.abs(np.subtract(against, against[0])).max() < 0.15
    turned = rates.transpose(1, 0, 2)[..., ::-1]
    np.testing.assert_array_equal(rates[~np.eye(5, dtype=bool)], turned[~np.eye(5, dtype=bool)])
    np.testing.assert_allclose(mixed.points, mixed.counts @ [1, 0.5, 0])


def test_three_seats_are_rated_by_the_seats_left_behind():
    env = HighCard()
    results = Tournament(env, bots_of(env, *env.bots), deals=60, self_pairs=True).run()
    assert len(results.played) == 9, "both directions: one at a table of two"
    assert np.allclose(np.diag(results.points), np.diag(results.games) / 2, rtol=0.25)
    assert results.points[1, 1] == results.games[1, 1] / 2  # equal deterministic players, exactly


def test_both_directions_count_where_a_table_has_more_than_two():
    """60 of 100 points at the other's table, and 30 given away at the own: 130 of 200 altogether."""
    results = RoundRobin.empty(["a", "b"], (0, 1, 2, 3))
    won = np.ones((25, 4), np.int8)
    results.add(0, 1, Outcomes(won, won * 9, None, None), 60.0)
    results.add(1, 0, Outcomes(-won, won * 9, None, None), 30.0)
    ratings = results.ratings("b")
    assert ratings.rating[0] == pytest.approx(400 * np.log10(0.65 / 0.35))
    assert results.total_games == 200 and results.mean_steps == 9
    assert "| a " in results.rating_table(ratings) and " 200 " in results.rating_table(ratings)


class Windy(RockPaperScissors):
    """Two against two at once; the start gives one side a wind that outweighs all choices, or none."""

    sides = (0, 1, 0, 1)

    def __init__(self, *, calm: bool = False):
        super().__init__(num_players=4, rounds=3)
        self.calm = calm

    def _init(self, key):
        state = super()._init(key)
        return state.replace(last=jnp.where(self.calm, 3, jax.random.bernoulli(key)) + state.last * 0)

    def _step(self, state, action, key):
        after = super()._step(state, action, key)
        wind = jnp.where(np.arange(4) % 2 == state.last % 3, 10.0, -10.0) * (state.round == 0) * (state.last < 3)
        return after.replace(rewards=after.rewards + wind)


def test_simultaneous_games_are_played_from_both_sides_of_the_same_start():
    """Where the start decides, every deal is won once and lost once; where it is even, the better player wins."""
    counting = Player(
        "in turn", lambda params, memory, state, key: (memory % 3, memory + 1), init=lambda *_: jnp.int32(1)
    )  # paper, scissors, rock
    paper, rock = (Player(f"always {choice}", lambda *now: (now[0], now[1]), jnp.full(4, choice)) for choice in (1, 0))
    players = [counting, paper, rock, bot_player(Windy(), "random")]
    windy = Tournament(Windy(), players, deals=40, seed=3).run()
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert all(windy.counts[pair].tolist() == [40, 0, 40] for pair in pairs)
    assert all(np.allclose(windy.covariance[pair], 0.0) for pair in pairs), "no deal differs from another"
    calm = Tournament(Windy(calm=True), players, deals=40, seed=3).run()
    assert calm.counts[0, 1].tolist() == [0, 80, 0], "a draw, a win and a loss for each of a side"
    assert calm.counts[0, 2].tolist() == [0, 80, 0] and calm.counts[1, 2].tolist() == [80, 0, 0]


def test_results_repeat_and_do_not_depend_on_portions():
    env = TicTacToe(random_start=True)
    players = bots_of(env, "random", "lowest")
    whole, again = (Tournament(env, players, deals=40, seed=2, lanes=lanes).run() for lanes in (2048, 12))
    np.testing.assert_array_equal(whole.counts, again.counts)
    np.testing.assert_array_equal(whole.steps, again.steps)


def test_too_little_to_play():
    with pytest.raises(UserError, match="needs two players"):
        Tournament(HighCard(), bots_of(HighCard(), "random"), deals=4)
    with pytest.raises(UserError, match="a game for one"):
        Tournament(Corridor(), bots_of(Corridor(), "random") * 2, deals=4)
    with pytest.raises(UserError, match="--deals must be at least 2"):
        Tournament(HighCard(), bots_of(HighCard(), "random", "lowest"), deals=1)


# ---- a reference ----

TRUTH = np.array([[[0.45, 0.10, 0.45], [0.60, 0.15, 0.25]], [[0.25, 0.15, 0.60], [0.40, 0.20, 0.40]]])


def simulated(random: np.random.Generator, truth: np.ndarray, deals: int = 400) -> RoundRobin:
    """Results of two players whose games are independent, with these rates."""
    results = RoundRobin.empty(["a", "b"], (0, 1))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        result = random.choice([1, 0, -1], p=truth[i, j], size=(deals, 2)).astype(np.int8)
        results.add(i, j, Outcomes(result, np.full(result.shape, 5), None, None), float((result + 1).sum() / 2))
    return results


def known(games: float = 100_000) -> published_matrix.PublishedMatrix:
    return published_matrix.PublishedMatrix(["b", "a"], 100 * TRUTH[::-1, ::-1], np.full((2, 2), games), 0.1)


def test_the_statistic_is_chi_square_when_they_agree():
    """400 simulated matrices with 4 degrees of freedom: mean 4 and variance 8, within 4 standard errors."""
    random = np.random.default_rng(1)
    agreements = [published_matrix.compare(simulated(random, TRUTH), known(games=1e9)) for _ in range(400)]
    values = np.array([agreement.chi_square for agreement in agreements])
    assert agreements[0].degrees == 4 and agreements[0].pairs == 3
    assert abs(values.mean() - 4) < 4 * np.sqrt(8 / 400)
    small = np.mean([agreement.p_value < 0.1 for agreement in agreements])
    assert abs(small - 0.1) < 4 * np.sqrt(0.09 / 400)
    assert np.mean([agreement.ok for agreement in agreements]) > 0.98


def test_a_different_matrix_is_noticed():
    random = np.random.default_rng(2)
    changed = TRUTH.copy()
    changed[0, 1] = 0.50, 0.15, 0.35
    agreement = published_matrix.compare(simulated(random, changed), known())
    assert not agreement.ok and agreement.p_value < 1e-4
    assert (agreement.worst.row, agreement.worst.column) == ("a", "b") and abs(agreement.worst.z) > 4
    assert "DISAGREE" in str(agreement) and "they agree" in str(
        published_matrix.compare(simulated(random, TRUTH), known())
    )


def test_the_reference_of_beasty_bar_is_consistent():
    matrix = published_matrix.load_matrix(MATRIX)
    assert len(matrix.names) == 10 and matrix.games[0, 0] == 100_000
    assert np.abs(matrix.percent.sum(axis=-1) - 100).max() < 0.16
    np.testing.assert_array_equal(matrix.percent, matrix.percent.transpose(1, 0, 2)[..., ::-1])


WIDE = '{"names": ["a"], "win": [[1, 2]], "draw": [[1, 2]], "loss": [[1, 2]], "games": 3}'


@pytest.mark.slow
def test_the_bots_of_beasty_bar_have_the_strength_of_the_reference(capsys):
    """20,000 games a pair, in one command."""
    command = [str(MATRIX), "bots", "env.id=beasty_bar", "--deals", "10000"]
    assert published_matrix.main(command) == 0, capsys.readouterr().out


@pytest.mark.parametrize("content", ["[]", "{}", '"x"', WIDE])
def test_a_broken_reference_is_one_sentence(tmp_path, capsys, content):
    (tmp_path / "m.json").write_text(content)
    assert cli.guarded(lambda: published_matrix.main([str(tmp_path / "m.json"), "bots", *BOTS])) == 2
    assert "not a matrix" in capsys.readouterr().err


def test_a_comparison_with_what_three_games_say_and_with_what_many_say(tmp_path, capsys):
    third = np.full((3, 3), 100 / 3).tolist()
    vague = {"names": ["random", "lowest", "highest"], "win": third, "draw": third, "loss": third, "games": 3}
    (tmp_path / "vague.json").write_text(json.dumps(vague))
    command = [str(tmp_path / "vague.json"), "bots", *BOTS, "--deals", "30"]
    assert published_matrix.main(command) == 0, "three games say nothing"
    assert "they agree" in capsys.readouterr().out
    (tmp_path / "vague.json").write_text(json.dumps(vague | {"games": 100_000}))
    assert published_matrix.main(command) == 1
    assert "DISAGREE" in capsys.readouterr().out


def test_what_a_tournament_writes_is_a_reference(mixed, tmp_path):
    (tmp_path / "matrix.json").write_text(json.dumps(mixed.record()))
    agreement = published_matrix.compare(mixed, published_matrix.load_matrix(tmp_path / "matrix.json"))
    assert agreement.ok and agreement.chi_square == pytest.approx(0.0) and agreement.pairs == 15


# ---- the command ----


def test_the_command_writes_tables(tmp_path, capsys):
    assert cli.main(["tournament", "bots", *BOTS, "--deals", "30", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "row at a table of column" in output and "| random  | +0.0" in output
    record = json.loads((tmp_path / "out" / "matrix.json").read_text())
    assert record["ratings"]["anchors"] == ["random"] and record["names"] == ["random", "lowest", "highest"]
    assert (tmp_path / "out" / "table.md").read_text() in output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["bots", "bot:lowest", *BOTS], "'lowest' takes part twice"),
        (["bot:lowst", "bot:random", *BOTS], "did you mean 'lowest'"),
        (["bot:lowest", "no_such_run@all"], "no_such_run"),
        (["bots", *BOTS, "--anchor", "bot:best"], "does not take part"),
        (["bots", *BOTS, "--deals", "1"], "--deals must be at least 2"),
        (["bots", *BOTS, "--anchor", "no/such/file.yaml"], "check the path"),
        (["bot:lowest", *BOTS], "needs two players"),
        (["bots", *BOTS, "--out", __file__], "cannot write to the folder"),
    ],
)
def test_mistakes(capsys, arguments, message):
    assert cli.main(["tournament", *arguments]) == 2
    assert message in capsys.readouterr().err


# ---- known ratings ----

LADDER = ["--deals", "1000", "env.id=tests.support.ladder_game:Ladder", "run.cache_dir=''"]


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """The ratings of three bots of planted strength."""
    folder = tmp_path_factory.mktemp("cup")
    players = ["bot:random", "bot:weak", "bot:strong"]
    assert cli.main(["tournament", *players, *LADDER, "--out", str(folder)]) == 0
    return folder / "ratings.yaml"


def test_planted_strengths_are_found_from_known_ones(ladder, tmp_path):
    """2,000 games a pair, and a bot of rating 190 against one of the three: 4 standard errors."""
    known = known_ratings.read(ladder)
    assert known.game == "tests.support.ladder_game:Ladder" and known.options == {"stake": 1}
    for name, rating in known.ratings.items():
        assert abs(rating - RATINGS[name]) < 40
    command = ["tournament", "bot:middle", "bot:strong", *LADDER, "--anchor", str(ladder)]
    assert cli.main([*command, "--out", str(tmp_path / "out")]) == 0
    record = json.loads((tmp_path / "out" / "matrix.json").read_text())["ratings"]
    strong, middle = record["players"]
    assert record["anchors"] == ["strong"] and strong == {
        "name": "strong",
        "rating": known.ratings["strong"],
        "half_width_95": 0.0,
    }
    assert abs(middle["rating"] - RATINGS["middle"]) < 4 * 8 + abs(strong["rating"] - RATINGS["strong"])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"game": "nim"}, "is of game 'nim'"),
        ({"version": "2"}, "is of version '2'"),
        ({"options": {"stake": 3}}, "is of stake 3, not 1"),
        ({"ratings": {"other": 1.0}}, "rates none of the players: add one of other"),
        ({"ratings": {"random": "high"}}, "ratings.random must be a number"),
        ({"ratings": None}, "rates none of the players"),
        ({"anchors": []}, "unknown key 'anchors'"),
    ],
)
def test_files_of_other_games_and_damaged_ones_are_refused(ladder, tmp_path, capsys, change, message):
    file = tmp_path / "ratings.yaml"
    file.write_text(files.dump(files.read(ladder) | change))
    assert cli.main(["tournament", "bots", *LADDER, "--anchor", str(file)]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_options_that_the_file_leaves_out_may_differ(ladder, tmp_path):
    file = tmp_path / "ratings.yaml"
    file.write_text(files.dump(files.read(ladder) | {"options": {}}))
    field = find_players(["bots", "env.id=tests.support.ladder_game:Ladder", "env.options.stake=3"])
    assert known_ratings.fitting(file, field) == known_ratings.read(ladder).ratings


def test_the_ratings_that_are_shipped_are_of_the_games_as_they_are(tmp_path, monkeypatch):
    for path in sorted((ROOT / "configs" / "ratings").glob("*.yaml")):
        known = known_ratings.read(path)
        env = registry.make(known.game, **known.options)
        assert known.game == path.stem and known.version == env.version and known.ratings.keys() <= env.bots.keys()
        assert known_ratings.of_game(known.game) == known.ratings
    monkeypatch.chdir(tmp_path)
    assert known_ratings.of_game("nim") == {}
    field = find_players(["bot:hard", "bot:random", "env.id=skull_king"])
    assert known_ratings.fitting(Path("ratings/skull_king.yaml"), field) == {"hard": 793.0, "random": 0.0}


# ---- runs ----


@pytest.fixture
def saved_run(tmp_path, monkeypatch):
    """A run with checkpoints after 1 and 2 updates, of networks that were never trained."""
    monkeypatch.chdir(tmp_path)
    network = {"kind": "mlp", "hidden": [8]}
    (tmp_path / "game.yaml").write_text(
        yaml.safe_dump({"env": {"id": "tests.support.games:HighCard"}, "network": network})
    )
    config = configs.load("game.yaml", ["run.cache_dir=''", "run.name=mine"])
    env = runs.make_env(config)
    run = runs.new_run(config)
    configs.save(config, run.config_file)
    with closing(run.checkpoints()) as store:
        for step in (1, 2):
            params = make_network(config.network, env).init(jax.random.key(step))
            store.save(checkpoint.take(step, {"learner": {"params": params}}, runs.make_stamp(config, env)))
    return run


def test_checkpoints_of_a_run_meet_each_other_and_bots(saved_run, capsys):
    """The checkpoint plays as the evaluator's candidate does: the same outcomes at a table of "lowest"."""
    arguments = ["mine@all", "bot:lowest", "--deals", "40", "--anchor", "mine@1", "run.log_level=error"]
    assert cli.main(["tournament", *arguments]) == 0
    output, said = capsys.readouterr()
    assert said.startswith("0 of ") and "pairs, compiling ..." in said and "games/s, without compilation" in output
    assert all(f"| {name} " in output for name in ("mine@1", "mine@2", "lowest")) and "anchor" in output
    field = find_players(["bot:lowest", "mine@2", "mine@1"])
    assert [entrant.name for entrant in field.players] == ["lowest", "mine@2", "mine@1"]
    assert field.players[1].act is field.players[2].act is not None, "one network, stacked parameters"
    results = Tournament(field.env, field.players, deals=300, seed=1).run()
    rows = evaluate.evaluate_players(field.env, field.players[1:], [bot_player(field.env, "lowest")], deals=300, seed=1)
    for number, row in enumerate(rows, start=1):
        expected = np.array(row.samples.outcomes.tally().rates())
        error = 4 * np.sqrt(2 * expected * (1 - expected) / 900)
        assert (np.abs(results.rates()[number, 0] - expected) <= error + 1e-9).all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mine@7"], "no checkpoint '7'"),
        (["mine", "mine@2"], "takes part twice"),
        (["mine", "env.id=tests.support.games:TicTacToe"], "env cannot be changed here"),
        (["mine", "run.seeds=2"], "run.seeds cannot be changed here"),
        (["mine", "evaluate.options={cards: 3}"], "evaluate.options are for bots alone"),
        (["mine", "bot:best"], "no bot 'best'"),
    ],
)
def test_mistakes_with_runs(saved_run, arguments, message):
    with pytest.raises(UserError, match=message):
        find_players(arguments)
