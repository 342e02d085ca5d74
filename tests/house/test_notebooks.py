"""The notebooks and the sweep under examples/ run, with the results that their texts state."""

from __future__ import annotations

import json
import re
import types

import pytest

import jaxrl
from examples import sweep
from tests.support.paths import ROOT

FOLDER = ROOT / "examples"


def executed(name: str) -> dict:
    """Runs the cells of a notebook in order in the current folder, and returns their global names."""
    cells = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    names: dict = {"__name__": "notebook"}
    for cell in cells:
        assert not cell.get("outputs"), "notebooks are stored without outputs"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}, cell {cell['id']}", "exec"), names)  # the text is ours
    return names


@pytest.mark.thorough
def test_the_first_training_learns_nim(tmp_path, monkeypatch, capsys):
    """Perfect play wins half of its games against itself."""
    monkeypatch.chdir(tmp_path)
    names = executed("first_training.ipynb")
    assert len(names["curve"].points) >= 3 and names["run"].update == 60
    won = {row.opponent: row.samples.outcomes.tally().rates()[0] for row in names["rows"]}
    assert won["random"] > 0.8 and won["perfect"] > 0.35
    assert "perfect" in capsys.readouterr().out and (tmp_path / "runs" / "notebook").is_dir()


@pytest.mark.thorough
def test_a_policy_of_the_zoo_tells_what_it_thinks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = executed("zoo_policy.ipynb")
    assert 20 <= len(names["story"]) <= 24 and names["state"].terminated
    assert all(0 < probability <= 1 for *_, probability, _ in names["story"])
    assert len(re.findall("^seat [01]  ", capsys.readouterr().out, re.MULTILINE)) == len(names["story"])


class Trial:
    """A stand-in for a trial of Optuna, which suggests the lower end of each range."""

    number = 0

    def __init__(self, prune: bool):
        self.user_attrs: dict = {}
        self.reported: list = []
        self._prune = prune

    def suggest_float(self, name, low, high, log=False):
        return (low * high) ** 0.5

    suggest_int = staticmethod(lambda name, low, high: low)

    def set_user_attr(self, name, value):
        self.user_attrs[name] = value

    def report(self, value, step):
        self.reported.append((step, value))

    def should_prune(self):
        return self._prune


KEYS = ["network.hidden=[16]", "train.num_envs=16", "train.num_steps=8", "train.total_steps=1024", "ppo.minibatches=2"]
KEYS += ["train.updates_per_call=2", "train.evaluate_every=4", "evaluate.training_deals=4", "evaluate.deals=4"]


@pytest.mark.thorough
@pytest.mark.parametrize("prune", [False, True])
def test_a_trial_of_the_sweep_is_scored_or_pruned(prune, tmp_path, monkeypatch):
    optuna = types.ModuleType("optuna")
    optuna.TrialPruned = type("TrialPruned", (Exception,), {})
    monkeypatch.setitem(__import__("sys").modules, "optuna", optuna)
    args = types.SimpleNamespace(config=str(FOLDER / "nim.yaml"), study="s", deals=8, allow=["examples"])
    args.overrides = [*KEYS, f"run.directory={tmp_path}", "run.cache_dir="]
    trial = Trial(prune)
    if prune:
        with pytest.raises(optuna.TrialPruned):
            sweep.score(trial, args)
        assert len(trial.reported) == 1
    else:
        assert 0 <= sweep.score(trial, args) <= 1
        assert [step for step, _ in trial.reported] == [512, 1024]
    found = jaxrl.load(tmp_path / "s-0", allow=["examples"])
    assert found.run.update == (4 if prune else 8), "a trial that was pruned is saved"


def test_a_sweep_with_optuna(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="pip install optuna")
    monkeypatch.chdir(tmp_path)
    argv = ["--config", str(FOLDER / "nim.yaml"), "--allow", "examples", "--trials", "2", "--deals", "8", *KEYS]
    study = sweep.main([*argv, "--storage", f"sqlite:///{tmp_path}/sweep.db"])
    assert len(study.trials) == 2 and study.best_trial.user_attrs["run"].startswith("runs")
