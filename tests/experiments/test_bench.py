"""`jaxrl bench`: equal CPU time, contenders side by side, nothing trained twice, mistakes; the table by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from jaxrl import cli
from jaxrl.experiments import bench, report
from jaxrl.experiments.contenders import grouped, parse
from jaxrl.experiments.results import LearningCurve, Trained, curves_of
from jaxrl.runs.directory import RunDirectory, load_run
from jaxrl.runs.metric_log import read_rows
from tests.support.paths import PYTHONPATH
from tests.support.small_runs import NIM
from tests.support.training import assert_identical

CONFIG = (
    NIM
    + """\
train: {num_envs: 16, num_steps: 8, total_steps: 100_000, updates_per_call: 2, milestones: {random: [0.01, 1.0]}}
evaluate: {deals: 4, training_deals: 4, opponents: [random, perfect]}
"""
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)  # for the trainings, which are processes of their own
    (tmp_path / "nim.yaml").write_text(CONFIG)


@pytest.mark.thorough
def test_two_configurations(capfd, monkeypatch):
    monkeypatch.setattr(bench, "PILOT", 0.005)
    words = ["bench", "nim.yaml", "nim.yaml ppo.epochs=8", "ppo.clip=0.3", "--minutes", "0.01", "--seeds", "2"]
    assert cli.main(words) == 0
    said = capfd.readouterr().out
    table = said[said.index("2 seed(s) of 0.01 CPU minutes") :]
    assert re.search(r"win rate %, change +return", table) and "GPU" not in table
    assert "\na: nim.yaml\nb: nim.yaml ppo.epochs=8\n" in table and "CPU s to 1% against random" in table
    place = Path("runs/bench")
    assert {path.parent.name for path in place.glob("*/config.yaml")} == {
        *("a-0", "a-1", "b-0", "b-1", "a-pilot", "b-pilot")
    }
    for name in ("a-0", "a-1", "b-0", "b-1"):
        text = (place / name / "config.yaml").read_text()
        assert "clip: 0.3" in text and f"seed: {name[-1]}\n" in text and ("epochs: 8" in text) == (name[0] == "b")
    record = json.loads((place / "bench.json").read_text())["results"]
    minutes = [each["CPU min"] for results in record.values() for each in results]
    assert all(0.003 < each < 0.03 for each in minutes)  # equal but for the noise of half a second
    assert (place / "plot.svg").read_text().startswith("<svg") and table[:50] in (place / "table.md").read_text()
    assert cli.main(words) == 0  # nothing is trained again
    assert capfd.readouterr().out.count("is finished") == 4
    assert cli.main(["runs", str(place)]) == 0


@pytest.mark.thorough
@pytest.mark.optimised  # without optimisation XLA rounds otherwise within a loop
def test_side_by_side_each_is_the_run_trained_alone(capfd):
    """A grid of four in one program, and a contender of another program; bit by bit on a CPU."""
    grid = ["--vary", "ppo.learning_rate=1e-3,1e-2", "ppo.gamma=0.9,1.0"]
    words = ["bench", "nim.yaml", "train.updates_per_call=1", "--steps", "1024", "--seeds", "2", *grid]
    assert cli.main(words) == 0
    table = capfd.readouterr().out
    record = json.loads(Path("runs/bench/bench.json").read_text())
    assert record["side_by_side"] == ["abcd"] and "steps to 1% against random" in table
    assert [len(each) for each in record["results"].values()] == [2] * 4
    own = ["train.total_steps=1024", "train.updates_per_call=1", "run.seed=1"]
    words = ["train", "--config", "nim.yaml", "--name", "alone", *own, "ppo.learning_rate=1e-2", "ppo.gamma=0.9"]
    assert cli.main([*words, "train.evaluate_every=1"]) == 0
    together, alone = load_run("runs/bench/abcd", allow=["examples"]), load_run("alone", allow=["examples"])
    assert_identical(together.params[5], alone.params[0])  # a b c d, each with two seeds
    several = curves_of(Trained(RunDirectory(Path("runs/bench/abcd")), 5, 8))["return"]
    one = curves_of(Trained(RunDirectory(Path("runs/alone"))))["return"]
    np.testing.assert_array_equal(several.value, one.value)


def test_contenders_of_one_program(tmp_path):
    texts = ["nim.yaml", "nim.yaml ppo.clip=0.1", "nim.yaml ppo.epochs=2", "nim.yaml ppo.target_kl=0.02"]
    groups = grouped(parse(texts, ["ppo.gamma=0.9,0.99"], ()), 3, tmp_path)
    assert [group.name for group in groups] == ["abcd", "ef", "gh"] and groups[0].members == 12
    vary = json.loads(groups[0].words()[-1].partition("=")[2])
    assert vary == {"ppo.clip": [0.05, 0.05, 0.1, 0.1], "ppo.gamma": [0.9, 0.99, 0.9, 0.99]}
    assert grouped(parse(texts[:1], [], ()), 3, tmp_path)[0].words() == ["run.seeds=1"]


def test_milestones_go_with_any_length():
    (contender,) = parse(["nim.yaml train.updates_per_call=1"], (), ())
    for steps in (128, 100_000):
        assert contender.load(*bench._settings(contender, steps)).train.evaluate_every > 0


def test_values_may_have_spaces():
    texts = ["a file.yaml ppo.epochs=2 train.milestones={hard: [0.1, 0.2]}", "evaluate.opponents=[hard, medium]", "b"]
    first, second = parse(texts, (), ())
    both = "evaluate.opponents=[hard, medium]"
    assert first.words == ("a file.yaml", "ppo.epochs=2", "train.milestones={hard: [0.1, 0.2]}", both)
    assert second.words == ("b", both) and (first.name, second.name) == ("a", "b")


@pytest.mark.thorough
def test_a_pilot_does_not_take_random_play_before_learning_for_training(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "PILOT", 0.005)
    contenders = parse(["nim.yaml train.algorithm=dqn dqn.learning_starts=50_000"], (), ())
    (group,) = grouped(contenders, 1, tmp_path / "pilots")
    assert bench.fitting(group, 0.01) > 0
    assert all(row["train/td_error"] > 0 for row in read_rows(tmp_path / "pilots" / "a-pilot" / "metrics.jsonl"))


def test_the_table_by_hand():
    contenders = parse(["x", "y ppo.epochs=2"], (), ())

    def one(win_rate: float, reached: float) -> dict[str, float]:
        return {"steps/s": 1000.0, "GPU %": math.nan, "CPU s to 50% against hard": reached, "win rate %": win_rate}

    found = {"a": [one(50.0, 60.0), one(60.0, math.nan)], "b": [one(70.0, 30.0), one(80.0, 90.0)]}
    lines = bench.text_of(contenders, found, "").splitlines()
    a, b = (re.split(r" {2,}", line) for line in lines[4:6])
    assert a == ["a", "1 k", "1:00 (1 of 2)", "55.0 (-8.5 to 118.5)"] and "GPU" not in lines[2]
    assert b[:2] == ["b", "1 k"] and b[3:] == ["75.0 (11.5 to 138.5)", "+20.0 (-10.4 to +50.4)"]
    single = bench.text_of(contenders, {name: each[:1] for name, each in found.items()}, "")
    assert single.splitlines()[5].endswith("+20.0")


def test_gains_and_times_to_a_level():
    curve = LearningCurve(*np.array([[0, 10, 20], [0, 1, 2], [0, 2, 4], [0.1, 0.5, 0.4]]))
    assert curve.gained("cpu") == pytest.approx(0.075) and curve.reached(0.45, "steps") == 10
    assert math.isnan(curve.reached(0.6, "cpu"))
    assert report.plot({"a": [{"return": curve}]}).count("<path") == 2 * (3 + 2) and report.plot({"a": [{}]}) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("ppo.clip=0.3",), "give 1 to 26 configurations to compare, got 0"),
        (("nim.yaml", "--seeds", "0"), "--seeds at least 1"),
        (("nim.yaml", "--minutes", "0"), "--minutes must be above 0"),
        (("nim.yaml", "--vary", "ppo.clip"), "KEY=A,B"),
        (("nim.yaml ppo.epoch=3",), "did you mean 'ppo.epochs'"),
        (("nim.yml",), "nim.yml"),
        (("nim.yaml", "nim.yaml evaluate.opponents=[perfekt]"), "did you mean 'perfect'"),
        (("nim.yaml", "nim.yaml train.milestones={perfekt: [0.5]}"), "did you mean 'perfect'"),
    ],
)
def test_mistakes_are_one_sentence(capsys, given, said):
    assert cli.main(["bench", *given]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not Path("runs").exists()
