"""`jaxrl bench`: two configurations at equal CPU time, nothing trained twice, mistakes; the table by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl.runs.metric_log import read_rows
from jaxrl.training.bench import bench
from jaxrl.training.bench.bench import Result
from tests.support.paths import PYTHONPATH
from tests.support.small_runs import NIM

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
    assert re.search(r"win rate % +change to a\n", table) and "GPU" not in table
    assert "\na: nim.yaml\nb: nim.yaml ppo.epochs=8\n" in table and "to 1% against random" in table
    place = Path("runs/bench")
    made = {path.parent.name for path in place.glob("*/config.yaml")}
    assert made == {"a-0", "a-1", "b-0", "b-1", "a-pilot", "b-pilot"}
    for name in ("a-0", "a-1", "b-0", "b-1"):
        text = (place / name / "config.yaml").read_text()
        assert "clip: 0.3" in text and f"seed: {name[-1]}\n" in text and ("epochs: 8" in text) == (name[0] == "b")
    record = json.loads((place / "bench.json").read_text())["results"]
    minutes = [each["cpu_minutes"] for results in record.values() for each in results]
    assert all(0.003 < each < 0.03 for each in minutes)  # equal but for the noise of half a second
    assert cli.main(words) == 0  # nothing is trained again
    assert capfd.readouterr().out.count("is finished") == 4
    assert cli.main(["runs", str(place)]) == 0


def test_milestones_go_with_any_length(tmp_path):
    (contender,) = bench.parse(["nim.yaml train.updates_per_call=1"], tmp_path, ())
    for steps in (128, 100_000):
        assert contender.load(*bench._settings(contender, steps)).train.evaluate_every > 0


def test_values_may_have_spaces(tmp_path):
    texts = ["a file.yaml ppo.epochs=2 train.milestones={hard: [0.1, 0.2]}", "evaluate.opponents=[hard, medium]", "b"]
    first, second = bench.parse(texts, tmp_path, ())
    both = "evaluate.opponents=[hard, medium]"
    assert first.words == ("a file.yaml", "ppo.epochs=2", "train.milestones={hard: [0.1, 0.2]}", both)
    assert second.words == ("b", both) and (first.name, second.name) == ("a", "b")


@pytest.mark.thorough
def test_a_pilot_does_not_take_random_play_before_learning_for_training(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "PILOT", 0.005)
    (contender,) = bench.parse(["nim.yaml train.algorithm=dqn dqn.learning_starts=50_000"], tmp_path / "pilots", ())
    assert contender.load().dqn.learning_starts == 50_000
    assert bench.fitting(contender, 0.01) > 0
    assert all(row["train/td_error"] > 0 for row in read_rows(tmp_path / "pilots" / "a-pilot" / "metrics.jsonl"))


def result(win_rate: float, gained: float = 0.2, **milestones: float) -> Result:
    return Result(1000.0, 600.0, 1.7, math.nan, 10.0, gained, win_rate, 0.5, milestones)


def test_the_table_by_hand(tmp_path):
    contenders = bench.parse(["x", "y ppo.epochs=2"], tmp_path, ())
    found = [[result(0.5, hard=60.0), result(0.6)], [result(0.7, hard=30.0), result(0.8, math.nan, hard=90.0)]]
    lines = bench.report(contenders, found, 10.0).splitlines()
    assert lines[2].split("  ")[0] == "" and "GPU" not in lines[2]
    a, b = (re.split(r" {2,}", line) for line in lines[4:6])
    assert a == ["a", "1 k", "600", "1.7", "10", "20", "1:00 (1 of 2)", "55.0 (-8.5 to 118.5)"]
    assert b[5:8] == ["-", "1:00", "75.0 (11.5 to 138.5)"] and b[8].startswith("+20.0 (-10.4 to +50.4)")
    assert bench.report(contenders, [each[:1] for each in found], 1.0).splitlines()[5].endswith("20.0")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("ppo.clip=0.3",), "give 1 to 26 configurations to compare, got 0"),
        (("nim.yaml", "--seeds", "0"), "--seeds at least 1"),
        (("nim.yaml", "--minutes", "0"), "--minutes must be above 0"),
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
