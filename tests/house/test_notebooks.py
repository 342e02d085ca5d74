"""The notebooks under examples/ run, with the results that their texts state."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "examples"


def executed(name: str) -> dict:
    """Runs the cells of a notebook in order in the current folder, and returns their global names."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert "/home/" not in text and "/tmp/" not in text
    cells = json.loads(text)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    missing = [cell["id"] for cell in code if not cell["outputs"] and "print(" in "".join(cell["source"])]
    assert not missing, (
        f"run the notebook (jupyter nbconvert --to notebook --execute --inplace): no outputs of {missing}"
    )
    assert not [cell["id"] for cell in code if [each for each in cell["outputs"] if each["output_type"] == "error"]]
    names: dict = {"__name__": "notebook"}
    for cell in cells:
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
