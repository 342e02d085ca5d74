"""The evaluator against players of known strength, on duplicate deals."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.nim import Nim
from jaxrl import cli
from jaxrl.matches import evaluate, evaluate_policy, tables
from jaxrl.matches.deals import TRAINING_DEALS
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.evaluate_policy import find_panel, met_in_training
from jaxrl.matches.match import GameKeys, SeatedPlayer, play_match
from jaxrl.players.player import Player, bot_player
from jaxrl.policies.find import Lookup, find_player
from jaxrl.statistics import Estimate
from jaxrl_envs.shared.errors import UserError
from tests.support.games import Corridor, HighCard, RockPaperScissors, TicTacToe


def matchup(env, candidate: str, opponent: str | None, deals: int = 300, **settings) -> Matchup:
    others = [bot_player(env, opponent)] if opponent else []
    return Matchup(env, bot_player(env, candidate), others, deals=deals, seed=5, **settings)


def always(action: int) -> Player:
    return Player(f"always {action}", lambda params, memory, state, key: (jnp.int32(action), memory))


@pytest.fixture(scope="module")
def high_card_rows():
    """The bot that plays its highest card, against random and against lowest."""
    env = HighCard()
    opponents = [bot_player(env, "random"), bot_player(env, "lowest")]
    return evaluate.evaluate_players(env, [bot_player(env, "highest")], opponents, deals=40, seed=5)


def test_random_against_random_has_the_known_value_of_the_first_seat():
    env = TicTacToe()
    count = 4000
    keys = GameKeys(*(jax.random.split(jax.random.key(i), count) for i in range(3)))
    random = SeatedPlayer(bot_player(env, "random"), None, np.array([True]))
    holders = jnp.zeros((count, 2), jnp.int32)
    games = jax.jit(lambda: play_match(env, [random], holders, keys))()
    first = np.asarray(games.figures["return"][:, 0])
    assert abs(first.mean() - (0.585 - 0.288)) < 4 * first.std() / np.sqrt(count)
    assert games.over.all() and not games.illegal.any() and 5 <= int(games.length.min()) <= int(games.length.max()) == 9


def test_rotation_through_the_seats_takes_the_advantage_away():
    samples = matchup(TicTacToe(), "random", "random", deals=2000).play()
    own = Estimate.of(samples.candidate["return"])
    assert abs(own.mean) < 1.5 * own.half
    assert np.allclose(samples.candidate["return"], -samples.opponents["return"])
    assert samples.games == 4000


def test_equal_deterministic_players_share_exactly():
    """As hard against hard in the reference table: the mean over the seats of a deal is the same in every deal."""
    samples = matchup(HighCard(), "highest", "highest", deals=50).play()
    assert np.allclose(samples.candidate["tricks"], 1.0)
    assert Estimate.of(samples.candidate["tricks"]).half == pytest.approx(0.0, abs=1e-6)


def test_evaluation_always_0():
    """Mava 1116, a placeholder: who plays Nim perfectly nearly always wins; of two, one wins each game of a deal."""
    env = Nim()
    perfect, random = bot_player(env, "perfect"), bot_player(env, "random")
    found = evaluate.evaluate_players(env, [perfect], [random, perfect], deals=300, seed=1)
    against_random, against_itself = (row.samples.candidate["return"] for row in found)
    assert against_random.mean() > 0.8 and (against_itself == 0.0).all()


def test_simultaneous_and_one_seat_games():
    rock = matchup(RockPaperScissors(num_players=3, rounds=2), "random", "random", deals=500).play()
    own = Estimate.of(rock.candidate["return"])
    assert abs(own.mean) < 1.5 * own.half
    corridor = Corridor(random_start=False)
    right = Matchup(corridor, always(1), [], deals=4, seed=0).play()
    left = Matchup(corridor, always(0), [], deals=4, seed=0).play()
    assert (right.candidate["return"] == 1.0).all() and (left.candidate["return"] == 0.0).all()
    assert right.opponents == {}


def test_results_do_not_depend_on_portions_and_devices():
    whole = matchup(HighCard(), "highest", "random", deals=37).play()
    portions = matchup(HighCard(), "highest", "random", deals=37, lanes=12).play()  # four deals per device at a time
    for name, values in whole.candidate.items():
        np.testing.assert_array_equal(values, portions.candidate[name])


def test_training_and_final_deals_differ_and_repeat():
    final_deals = matchup(HighCard(), "highest", "random", deals=30)
    final, again = final_deals.play(), final_deals.play()
    training = matchup(HighCard(), "highest", "random", deals=30, stream=TRAINING_DEALS).play()
    np.testing.assert_array_equal(final.candidate["tricks"], again.candidate["tricks"])
    assert not np.array_equal(final.candidate["tricks"], training.candidate["tricks"])


def test_every_opponent_is_at_its_own_table(high_card_rows):
    """All opponents share one program; each row must be the one of a program of its own."""
    against_random, against_lowest = high_card_rows
    assert (against_random.opponent, against_lowest.opponent) == ("random", "lowest")
    alone = matchup(HighCard(), "highest", "lowest", deals=40).play()
    np.testing.assert_array_equal(against_lowest.samples.candidate["return"], alone.candidate["return"])
    assert not np.array_equal(against_random.samples.candidate["return"], alone.candidate["return"])


def test_a_broken_player_is_not_reported_as_a_result():
    env = TicTacToe()
    stubborn = Matchup(env, always(4), [always(4)], deals=2, seed=0)
    with pytest.raises(UserError, match="illegal action"):
        stubborn.play()
    with pytest.raises(UserError, match="did not end within 3 steps: a game of"):
        matchup(env, "random", "random", deals=2, max_steps=3).play()


def test_estimates():
    estimate = Estimate.of(np.array([1.0, 3.0]))
    assert estimate.mean == 2.0 and estimate.half == pytest.approx(12.706, abs=1e-3)  # Student's t
    assert tables.format_estimate(Estimate.of(np.ones(1))) == tables.format_estimate(Estimate.of(np.ones(5)))
    assert tables.format_estimate(Estimate.of(np.ones(5))) == "1.000 (too few)"
    assert Estimate.of(np.ones(5)).record() == {"mean": 1.0, "half_width_95": None}
    assert tables.format_estimate(Estimate.of(np.ones(6))) == "1.000 (0.000)"
    assert tables.format_estimate(Estimate(0.6291, 0.0244)) == "0.629 (0.024)"
    assert tables.format_estimate(Estimate(-178.24, 3.0)) == "-178.2 (3.0)"


def test_paired_differences(high_card_rows):
    first, second = (
        high_card_rows[0],
        tables.Row("lowest", "random", matchup(HighCard(), "lowest", "random", 40).play()),
    )
    change = tables.difference(first, second)["tricks"]
    assert change.mean == pytest.approx(first.figures()["tricks"].mean - second.figures()["tricks"].mean)
    assert tables.difference(first, first)["tricks"] == (0.0, 0.0)
    assert "highest - lowest" in tables.format_differences([(first, second)])


def test_parameters_are_arguments_not_constants():
    env = TicTacToe(random_start=True)

    def act(params, memory, state, key):
        return jnp.argmax(jnp.where(state.legal_action_mask, params, -1.0)).astype(jnp.int32), memory

    ranked = evaluate.Matchup(env, Player("ranked", act), [bot_player(env, "lowest")], deals=40, seed=3)
    up, down = jnp.arange(9.0), jnp.arange(9.0)[::-1]
    first, second, third = (ranked.rows(p, "ranked")[0].samples.candidate["return"] for p in (up, down, up))
    assert np.array_equal(first, third) and not np.array_equal(first, second)


BOTS = ["env.id=tests.support.games:HighCard", "run.cache_dir=''"]


def test_the_command_for_bots(capsys):
    assert cli.main(["evaluate", "bot:highest", "--deals", "20", "--opponents", "random,lowest", *BOTS]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0] == ["2 opponents", "games", "win % (95 %)", "draw %", "loss %", "tricks", "return"]
    assert [row[0] for row in cells[2:]] == ["random", "lowest", "mean of 2", "minimum: random"]
    assert all(len(line) <= 100 for line in lines)


def test_the_panel_is_of_bots_a_searcher_and_the_zoo(capsys, monkeypatch):
    """Of the zoo come the policies that play the same game; bots of a curriculum are known to its policy."""
    with monkeypatch.context() as patch:
        patch.setattr(evaluate_policy, "met_in_training", lambda candidate, others: ["lowest"])
        assert cli.main(["evaluate", "bot:highest", "--panel", "--deals", "4", *BOTS]) == 0
    told = capsys.readouterr().out
    assert "met in training: lowest" in told and re.search(
        r"strangers: median \d.*, the least \d.* against (highest|searcher-200)", told
    )
    shown = [line.split("|")[1].strip() for line in told.splitlines() if line.startswith("|")]
    assert shown[2:] == ["lowest", "highest", "searcher-200", "mean of 3", "median", "minimum: lowest"]
    battle = find_player("zoo:battle")
    panel = find_panel(battle, Lookup())
    assert {"zoo:battle_anywhere", "searcher-200"} == {each.name for each in panel if not each.bot}
    assert set(met_in_training(battle, panel)) == set(battle.env.bots) - {"random", "mixed"}
    assert cli.main(["evaluate", "bot:highest", "--panel", "--opponents", "random", *BOTS]) == 2
    assert "leave --opponents out" in capsys.readouterr().err


def test_the_command_against_another(capsys):
    command = ["evaluate", "bot:highest", "--against", "bot:lowest", "--deals", "8", "--opponents", "random", *BOTS]
    assert cli.main(command) == 0
    output = capsys.readouterr().out
    assert "| highest - lowest | random" in output and output.count("| highest   | random") == 1
    assert output.count("\n| lowest ") == 2  # against random, and highest's table against it


class Twin(HighCard):
    simulators = {"twin": HighCard}


TWIN = ["env.id=tests.matches.test_evaluate:Twin", "run.cache_dir=''"]


def test_the_command_in_another_simulator(capsys):
    command = ["evaluate", "bot:highest", "--against", "bot:lowest", "--deals", "8", "--opponents", "random", *TWIN]
    assert cli.main([*command, "--simulator", "twin"]) == 0
    tables = [[line.split("|")[1:-1] for line in table.splitlines()] for table in capsys.readouterr().out.split("\n\n")]
    for table, opponent in zip(tables[-2:], ("random", "lowest"), strict=True):
        cells = [[cell.strip() for cell in line] for line in table]
        assert cells[0] == [f"against {opponent}", "jaxrl", "twin", "difference"]
        assert [line[0] for line in cells[2:]] == ["win % (95 %)", "of those not drawn", "tricks", "return"]
        assert all(own == there and change in ("", "0.000 (0.000)") for _, own, there, change in cells[2:])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["bot:best", *BOTS], "no bot 'best'"),
        (["bot:highest", "--opponents", "rendom", *BOTS], "did you mean 'random'"),
        (["bot:highest", "--deals", "1", *BOTS], "--deals must be at least 2"),
        (["no_such_run"], "there is no run 'no_such_run'"),
        (["bot:highest", "--simulator", "twin", *BOTS], "high_card is played by no other simulator"),
        (["bot:highest", "--simulator", "twn", *TWIN], "no simulator 'twn' of high_card: did you mean 'twin'"),
        (["bot:highest", "--simulator", "twin", "--search", "4", *TWIN], "--simulator is of a policy that does not"),
    ],
)
def test_mistakes(capsys, arguments, message):
    assert cli.main(["evaluate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_records_are_json(high_card_rows):
    record = json.loads(json.dumps(high_card_rows[0].record()))
    assert record["deals"] == 40 and record["games"] == 120
    assert set(record["figures"]["tricks"]) == {"mean", "half_width_95"}
    outcomes = record["outcomes"]
    assert outcomes["games"] == outcomes["wins"] + outcomes["draws"] + outcomes["losses"] == 120
    assert sum(seat["wins"] for seat in outcomes["by_seat"]) == outcomes["wins"]


@pytest.mark.thorough
def test_a_candidate_with_a_memory_sees_every_step():
    """It notes who acted and what fell; its bot plays as without one, so the results are those of the bot."""
    env = HighCard()
    seen = []

    def init(params, state, seat, key):
        return {"seat": seat, "steps": jnp.int32(0), "cards": jnp.zeros(12, bool), "own": jnp.int32(0)}

    def observe(params, memory, before, action, after, seat, key):
        return {
            "seat": memory["seat"],
            "steps": memory["steps"] + 1,
            "cards": memory["cards"].at[action].set(True),
            "own": memory["own"] + (before.current_player == seat),
        }

    def act(params, memory, state, key):
        asked = state.current_player == memory["seat"]
        played = state.owner == 4  # tests.support.games.PLAYED
        right = jnp.all(memory["cards"] == played) & (memory["steps"] == jnp.sum(played))
        jax.debug.callback(lambda *x: seen.append([np.asarray(v) for v in x]), asked, right, memory["own"])
        # A wrong memory plays worse than the bot, and the results would tell.
        return jnp.where(right, env.bots["highest"](state, key), env.bots["lowest"](state, key)), memory

    candidate = Player("remembering", act, init=init, observe=observe)
    opponents = [bot_player(env, "random"), bot_player(env, "lowest")]
    rows = evaluate.evaluate_players(env, [candidate], opponents, deals=20, seed=5)
    plain = evaluate.evaluate_players(env, [bot_player(env, "highest")], opponents, deals=20, seed=5)
    for row, other in zip(rows, plain, strict=True):
        np.testing.assert_array_equal(row.samples.candidate["return"], other.samples.candidate["return"])
    jax.effects_barrier()
    asked, right, own = (np.stack(column) for column in zip(*seen, strict=True))
    assert right[asked].all() and asked.any() and own.max() == 3
    # Several of them at a table remember each for themselves.
    row = evaluate.evaluate_players(env, [bot_player(env, "lowest")], [candidate], deals=20, seed=5)[0]
    bots = evaluate.evaluate_players(env, [bot_player(env, "lowest")], [bot_player(env, "highest")], deals=20, seed=5)
    np.testing.assert_array_equal(row.samples.candidate["return"], bots[0].samples.candidate["return"])
