"""The quality gate: every verdict on runs written by hand, figures that a game does not have, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from jaxrl import cli, statistics
from jaxrl.diagnose.compare import figure_interval, own_rows, win_interval
from jaxrl.runs.directory import write_json
from jaxrl.statistics import Design, Interval, wilson
from jaxrl.training.timers import PREFIX
from jaxrl_envs.shared.errors import UserError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "")


def a_row(name: str, wins: int, games: int, opponent: str = "script", **figures: float) -> dict[str, Any]:
    figures = {"return": 2 * wins / games - 1} | figures
    return {
        "candidate": name,
        "opponent": opponent,
        "deals": games // 2,
        "games": games,
        "figures": {key: {"mean": mean, "half_width_95": 0.02} for key, mean in figures.items()},
        "outcomes": {"games": games, "wins": wins, "draws": 0, "losses": games - wins},
    }


def a_run(
    name: str,
    fps: float = 1000.0,
    rows: list[dict[str, Any]] | None = None,
    *,
    game: str = "battle",
    logged: dict[str, float] | None = None,
    **settings: Any,
) -> Path:
    """A run directory whose log lines scatter by 1 % around `fps`."""
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"env": {"id": game}, "ppo": settings}))
    noise = 1 + 0.01 * np.random.default_rng(len(name)).standard_normal(40)
    lines = [{"update": 0, "steps": 0, "time/fps": fps / 9, "rollout/ep_rew_mean": None}]  # with the compilation
    lines += [
        {"update": i, "steps": i, "time/fps": fps * x, "rollout/ep_rew_mean": 0.5 * x} | (logged or {})
        for i, x in enumerate(noise, 1)
    ]
    lines.insert(20, {"update": 19, "steps": 19, "eval/mean_win_rate": 0.5})  # not of the training
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if rows is not None:
        write_json(folder / "evaluation.json", [{"policy": "greedy", "seed": 1, "rows": rows}])
    return folder


def gate(capsys, *argv: str) -> tuple[int, str]:
    code = cli.main(["compare", *argv])
    out = capsys.readouterr()
    return code, out.out + out.err


def pair(capsys, *, fps: float, wins: int) -> tuple[int, str]:
    """B with `fps` and `wins` of 10,000 games against A with 1,000 steps/s and 7,000 wins."""
    a_run("a", 1000.0, [a_row("a", 7000, 10000)])
    a_run("b", fps, [a_row("b", wins, 10000)])
    return gate(capsys, "a", "b")


# ---- verdicts -----------------------------------------------------------------------------------------------------


def test_faster_and_as_strong_passes(capsys):
    code, text = pair(capsys, fps=1200.0, wins=6950)
    assert code == 0 and text.count("PASS") == 2 and "FAIL" not in text
    assert "b passes the quality gate against a" in text and "doubt" not in text


def test_too_little_throughput_fails(capsys):
    code, text = pair(capsys, fps=1050.0, wins=7500)
    assert code == 1 and "FAIL  throughput +" in text and "PASS  win rate +5.0 points" in text
    assert "b does not pass" in text


def test_a_weaker_policy_fails(capsys):
    code, text = pair(capsys, fps=1500.0, wins=6500)
    assert code == 1 and "PASS  throughput +" in text and "FAIL  win rate -5.0 points" in text and "doubt" not in text


def test_a_slower_and_weaker_run_fails_twice(capsys):
    code, text = pair(capsys, fps=900.0, wins=6000)
    assert code == 1 and text.count("FAIL") == 2


def test_three_points_may_be_lost_and_the_doubt_is_said(capsys):
    code, text = pair(capsys, fps=1500.0, wins=6700)
    assert code == 0 and "PASS  win rate -3.0 points" in text and text.count("leaves a doubt") == 1


def test_limits_are_options(capsys):
    a_run("a", 1000.0, [a_row("a", 7000, 10000)])
    a_run("b", 1050.0, [a_row("b", 6500, 10000)])
    assert gate(capsys, "a", "b", "--min-gain", "2", "--max-drop", "6")[0] == 0


# ---- figures ------------------------------------------------------------------------------------------------------


def test_the_table_has_everything_the_runs_tell(capsys):
    told = {"vp_difference": 3.0, "wiped_enemy": 0.25, "wiped_out": 0.05, "round_limit": 0.7, "rounds": 4.9}
    a_run("a", 1000.0, [a_row("a", 70, 100, **told)], logged={PREFIX + "action": 30.0}, epochs=2)
    a_run(
        "b",
        1200.0,
        [a_row("b", 80, 100, **(told | {"vp_difference": 5.5}))],
        logged={PREFIX + "action": 20.0},
        epochs=4,
    )
    code, text = gate(capsys, "a", "b", "--out", "found.json")
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert "+2.50 (+2.47 to +2.53)" in lines["VP difference"]
    assert "25.0 % (23.0 % to 27.0 %)" in lines["end: wiped enemy"] and "70.0 %" in lines["end: round limit"]
    assert "4.90" in lines["rounds"] and "-10.0" in lines["action, ms per 1,000 steps"]
    assert "ppo.epochs: 2 -> 4" in text and "win rate against" not in text
    record = json.loads(Path("found.json").read_text())
    assert code == 0 and record["passed"] and record["lines"][0]["name"] == "throughput, steps/s"
    assert record["lines"][-1]["left"] == [30.0, None, None]  # JSON has no NaN


def test_what_a_game_does_not_tell_is_a_dash(capsys):
    a_run("a", 1000.0, [a_row("a", 70, 100)])
    a_run("b", 1200.0, [a_row("b", 80, 100, vp_difference=1.0)])
    code, text = gate(capsys, "a", "b")
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert code == 0
    assert lines["VP difference"][-1] == "-" and lines["VP difference"][2] == "-"
    assert lines["end: wiped out"][-3:] == ["-", "-", "-"]


def test_a_game_for_one_is_judged_by_its_throughput(capsys):
    rows = {name: [a_row(name, 1, 2, "-") | {"outcomes": None}] for name in "ab"}
    a_run("a", 1000.0, rows["a"])
    a_run("b", 1200.0, rows["b"])
    code, text = gate(capsys, "a", "b")
    assert code == 0 and "this game has no winners" in text


def test_the_compilation_does_not_count(capsys):
    _, text = pair(capsys, fps=1200.0, wins=7000)
    assert "111" not in text  # fps / 9, the first line


def test_means_over_opponents_and_seeds():
    rows = [a_row("a/seed_0", 60, 100, "x"), a_row("a/seed_1", 80, 100, "x"), a_row("a/seed_0", 10, 100, "y")]
    own = own_rows({"rows": [*rows, a_row("rival", 0, 100, "x")]}, "a")
    assert {name: len(each) for name, each in own.items()} == {"x": 2, "y": 1}

    class RunData:
        rows = own

    low, high = np.mean([wilson(140, 200, Design(degrees=99)), wilson(10, 100, Design(degrees=49))], axis=0)
    assert win_interval(RunData, ["x", "y"]) == pytest.approx((0.4, low, high))
    assert figure_interval(RunData, ["x"], "return").value == pytest.approx(0.4)
    assert figure_interval(RunData, ["x"], "points") is None


def test_evaluations_of_one_kind_are_compared(capsys):
    a_run("a", 1000.0, [a_row("a", 70, 100)])
    folder = a_run("b", 1200.0)
    kinds = [("greedy", 72), ("sampled", 20)]
    write_json(
        folder / "evaluation.json",
        [{"policy": policy, "seed": 1, "rows": [a_row("b", wins, 100)]} for policy, wins in kinds],
    )
    code, text = gate(capsys, "a", "b")
    assert code == 0 and "win rate +2.0 points" in text


def test_different_evaluations_are_said(capsys):
    a_run("a", 1000.0, [a_row("a", 70, 100)])
    folder = a_run("b", 1200.0)
    write_json(folder / "evaluation.json", [{"policy": "sampled", "seed": 1, "rows": [a_row("b", 70, 100)]}])
    assert "evaluation.policy: greedy -> sampled" in gate(capsys, "a", "b")[1]


# ---- intervals ----------------------------------------------------------------------------------------------------


def test_the_interval_of_a_median_holds_it_in_95_of_100_cases():
    generator = np.random.default_rng(0)
    for n in (6, 15, 40):
        found = [statistics.median_interval(generator.standard_normal(n)) for _ in range(1000)]
        held = np.mean([each.low <= 0.0 <= each.high for each in found])
        assert 0.935 < held < 0.99, n
    assert statistics.median_interval([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0)
    ordered = statistics.median_interval(list(range(1, 16)))
    assert ordered == Interval(8.0, 4, 12)  # the 4th and the 12th of 15, as in tables of the sign test


def test_gains_are_ratios_of_medians():
    gain = statistics.gain_interval([99.0, 100.0, 101.0] * 9, [119.0, 120.0, 121.0] * 9)
    assert gain.value == pytest.approx(0.2) and 0.17 < gain.low <= 0.2 <= gain.high < 0.23
    assert gain == statistics.gain_interval([99.0, 100.0, 101.0] * 9, [119.0, 120.0, 121.0] * 9)


def test_several_seeds_have_an_interval_over_seeds(capsys):
    """Student's t for three win rates (4.303 with two degrees of freedom), Welch's for their difference."""
    for name, wins in {"a": (50, 52, 54), "b": (70, 70, 85)}.items():
        a_run(name, 1000.0, [a_row(f"{name}/seed_{i}", won, 100) for i, won in enumerate(wins)])
    code, text = gate(capsys, "a", "b", "--min-gain=-100")
    assert code == 0 and "52.0 % (47.0 % to 57.0 %)" in text and "75.0 % (53.5 % to 96.5 %)" in text
    assert "win rate +23.0 points (+2.8 to +43.2)" in text and "seeds: 3 and 3\n" in text
    change = statistics.welch_interval(np.array([50.0, 52.0, 54.0]), np.array([70.0, 70.0, 85.0]))
    expected = stats.ttest_ind([70, 70, 85], [50, 52, 54], equal_var=False).confidence_interval()
    assert tuple(change) == pytest.approx((23.0, *expected))


def test_differences_of_rates():
    first, second = Interval(0.5, *wilson(56, 112)), Interval(56 / 70, *wilson(56, 70))
    change = statistics.difference(Interval(48 / 80, *wilson(48, 80)), second, newcombe=True)
    assert change.value == pytest.approx(0.2)
    assert (change.low, change.high) == pytest.approx(
        (0.0524, 0.3339), abs=5e-4
    )  # Newcombe 1998, table II, example (a)
    means = statistics.difference(Interval(1.0, 0.7, 1.3), Interval(3.0, 2.6, 3.4))
    assert means == pytest.approx((2.0, 1.5, 2.5))
    assert statistics.difference(None, first) is None and statistics.mean_interval([]) is None


# ---- mistakes -----------------------------------------------------------------------------------------------------


def test_mistakes_are_user_errors(capsys):
    rows = [a_row("a", 70, 100)]
    a_run("a", 1000.0, rows)
    a_run("unmeasured")
    a_run("other_game", rows=[a_row("other_game", 70, 100)], game="skull_king")
    a_run("others", rows=[a_row("others", 70, 100, "another")])
    (a_run("untrained", rows=[a_row("untrained", 70, 100)]) / "metrics.jsonl").unlink()
    (a_run("broken") / "evaluation.json").write_text("[{")
    cases = {
        "no_such_run": "no run",
        "unmeasured": "jaxrl evaluate unmeasured",
        "other_game": "one game",
        "others": "same opponents",
        "untrained": "train it first",
        "broken": "move it out of the way",
    }
    for name, message in cases.items():
        code, text = gate(capsys, "a", name)
        assert code == 2 and message in text and text.count("\n") == 1, text
    assert gate(capsys, "a", "a", "--out", "none/x.json")[0] == 2


def test_nothing_but_reading(capsys):
    before = a_run("a", 1000.0, [a_row("a", 70, 100)])
    files = {path: path.read_bytes() for path in before.iterdir()}
    with pytest.raises(UserError):
        from jaxrl.diagnose.compare import read_run
        from jaxrl.runs.directory import find_run

        read_run(find_run("b"), {})
    gate(capsys, "a", "a")
    assert {path: path.read_bytes() for path in before.iterdir()} == files
