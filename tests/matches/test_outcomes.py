"""Wins, draws and losses: the interval against published figures, the counts against games of known outcome."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.matches import evaluate, tables
from jaxrl.matches.deals import EachGame, Samples
from jaxrl.matches.outcomes import GameTally, Outcomes, outcomes_of
from jaxrl.players.player import bot_player
from jaxrl.statistics import Design, Estimate, design_of, wilson
from jaxrl_envs.contract.sides import compare
from tests.support.games import Corridor, HighCard, OneLoser, TicTacToe

PUBLISHED = [  # specification of Beasty Bar, section 13.2: wins of games, the interval in per cent
    (467, 500, 90.9, 95.3),
    (384, 500, 72.9, 80.3),
    (330, 500, 61.7, 70.0),
    (395, 400, 97.1, 99.5),
    (399, 400, 98.6, 100.0),
]


@pytest.mark.parametrize("wins, games, low, high", PUBLISHED)
def test_wilson_intervals_are_the_published_ones(wins, games, low, high):
    assert [round(100 * end, 1) for end in wilson(wins, games)] == [low, high]


def test_wilson_at_the_ends():
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(0, 10)
    assert low == 0.0 and 0.0 < high < 0.3
    assert wilson(10, 10) == pytest.approx((1 - high, 1.0))
    assert wilson(2, 2, Design(degrees=0)) == (0.0, 1.0), "one deal says nothing"


ALL = np.ones((100, 4), bool)


def design_effect(hits: np.ndarray, counted: np.ndarray) -> float:
    return design_of(hits, counted).effect


def test_the_design_effect_of_known_cases():
    """Games that repeat each other are worth a quarter, games that make up for each other more, single ones one."""
    repeated = np.repeat(np.arange(100) % 2 == 0, 4).reshape(100, 4)
    assert design_effect(repeated, ALL) == pytest.approx(4, rel=0.02)
    shared = np.tile([True, False, False, True], (100, 1))  # half of every deal
    assert design_effect(shared, ALL) == pytest.approx(2 / 102)
    once = np.broadcast_to(np.arange(4) == 1, ALL.shape)
    assert design_effect(repeated, once) == pytest.approx(1, abs=0.02)
    for rate in (np.zeros_like(ALL), ALL):
        assert design_effect(rate, ALL) == (8 * 4 + 100) / 108
    assert design_of(repeated, ALL).degrees == 99 and design_of(repeated[:1], ALL[:1]) == Design(1.0, 0)


def test_the_design_effect_as_by_hand():
    """Three deals of which 2, 1 and 2 games count, with 2, 0 and 1 wins: residual sums 4/5, -3/5 and -1/5."""
    hits, counted = np.array([[1, 1], [1, 0], [0, 1]], bool), np.array([[1, 1], [0, 1], [1, 1]], bool)
    independent, prior = 0.6 * 0.4, 2 * (5 / 3) * 0.6 * 0.4
    squares = (0.8**2 + 0.6**2 + 0.2**2) * 3 / 2
    assert design_effect(hits, counted) == pytest.approx((squares + prior) / (5 * independent + prior))


def same_side_wins(generator, deals):
    """The better cards win from either side in four of five deals, the candidate both games of a tenth, and none."""
    split, better = generator.random(deals) < 0.8, generator.random((deals, 1)) < 0.5
    return np.where(split[:, None], better == [True, False], better), 0.5


def independent(generator, deals):
    return generator.random((deals, 4)) < 0.25, 0.25


def repeating(generator, deals):
    """A game repeats one of its deal with probability 0.7."""
    first = generator.random((deals, 1)) < 0.8
    return np.where(generator.random((deals, 4)) < 0.7, first, generator.random((deals, 4)) < 0.8), 0.8


def repeated(generator, deals):
    """The games of a deal are one."""
    return np.repeat(generator.random((deals, 1)) < 0.75, 4, axis=1), 0.75


@pytest.mark.parametrize("deals", [2, 3, 4, 8, 30])
@pytest.mark.parametrize("games", [same_side_wins, independent, repeating, repeated])
def test_intervals_of_few_deals_hold_the_truth(games, deals):
    """In at least 93 % of 2,000 evaluations, less three standard errors of 0.6 %."""
    generator, held = np.random.default_rng(deals), 0
    for _ in range(2000):
        wins, truth = games(generator, deals)
        outcomes = Outcomes(2 * wins.astype(np.int8) - 1, np.ones(wins.shape, np.int32), None, None)
        low, high = outcomes.interval()
        held += low <= truth <= high
    assert held / 2000 > 0.93 - 3 * 0.006


@pytest.mark.parametrize("deals", [2, 3, 4, 8, 30])
@pytest.mark.parametrize("returns", ["normal", "two games of a coin"])
def test_estimates_of_few_deals_hold_the_truth(returns, deals):
    """In at least 93 % of 4,000 evaluations, less three standard errors of 0.4 %; too few to say holds everything."""
    draws = np.random.default_rng(deals)
    samples = draws.normal(size=(4000, deals)) if returns == "normal" else draws.choice([-1, 0, 0, 1], (4000, deals))
    found = [Estimate.of(each) for each in samples]
    assert np.mean([not abs(each.mean) > each.half for each in found]) > 0.93 - 3 * 0.004
    assert np.isnan(Estimate.of(samples[0, :1]).half)


@pytest.mark.parametrize("games", [same_side_wins, independent, repeating])
def test_intervals_of_win_rates_hold_the_truth_as_often_as_they_say(games):
    """In 95 % of 4,000 evaluations of 100 deals, whose standard error is 0.34 %; as independent games they did not."""
    generator, held, as_independent = np.random.default_rng(0), 0, 0
    for _ in range(4000):
        wins, truth = games(generator, 100)
        outcomes = Outcomes(2 * wins.astype(np.int8) - 1, np.ones(wins.shape, np.int32), None, None)
        for interval, count in ((outcomes.interval(), 1), (outcomes.tally().interval(), 0)):
            inside = interval[0] <= truth <= interval[1]
            held, as_independent = held + count * inside, as_independent + (1 - count) * inside
    assert 0.935 < held / 4000 < 0.97
    wrong = {same_side_wins: (0.99, 1.0), independent: (0.935, 0.965), repeating: (0.5, 0.85)}[games]
    assert wrong[0] <= as_independent / 4000 <= wrong[1]


def test_returns_that_differ_by_rounding_are_equal():
    a, b = np.float32(0.1) + np.float32(0.2), np.float32(0.3)
    own, other = np.array([a, 1.0, -2.0, -2.0]), np.array([b, 0.5, -1.0, -np.inf])
    assert list(compare(own, other)) == list(jax.jit(compare)(own, other)) == [0, 1, -1, 1]


class Starting(TicTacToe):
    """TicTacToe that says who started, and counts stones as points."""

    def episode_stats(self, state):
        stones = jnp.stack([jnp.sum(state.board == seat) for seat in range(2)]).astype(jnp.float32)
        return {"points": stones, "starter": jnp.array([1.0, 0.0])}


@pytest.fixture(scope="module")
def row():
    env = Starting()
    bots = [bot_player(env, "random"), bot_player(env, "lowest")]
    return evaluate.evaluate_players(env, bots[:1], bots, deals=1000, seed=3)[0]


def test_random_tic_tac_toe_has_the_known_rates(row):
    """The first seat wins 0.585 of the games, the second 0.288, the rest are drawn."""
    outcomes = row.samples.outcomes
    start, second = outcomes.by_start()
    for tally, win, loss in ((start, 0.585, 0.288), (second, 0.288, 0.585)):
        assert tally.games == 1000
        for rate, expected in zip(tally.rates(), (win, 1 - win - loss, loss), strict=True):
            assert abs(rate - expected) < 4 * np.sqrt(expected * (1 - expected) / 1000)
    assert outcomes.by_place() == [start, second]
    assert outcomes.tally() == GameTally(*np.add(start, second))
    assert 5 <= outcomes.length.min() and outcomes.length.max() == 9
    assert abs(outcomes.length.mean() - 7.6) < 0.15  # 5, 6, 7, 8 or 9 moves in 0.095, 0.088, 0.264, 0.203, 0.350
    assert set(np.unique(outcomes.margin[:, 0])) <= {0.0, 1.0}  # the starter has one stone more after its own move


def test_a_starter_is_no_figure(row):
    assert set(row.figures()) == {"points", "return", "opp. points", "opp. return"}


def test_outcomes_from_figures():
    returns = np.array([[[3.0, 1, 2], [1, 1, 0], [5, 0, 4]]], np.float32)  # one deal, rotations 0, 1, 2
    outcomes = outcomes_of({"return": returns, "points": returns}, np.array([[7, 8, 9]]), HighCard())
    assert outcomes.result.tolist() == [[1, 0, -1]]
    assert outcomes.margin.tolist() == [[1.5, 0.5, 1.5]]
    assert [tally[:] for tally in outcomes.by_place()] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert outcomes.by_start() is None
    record = outcomes.record()
    assert record["wins"] == record["draws"] == record["losses"] == 1 and record["mean_length"] == 8.0
    assert "starter" not in record and record["mean_margin"] == pytest.approx(3.5 / 3)


def test_a_game_may_say_what_winning_means():
    returns = np.array([[[1.0, 1, -2], [1, -2, 1], [-2, 1, 1]]], np.float32)  # seats 0 to 2 hold the candidate in turn
    lengths = np.array([[7, 8, 9]])
    assert outcomes_of({"return": returns}, lengths, HighCard()).result.tolist() == [[0, -1, 0]]
    assert outcomes_of({"return": returns}, lengths, OneLoser()).result.tolist() == [[1, -1, 1]]
    assert np.asarray(jax.jit(OneLoser().outcome)(returns)).tolist() == OneLoser().outcome(returns).tolist()
    assert np.asarray(jax.jit(HighCard().outcome)(returns)).tolist() == compare_each(returns)


def compare_each(returns: np.ndarray) -> list:
    """The default rule, written out for each seat."""
    others = [np.delete(returns, seat, axis=-1).max(axis=-1) for seat in range(returns.shape[-1])]
    return np.stack([compare(returns[..., seat], best) for seat, best in enumerate(others)], axis=-1).tolist()


def test_where_most_games_are_drawn_the_return_leads_and_a_win_is_explained():
    decided, drawn = (
        tables.format_table([made_row("weak", *counts)], HighCard()) for counts in ((90, 4, 6), (2, 94, 4))
    )
    heads = [[cell.strip() for cell in table.splitlines()[0].split("|")[1:-1]] for table in (decided, drawn)]
    assert heads[0][2] == "win % (95 %)" and heads[1][1:4] == ["return", "games", "win % (95 %)"]
    for table in (decided, drawn):
        assert (
            table.endswith(f"\n\n{HighCard().winning} Fair among 3 equal players: 33.3 %.")
            and "above every other seat's" in table
        )
    assert tables.format_table([made_row("weak", 90, 4, 6)], OneLoser()).endswith("\n\nA win is a return above zero.")
    assert tables.fair(HighCard()) == 1 / 3 and tables.fair(OneLoser()) is None


def made_row(opponent: str, wins: int, draws: int, losses: int) -> tables.Row:
    """A row of two-seat games, two a deal, with these outcomes."""
    result = np.repeat([1, 0, -1], (wins, draws, losses)).astype(np.int8).reshape(-1, 2)
    outcomes = Outcomes(result, np.full(result.shape, 6), None, None)
    samples = Samples(
        {"return": result.mean(axis=1)}, {}, result.size, outcomes, EachGame(result, None, outcomes.length)
    )
    return tables.Row("me", opponent, samples)


def test_mean_and_minimum_over_the_opponents():
    rows = [made_row("weak", 90, 4, 6), made_row("strong", 40, 20, 40)]
    total = tables.overall(rows)
    assert total.win.mean == pytest.approx(0.65) and (total.draw, total.loss) == (pytest.approx(0.12), 0.23)
    assert (total.minimum.opponent, total.minimum_win) == ("strong", 0.4)
    values = tables.scalars(rows)
    assert values["eval/weak/win_rate"] == 0.9 and values["eval/strong/draw_rate"] == 0.2
    assert values["eval/mean_win_rate"] == pytest.approx(0.65) and values["eval/min_win_rate"] == 0.4
    assert values["eval/weak/return"] == pytest.approx(0.84)


def test_the_table_of_a_game_of_two_is_outcomes_alone(row):
    table = tables.format_table([row], TicTacToe()).splitlines()
    head = [cell.strip() for cell in table[0].split("|")[1:-1]]
    assert head == [*("opponent", "games", "win % (95 %)", "draw %", "loss %", "margin"), *("starting / not", "steps")]
    assert table[3:-2] == ["too wide to be shown: in seat 0 / 1"] and table[2].split("|")[2].strip() == "2000"
    both = tables.format_table([made_row("weak", 90, 4, 6), made_row("strong", 40, 20, 40)], TicTacToe())
    assert "90.0 (78.3 to 95.7)" in both and "minimum: strong" in both and "mean of 2" in both


def test_a_table_is_one_and_fits_into_a_terminal():
    """The most important columns stand in it, the others are named; long names are cut where they begin."""
    name = "an_experiment_of_many_words/seed_"
    rows = [dataclasses.replace(made_row("a_bot_with_a_long_name", 90, 4, 6), candidate=f"{name}{i}") for i in (0, 1)]
    figures = {f"victory_points_{i}": np.array([i, 0.0]) for i in range(6)}
    rows = [dataclasses.replace(row, samples=row.samples._replace(candidate=figures)) for row in rows]
    lines = tables.format_table(rows, TicTacToe()).splitlines()
    assert max(map(len, lines)) <= tables.WIDTH
    assert lines[3] == "| …f_many_words/seed_1 | …ot_with_a_long_name | 100   | 90.0 (78.3 to 95.7) | 4.0    | 6.0    |"
    assert " ".join(lines[4:-2]) == "too wide to be shown: " + ", ".join(
        [*(f"victory points {i}" for i in range(6)), "in seat 0 / 1", "steps"]
    )


def test_many_figures_are_a_table_of_their_own():
    figures = {f"figure_{i}": np.array([i, i + 1.0]) for i in range(tables.LINES + 10)}
    rows = [made_row("weak", 90, 4, 6), made_row("strong", 40, 20, 40)]
    rows = [dataclasses.replace(row, samples=row.samples._replace(candidate=figures)) for row in rows]
    first, second, winning = tables.format_table(rows, TicTacToe()).split("\n\n")
    lines = second.splitlines()
    assert first.count("\n") == 5 and "figure 3" not in first.replace("figure 0", "")
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == ["", "weak", "strong"]  # none of mean and minimum
    assert len(lines[2].split("|")) == 5 and "too wide to be shown: figure" in second
    assert sum(line.startswith("| figure") for line in lines) == tables.LINES


def test_a_game_for_one_has_no_outcomes():
    env = Corridor(random_start=False)
    rows = evaluate.evaluate_players(env, [bot_player(env, "random")], [], deals=4, seed=0)
    assert rows[0].samples.outcomes is None and rows[0].record()["outcomes"] is None
    assert tables.overall(rows) is None and "eval/mean_win_rate" not in tables.scalars(rows)
    assert "win %" not in tables.format_table(rows, env)
