"""The quality gate: every verdict on runs written by hand, figures that a game does not have, mistakes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl import cli, statistics
from jaxrl.experiments.compare import figure, mean_of, own_rows, win_rate
from jaxrl.runs.directory import write_json
from jaxrl.statistics import Design, Interval, wilson


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
    name: str, fps: float = 1000.0, rows: list[dict[str, Any]] | None = None, *, game: str = "battle", **settings: Any
) -> Path:
    """A run directory whose log lines scatter by 1 % around `fps`."""
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"env": {"id": game}, "ppo": settings}))
    noise = 1 + 0.01 * np.random.default_rng(len(name)).standard_normal(40)
    lines = [{"update": 0, "steps": 0, "time/fps": fps / 9, "rollout/ep_rew_mean": None}]  # with the compilation
    lines += [
        {"update": i, "steps": i, "time/fps": fps * x, "rollout/ep_rew_mean": 0.5 * x} for i, x in enumerate(noise, 1)
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


@pytest.mark.parametrize(
    ("fps", "wins", "limits", "code", "said"),
    [
        (
            1200,
            6950,
            (),
            0,
            ("b passes the quality gate against a", "PASS  throughput +", "PASS  win rate -0.5 points"),
        ),
        (1050, 7500, (), 1, ("FAIL  throughput +", "PASS  win rate +5.0 points", "b does not pass")),
        (1500, 6500, (), 1, ("PASS  throughput +", "FAIL  win rate -5.0 points")),
        (900, 6000, (), 1, ("FAIL  throughput -", "FAIL  win rate")),
        (1500, 6700, (), 0, ("PASS  win rate -3.0 points", "leaves a doubt")),
        (1050, 6500, ("--min-gain", "2", "--max-drop", "6"), 0, ()),
    ],
)
def test_verdicts(capsys, fps, wins, limits, code, said):
    """B against A with 1,000 steps/s, whose first line (fps / 9) includes compilation, and 7,000 wins of 10,000."""
    a_run("a", 1000.0, [a_row("a", 7000, 10000)])
    a_run("b", fps, [a_row("b", wins, 10000)])
    found, text = gate(capsys, "a", "b", *limits)
    assert found == code and all(each in text for each in said) and "111" not in text
    assert limits or text.count("doubt") == (wins == 6700)


# ---- figures ------------------------------------------------------------------------------------------------------


def test_the_table_has_everything_the_runs_tell(capsys):
    told = {"vp_difference": 3.0, "wiped_enemy": 0.25, "wiped_out": 0.05, "round_limit": 0.7, "rounds": 4.9}
    a_run("a", 1000.0, [a_row("a", 70, 100, **told)], epochs=2)
    a_run("b", 1200.0, [a_row("b", 80, 100, **(told | {"vp_difference": 5.5}))], epochs=4)
    code, text = gate(capsys, "a", "b", "--out", "found.json")
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert "+2.50 (+2.47 to +2.53)" in lines["vp difference"]
    assert "0.250 (0.230 to 0.270)" in lines["wiped enemy"] and "0.700" in lines["round limit"]
    assert "4.90" in lines["rounds"]
    assert "ppo.epochs: 2 -> 4" in text and "win rate against" not in text
    record = json.loads(Path("found.json").read_text())
    assert code == 0 and record["passed"] and record["lines"][0]["name"] == "throughput, steps/s"


def test_what_a_game_does_not_tell_is_a_dash(capsys):
    a_run("a", 1000.0, [a_row("a", 70, 100)])
    a_run("b", 1200.0, [a_row("b", 80, 100, vp_difference=1.0)])
    code, text = gate(capsys, "a", "b")
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert code == 0
    assert lines["vp difference"][-1] == "-" and lines["vp difference"][2] == "-"


def test_a_game_for_one_is_judged_by_its_throughput(capsys):
    rows = {name: [a_row(name, 1, 2, "-") | {"outcomes": None}] for name in "ab"}
    a_run("a", 1000.0, rows["a"])
    a_run("b", 1200.0, rows["b"])
    code, text = gate(capsys, "a", "b")
    assert code == 0 and "this game has no winners" in text


def test_means_over_opponents():
    rows = [a_row("a", 140, 200, "x"), a_row("a", 10, 100, "y")]
    own = own_rows({"rows": [*rows, a_row("rival", 0, 100, "x")]}, "a")
    assert own == {"x": [rows[0]], "y": [rows[1]]}

    class RunData:
        rows = own

    low, high = np.mean([wilson(140, 200, Design(degrees=99)), wilson(10, 100, Design(degrees=49))], axis=0)
    assert figure(RunData, ["x", "y"], win_rate).interval == pytest.approx((0.4, low, high))
    assert figure(RunData, ["x"], lambda row: mean_of(row, "return")).interval.value == pytest.approx(0.4)
    assert figure(RunData, ["x"], lambda row: mean_of(row, "points")).interval is None


def test_evaluations_of_one_kind_are_compared_and_others_are_named(capsys):
    a_run("a", 1000.0, [a_row("a", 70, 100)])
    folder = a_run("b", 1200.0)
    each = [
        {"policy": kind, "seed": 1, "rows": [a_row("b", won, 100)]} for kind, won in (("greedy", 72), ("sampled", 20))
    ]
    write_json(folder / "evaluation.json", each)
    code, text = gate(capsys, "a", "b")
    assert code == 0 and "win rate +2.0 points" in text
    write_json(folder / "evaluation.json", each[1:])
    assert "evaluation.policy: greedy -> sampled" in gate(capsys, "a", "b")[1]


def test_gains_and_milestones_of_seeds(capsys):
    for name, late in (("a", 0.0), ("b", 0.2)):
        folder = a_run(name, 1000.0, [a_row(f"{name}/seed_{i}", 70, 100) for i in range(2)])
        tree = {"env": {"id": "battle"}, "run": {"seeds": 2}, "train": {"milestones": {"script": [0.5]}}}
        (folder / "config.yaml").write_text(yaml.safe_dump(tree))
        rows = []
        for n in (0, 1):
            clock = {"time/fps": 1.0, "time/time_elapsed": 1800 * n, "time/cpu_seconds": 3600 * n}
            seeds = itertools.product(range(2), ("return", "win_rate"))
            told = {f"seed_{i}/eval/script/{key}": 0.3 * n + late + i / 100 for i, key in seeds}
            rows.append({"update": n, "steps": n * 1_000_000} | clock | told)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = {line.split("  ")[0]: line for line in gate(capsys, "a", "b", "--min-gain=-100")[1].splitlines()}
    assert "0.600 (0.600 to 0.600)" in lines["reward gained per hour"]
    assert all("30.0" in lines[f"50% against script, {unit}"] for unit in ("minutes", "CPU minutes"))


# ---- intervals ----------------------------------------------------------------------------------------------------


def test_gains_are_ratios_of_medians():
    values = [99.0, 100.0, 101.0] * 9, [119.0, 120.0, 121.0] * 9
    before, after, gain = found = statistics.ratio_of_medians(*values)
    assert (before.value, after.value) == (100.0, 120.0) and 99 <= before.low <= 100 <= before.high <= 101
    assert gain.value == pytest.approx(0.2) and 0.17 < gain.low <= 0.2 <= gain.high < 0.23
    assert found == statistics.ratio_of_medians(*values)


def test_several_seeds_have_an_interval_over_seeds(capsys):
    """Student's t for three win rates (4.303 with two degrees of freedom), Welch's for their difference."""
    from scipy import stats  # takes seconds, and every process of the suite collects this file

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
    newcombe = 0.0524, 0.3339  # 1998, table II, example (a)
    assert (change.low, change.high) == pytest.approx(newcombe, abs=5e-4)
    means = statistics.difference(Interval(1.0, 0.7, 1.3), Interval(3.0, 2.6, 3.4))
    assert means == pytest.approx((2.0, 1.5, 2.5))
    assert statistics.difference(None, first) is None


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
    gate(capsys, "a", "a")
    assert {path: path.read_bytes() for path in before.iterdir()} == files
