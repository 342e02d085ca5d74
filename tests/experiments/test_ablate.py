"""`jaxrl bench --without`: a part that teaches everything, one that teaches nothing, no run trained twice, mistakes."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl.experiments import ablate as ablation
from jaxrl.training.launching import start

GAME = {
    "env": {"id": "tests.support.lever_game:Levers", "options": {"rewards": {"right": 1.0, "always": 2.0, "never": 0}}},
    "network": {"hidden": [8]},
    "ppo": {"epochs": 4, "minibatches": 1, "learning_rate": 0.05, "entropy_coef": 0.0, "clip": 0.3},
    "train": {
        "num_envs": 32,
        "num_steps": 4,
        "total_steps": 2560,
        "updates_per_call": 10,
        "checkpoint_every": 20,
        "evaluate_every": 0,
    },
    "evaluate": {"deals": 50, "opponents": ["random"]},
    "run": {"cache_dir": "", "devices": 1},
}
WITHOUT = ("--without", "env.options.rewards")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])  # to which commands add
    (tmp_path / "levers.yaml").write_text(yaml.safe_dump(GAME))


def ablated(*more: str) -> int:
    return cli.main(["bench", "levers.yaml", "--allow", "tests", "--seeds", "2", *more])


@pytest.mark.thorough
def test_what_parts_are_worth(capsys, monkeypatch, tmp_path):
    folder = tmp_path / "runs" / "levers-ablation"
    train = start.run_training
    monkeypatch.setattr(start, "run_training", lambda *_, **__: 130)  # stopped by Ctrl-C
    assert ablated(*WITHOUT) == 130
    monkeypatch.setattr(start, "run_training", train)
    assert ablated(*WITHOUT) == 0
    said = capsys.readouterr().out
    assert {path.parent.name for path in folder.glob("*/config.yaml")} == {"whole", "without-always", "without-right"}
    found = json.loads((folder / "ablation.json").read_text())
    np.testing.assert_allclose(found["whole"], 3, atol=0.15)  # also where "always" is left out it is evaluated
    right, always = (next(part for part in found["parts"] if part["name"] == name) for name in ("right", "always"))
    assert len(found["parts"]) == 2 and (right["weight"], always["weight"]) == (1, 2)
    assert 0.4 < right["worth"]["value"] <= 1 and abs(always["worth"]["value"]) < 0.15
    assert len(right["scores"]) == 2 and right["worth"]["low"] <= right["worth"]["value"] <= right["worth"]["high"]
    table = (folder / "table.md").read_text().removeprefix("```").removesuffix("```\n")
    assert table in said and table.index("right  ") < table.index("always  ")
    # a second time nothing is trained, and what is missing goes on; other settings are refused
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        start, "run_training", lambda plan, run, *, resume, callbacks: asked.append((run.name, resume)) or 1
    )
    assert ablated(*WITHOUT, "--only", "always") == 0 and not asked
    assert [part["name"] for part in json.loads((folder / "ablation.json").read_text())["parts"]] == ["always"]
    (folder / "without-right" / "evaluation.json").unlink()  # as if it had been killed before
    assert ablated(*WITHOUT) == 1 and asked == [("without-right", True)]
    assert ablated(*WITHOUT, "ppo.clip=0.2") == 2
    assert "whole was begun with ppo.clip 0.3, not 0.2" in capsys.readouterr().err


@pytest.mark.thorough
def test_trainings_that_a_stop_rule_ends(monkeypatch, tmp_path):
    """They end before their last update, and are not trained again."""
    words = (*WITHOUT, "--only", "right", "train.stop.cpu_minutes=1e-9")
    assert ablated(*words) == 0
    table = tmp_path / "runs" / "levers-ablation" / "ablation.json"
    table.unlink()
    monkeypatch.setattr(start, "run_training", None)
    assert ablated(*words) == 0
    assert len(json.loads(table.read_text())["parts"][0]["scores"]) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((*WITHOUT, "--minutes", "3"), "leave --vary and --minutes out"),
        (("--without", "ppo.clip"), "must begin with env.options"),
        (("--without", "env.options.reward"), "did you mean 'rewards'"),
        (("--without", "env.options.rewards.right"), "must be a mapping from names to weights, but it is 1.0"),
        ((*WITHOUT, "env.options.rewards={}"), "nothing to leave out"),
        ((*WITHOUT, "env.options.rewards={right: much}"), "must be a mapping from names to weights"),
        ((*WITHOUT, "--only", "rigth"), "did you mean 'right'"),
        ((*WITHOUT, "--only", "never"), "is 0 already"),
        ((*WITHOUT, "--seeds", "1"), "at least 2"),
        ((*WITHOUT, "env.options.rewards.other=1"), "no reward 'other'"),
        (
            (*WITHOUT, "curriculum=[{name: a, until: {steps: 1}, env.options: {rewards: {right: 3}}}, {name: b}]"),
            "stage 'a' of the curriculum has a weight of its own for 'right'",
        ),
    ],
)
def test_mistakes_are_one_sentence(capsys, given, said, tmp_path):
    assert ablated(*given) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_a_weight_may_be_several_numbers():
    weights = ablation.weights_of({"env": {"options": {"rewards": {"touch": [1, 0], "goal": [0, 0]}}}}, WITHOUT[1])
    assert ablation.chosen(weights, WITHOUT[1], []) == {"touch": [1, 0]}
