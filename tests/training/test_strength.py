"""Milestones, gains and stop rules: each exactly once and by hand; mistakes are one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl.runs import status
from jaxrl.runs.directory import find_run
from jaxrl.text_tables import milestone, sparkline
from jaxrl.training.callbacks import Callback
from jaxrl.training.config import StopRules
from jaxrl.training.record import Clock
from jaxrl.training.stopping import over
from jaxrl.training.strength import milestones
from jaxrl.training.strength.milestones import EvaluationPoint
from tests.support.killing import newest, rows
from tests.support.small_runs import NIM

CONFIG = (
    NIM
    + """\
train: {num_envs: 16, num_steps: 8, total_steps: 1536, updates_per_call: 1, checkpoint_every: 4, evaluate_every: 2}
evaluate: {deals: 2, training_deals: 8, opponents: [random, perfect]}
"""
)


class Content(Callback):
    """Asks to stop after five updates."""

    def on_metrics(self, step, metrics):
        self.stop = self.stop or step >= 5 * 128


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nim.yaml").write_text(CONFIG)


def train(name: str, *overrides: str) -> int:
    return cli.main(["train", "--config", "nim.yaml", "--name", name, *overrides])


def a_row(hard: float, weak: float, returned: float) -> dict[str, float]:
    return {
        "eval/hard/win_rate": hard,
        "eval/weak/win_rate": weak,
        "eval/mean_win_rate": (hard + weak) / 2,
        "eval/hard/return": returned,
        "eval/weak/return": returned + 2.0,
        "seed_0/eval/hard/win_rate": 1.0,
    }


def test_milestones_and_gains_by_hand():
    host, wanted = milestones.EvaluationRecord(), {"hard": (0.5, 0.3, 0.3), "weak": (0.9,)}
    more, new = milestones.take(host, wanted, EvaluationPoint(2, 1_000_000, 60.0, 90.0), a_row(0.3, 0.5, -1.0))
    assert [(each["opponent"], each["win_rate"], each["update"]) for each in new] == [("hard", 0.3, 2)]
    assert more == {"milestone/hard/0.3/steps": 1_000_000, "time/to/hard/0.3": 60.0, "time/cpu_to/hard/0.3": 90.0}
    more, new = milestones.take(host, wanted, EvaluationPoint(4, 3_000_000, 240.0, 400.0), a_row(0.2, 0.8, 0.0))
    assert not new and host.win_rates == {"hard": 0.2, "weak": 0.8, "": 0.5}
    assert more["eval/win_rate_per_million_steps"] == pytest.approx(0.05)
    assert more["eval/return_per_million_steps"] == pytest.approx(0.5)
    assert more["time/win_rate_per_hour"] == pytest.approx(0.1 * 3600 / 180)
    assert more["time/return_per_hour"] == pytest.approx(20.0)
    more, new = milestones.take(host, wanted, EvaluationPoint(6, 4_000_000, 300.0, 500.0), a_row(0.6, 0.9, 0.0))
    assert [each["win_rate"] for each in new] == [0.5, 0.9] and len(host.milestones) == 3
    alone = {"eval/-/return": 1.0}  # a game of one side
    _, new = milestones.take(host, {}, EvaluationPoint(2, 128, 1.0, 1.0), alone)
    assert not new and not host.win_rates
    wanted = {"return": (1.5, -1.0, 1.0)}
    more, new = milestones.take(host, wanted, EvaluationPoint(4, 256, 2.0, 3.0), alone)
    assert [each["return"] for each in new] == [-1.0, 1.0] and more["time/to/return/1"] == 2.0
    assert not milestones.take(host, wanted, EvaluationPoint(6, 384, 3.0, 4.0), alone)[1]
    assert milestone(new[-1]).startswith("a return of 1 after 256 steps")


def test_a_curve_in_a_line():
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█" and sparkline([0.3, 0.3]) == "▁▁"
    assert len(sparkline([*range(1000)])) == 40 and sparkline([*range(1000)])[::39] == "▁█"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (StopRules(), ""),
        (StopRules(plateau=3), "no evaluation of 3 was better than that after update 8"),
        (StopRules(plateau=4), ""),
        (StopRules(minutes=2.0), "it has taken 2 minutes"),
        (StopRules(minutes=2.1), ""),
        (StopRules(cpu_minutes=3.5), "the CPU has trained 4 minutes"),
        (StopRules(win_rate=0.5), "the win rate has reached 55.0%"),
        (StopRules(win_rate={"hard": 0.4, "weak": 0.7}), "the win rate has reached 40.0% against hard, 70.0% against"),
        (StopRules(win_rate={"hard": 0.5, "weak": 0.7}), ""),
        (StopRules(win_rate={"other": 0.1}), ""),
    ],
)
def test_stop_rules_by_hand(rules, why):
    clock, found = (
        Clock(clock=120.0, seconds=1.0, cpu_seconds=240.0),
        milestones.EvaluationRecord(since_best=3, best_update=8),
    )
    found.win_rates = {"hard": 0.4, "weak": 0.7, "": 0.55}
    assert over(rules, clock, found).startswith(why) and bool(over(rules, clock, found)) == bool(why)


@pytest.mark.thorough
def test_status_runs_and_compare_tell_milestones(tmp_path, capsys):
    wanted = "train.milestones={random: [0.01, 0.02], perfect: 1.0, return: -1.0}"
    assert train("whole", wanted) == 0
    curve, then = capsys.readouterr().out.splitlines()[-2:]
    assert curve.startswith("win rate during training: ") and then.startswith("play it: jaxrl play runs/whole")
    found = json.loads(find_run("whole").milestones_file.read_text())
    assert [(each["win_rate"], each["update"]) for each in found[:2]] == [(0.01, 2), (0.02, 2)]
    assert [tag for row in rows(tmp_path, "whole") for tag in row if tag.startswith("milestone/random/0.01")] == [
        "milestone/random/0.01/steps"
    ]
    lines = find_run("whole").metrics_file.read_text()
    assert '"time/steps_per_s"' in lines and '"time/win_rate_per_hour"' in lines
    assert cli.main(["runs", "whole"]) == 0
    said = capsys.readouterr().out
    assert "milestone   1% against random after 256 steps, 0:0" in said and " of the CPU" in said
    assert "milestone   a return of -1 after 256 steps" in said
    assert status.whole(Path("runs/whole")).milestones[0]["update"] == 2
    assert cli.main(["runs"]) == 0 and "learned in" in capsys.readouterr().out
    assert train("other", wanted) == 0
    assert cli.main(["compare", "whole", "other", "--min-gain", "-99", "--max-drop", "99"]) == 0
    said = capsys.readouterr().out
    assert "1% against random, CPU minutes" in said and "win rate gained per hour" in said


@pytest.mark.thorough
def test_a_training_that_is_over_early_ends_like_any_other(tmp_path, capsys):
    assert train("short", "train.stop.plateau=1", "ppo.learning_rate=1e-9") == 0  # nothing gets better
    said = capsys.readouterr()
    assert "update 4: the training ends here: no evaluation of 1 was better than that after update 2" in said.err
    assert "| random " in said.out
    run = find_run("short")
    [table] = json.loads(run.evaluation_file.read_text())
    assert table["update"] == 4 and run.checkpoints().steps()[-1] == 4
    assert status.brief(run.path).state == "finished"
    assert cli.main(["resume", "short"]) == 0
    said = capsys.readouterr().out
    assert "'short' has ended after 512 steps (4 updates) and is evaluated: no evaluation of 1 was" in said
    assert "go further with: jaxrl resume" in said and "short train.stop=" in said
    assert cli.main(["resume", "short", "train.stop="]) == 0
    assert newest(tmp_path, "short").step == 12
    assert train("paid", "train.stop.minutes=0.01") == 0  # 0.6 seconds: compilation is paid for as well
    host = newest(tmp_path, "paid").meta["host"]
    assert newest(tmp_path, "paid").step == 1 and host["clock"] > max(0.6, host["seconds"])
    assert train("strong", "train.stop.win_rate={random: 0.01}") == 0
    assert newest(tmp_path, "strong").step == 2


@pytest.mark.thorough
def test_a_callback_may_end_it_and_resume_goes_on(tmp_path, capsys):
    assert train("asked", "callbacks=[tests.training.test_strength:Content]") == 0
    said = capsys.readouterr()
    assert "ends here: callback 'tests.training.test_strength:Content' has asked for it" in said.err
    assert newest(tmp_path, "asked").step == 5 and "| random " in said.out
    assert cli.main(["resume", "asked", "callbacks=[]"]) == 0 and newest(tmp_path, "asked").step == 12


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("train.milestones={random: 1.5}", "train.milestones.random must be"),
        ("train.milestones={randm: 0.5}", "'randm' is no opponent of the evaluations: did you mean 'random'?"),
        ("train.milestones=[0.5]", "train.milestones must be a mapping"),
        ("train.stop.win_rate=50", "train.stop.win_rate must be a number from 0 to 1, or a mapping"),
        ("train.stop.win_rate={hard: 0.5}", "'hard' is no opponent"),
        ("train.stop.plateau=-1", "train.stop.plateau must be a whole number of at least 0"),
        ("train.stop.minutes=soon", "train.stop.minutes must be a number"),
        ("train.stop={hours: 1}", "unknown key 'train.stop.hours'"),
        ("train={stop: {plateau: 2}, evaluate_every: 0}", "train.evaluate_every is 0"),
        ("train={milestones: {return: 1}, evaluate_every: 0}", "train.evaluate_every is 0"),
    ],
)
def test_mistakes_are_one_sentence(capsys, given, said):
    assert train("wrong", given) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not Path("runs").exists()
