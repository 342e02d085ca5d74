"""`jaxrl sweep`: twelve trials with pruning, killed and resumed; what is read from the command line; mistakes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from jaxrl import cli
from jaxrl.experiments import sweep as sweeps
from jaxrl.runs.directory import RunDirectory
from jaxrl.training.launching import start
from tests.support.paths import PYTHONPATH

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'jaxrl[sweep]'")

GAME = {
    "env": {"id": "tests.support.lever_game:Levers", "options": {"rewards": {"right": 1.0}}},
    "network": {"hidden": [8]},
    "ppo": {"epochs": 2, "minibatches": 1, "entropy_coef": 0.0, "clip": 0.3},
    "train": {
        "num_envs": 32,
        "num_steps": 4,
        "total_steps": 3840,
        "updates_per_call": 5,
        "checkpoint_every": 5,
        "evaluate_every": 5,
    },
    "evaluate": {"deals": 20, "training_deals": 20, "opponents": ["random"]},
}
OVER = ("--over", "ppo.learning_rate=1e-5..0.1:log", "--over", "ppo.clip=0.1,0.3")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])  # to which commands add
    (tmp_path / "levers.yaml").write_text(yaml.safe_dump(GAME | {"run": {"devices": 1}}))


def arguments(*more: str) -> list[str]:
    return ["sweep", "--config", "levers.yaml", "--allow", "tests", "run.cache_dir=cache", *more]


@pytest.mark.thorough
def test_twelve_trials_with_pruning_killed_and_resumed(tmp_path, capsys):
    """The process is killed in the middle of its fifth trial; the same command takes it over and does the others."""
    folder, words = tmp_path / "runs" / "levers-sweep", (*OVER, "--trials", "12", "--side-by-side", "1")
    command = [sys.executable, "-m", "jaxrl", *arguments(*words)]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fifth, last = RunDirectory(folder / "trial004"), time.monotonic() + 300
    while not (fifth.path.exists() and fifth.checkpoints().saved()) and child.poll() is None:
        assert time.monotonic() < last, "it hangs"
        time.sleep(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    study = optuna.load_study(study_name="levers-sweep", storage=f"sqlite:///{folder / 'study.db'}")
    before = {each.number: (each.state.name, each.params) for each in study.trials}
    assert before[4][0] == "RUNNING" and len(before) == 5

    assert cli.main(arguments(*words)) == 0
    said = capsys.readouterr().out
    found = json.loads((folder / "sweep.json").read_text())["trials"]
    assert [each["run"] for each in found] == [f"trial{number:03}" for number in range(12)]
    states = [each["state"] for each in found]
    assert set(states) == {"complete", "pruned"} and states.count("pruned") >= 2 and states[:3] == ["complete"] * 3
    assert all(found[number]["values"] == params for number, (_, params) in before.items())
    assert f"trial004 of 12: ppo.learning_rate={before[4][1]['ppo.learning_rate']}" in said
    assert "trial003 of 12" not in said, "what was done is not done again"
    for each in found:
        update = RunDirectory(folder / each["run"]).checkpoints().newest().step
        assert update == 30 if each["state"] == "complete" else update < 30
    best = max((each for each in found if each["score"] is not None), key=lambda each: each["score"])
    assert best["values"]["ppo.learning_rate"] > 1e-3 and best["score"] > 0.5, "the lever is learnt at a high rate only"
    assert (folder / "table.md").read_text().removeprefix("```").removesuffix("```\n") in said

    assert cli.main(arguments(*words)) == 0  # nothing is left
    assert "of 12:" not in capsys.readouterr().out
    assert cli.main(arguments(*OVER, "ppo.epochs=3")) == 2
    assert "was begun with ppo.epochs 2, not 3: give this sweep a --name" in capsys.readouterr().err


@pytest.mark.thorough
def test_trials_side_by_side(tmp_path, capsys, monkeypatch):
    """Four in one program, of which the weak ones are pruned together with the run, or when it ends."""
    folder = tmp_path / "runs" / "levers-sweep"
    run = start.run_training
    monkeypatch.setattr(start, "run_training", lambda *_, **__: 130)  # stopped by Ctrl-C
    assert cli.main(arguments(*OVER, "--trials", "6")) == 130
    monkeypatch.setattr(start, "run_training", run)
    assert cli.main(arguments(*OVER, "--trials", "6")) == 0
    found = json.loads((folder / "sweep.json").read_text())["trials"]
    assert [each["run"] for each in found] == ["trial000-003"] * 4 + ["trial004-005"] * 2
    assert "was begun" not in capsys.readouterr().out and (folder / "plot.svg").exists()
    config = RunDirectory(folder / "trial000-003").config(("cache", "tests")).run
    assert config.seeds == 4 and config.vary["ppo.learning_rate.start"] == [
        each["values"]["ppo.learning_rate"] for each in found[:4]
    ]


@pytest.mark.thorough
def test_one_that_diverges_spoils_no_other(tmp_path, capsys):
    assert cli.main(arguments("--over", "ppo.learning_rate=1e-3,1e30", "--trials", "4")) == 0
    found = json.loads((tmp_path / "runs" / "levers-sweep" / "sweep.json").read_text())["trials"]
    states = {each["state"]: each["values"]["ppo.learning_rate"] for each in found}
    assert states == {"complete": "0.001", "fail": "1e+30"} and "each by itself" in capsys.readouterr().out
    assert [each["run"] for each in found] == [f"trial{number:03}" for number in range(4)]


@pytest.mark.thorough
def test_a_trial_that_a_stop_rule_ends_has_a_score(tmp_path):
    assert cli.main(arguments(*OVER, "--trials", "1", "train.stop.cpu_minutes=1e-9")) == 0
    (trial,) = json.loads((tmp_path / "runs" / "levers-sweep" / "sweep.json").read_text())["trials"]
    assert trial["state"] == "complete" and trial["score"] is not None


def test_a_trial_that_another_process_runs_is_left_to_it(tmp_path):
    study = optuna.create_study()
    trial = study.ask()
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        theirs.enter_context(sweeps._locked(tmp_path / "trial000.lock"))
        begun = sweeps.Sweep(optuna, study, None, None, {}, tmp_path)
        assert sweeps._taken_over(begun, ours) == []
        theirs.close()
        assert [each.number for each in sweeps._taken_over(begun, ours)] == [trial.number]


def test_the_values_to_search():
    def of(text):
        return sweeps.distribution(optuna, text)[1]

    kinds = optuna.distributions
    assert sweeps.distribution(optuna, "ppo.epochs=1..4") == ("ppo.epochs", kinds.IntDistribution(1, 4))
    assert of("ppo.learning_rate=1e-5..1e-2:log") == kinds.FloatDistribution(1e-5, 1e-2, log=True)
    assert of("ppo.clip=0..1.0") == kinds.FloatDistribution(0, 1)
    assert of("train.num_envs=64..4096:log") == kinds.IntDistribution(64, 4096, log=True)
    assert of("network.hidden=[64,64],[256]").choices == ("[64, 64]", "[256]")
    assert of("network.kind=mlp,gru").choices == ('"mlp"', '"gru"')


def test_the_evaluation_in_a_line_of_metrics():
    row = {"eval/random/return": 1.0, "eval/hard/return": 0.0, "eval/mean_win_rate": 0.7, "rollout/ep_rew_mean": 3.0}
    assert sweeps.progress(row, "return") == 0.5 and sweeps.progress(row, "mean_win_rate") == 0.7
    assert sweeps.progress({"train/loss": 1.0}, "return") is None
    assert sweeps.progress({"train/loss": 1.0}, "min_win_rate") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "the following arguments are required: --over"),
        (("--over", "ppo.clip"), "--over 'ppo.clip' must be KEY=LOW..HIGH"),
        (("--over", "ppo.clip=0.2..0.1"), "must be KEY=LOW..HIGH"),
        (("--over", "ppo.clip=0..0.1:log"), "LOW above 0"),
        (("--over", "ppo.clip=0.1"), "at least two choices"),
        (("--over", "ppo.clop=0.1..0.2"), "did you mean 'ppo.clip'"),
        (("--over", "train.num_envs=0,6"), "train.num_envs must be a whole number of at least 1"),
        ((*OVER, "--trials", "x"), "must be a whole number"),
    ],
)
def test_mistakes_are_one_sentence(capsys, given, said, tmp_path):
    assert cli.main(arguments(*given)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_a_missing_package_is_named_with_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(arguments(*OVER)) == 2
    assert "pip install 'jaxrl[sweep]'" in capsys.readouterr().err
