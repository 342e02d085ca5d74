"""Following metrics.jsonl: only new lines are read, lines that were cut off are dropped, broken lines do no harm."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from jaxrl.serve.runs import follow
from jaxrl.serve.runs.follow import Rows
from jaxrl.statistics import student_interval


def line(update, **figures):
    return json.dumps({"update": update, "steps": 10 * update} | figures) + "\n"


def test_what_is_added_is_read_and_what_was_cut_off_is_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = Rows(path)
    assert not rows.follow() and rows.count == 0
    path.write_text(line(1, a=1.0) + line(2, a=2.0, b=None))
    assert rows.follow() and not rows.follow()
    first = rows.epoch
    with path.open("a") as file:
        file.write(line(3, b=5.0)[:-9])
        file.flush()
        rows.follow()
        assert rows.count == 2  # half a line does not count
        file.write(line(3, b=5.0)[-9:])
    rows.follow()
    assert rows.epoch == first and rows.latest["b"] == 5.0 and rows.tags == ["a", "b"]
    found = rows.curves(["a", "b", "unknown"])
    assert found["update"] == [1, 2, 3] and found["steps"] == [10, 20, 30]
    assert found["series"] == {"a": {"mean": [1.0, 2.0, None]}, "b": {"mean": [None, None, 5.0]}}
    assert rows.curves(["b"], after=2)["series"]["b"]["mean"] == [5.0]
    other = tmp_path / "other"
    other.write_text(line(1, a=1.0))
    other.replace(path)  # as a resumed run cuts rows off
    rows.follow()
    assert rows.epoch != first and rows.curves(["a"])["update"] == [1] and rows.read == 1


def test_strange_lines_are_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    strange = ["[1]", "nonsense", '{"update": 1}', '{"update": true, "steps": 1}', '{"update": -1, "steps": 1}', "\0\0"]
    strange += ['{"update": 1e3, "steps": 1}', '{"update": 99999999999999999999, "steps": 1}', "[" * 100_000]
    strange += ['{"update": 5, "steps": 1, "x": "' + "y" * follow.LINE + '"}']
    path.write_text("\n".join(strange) + "\n" + line(7, a=1.0, b="text", c=[1], d=True, e=None))
    rows = Rows(path)
    rows.follow()
    assert rows.count == 1 and rows.latest == {"update": 7, "steps": 70, "a": 1.0, "e": None}


def test_bands_are_students_intervals_over_the_seeds(tmp_path):
    path = tmp_path / "metrics.jsonl"
    generator = np.random.default_rng(3)
    values = generator.normal(size=(5, 3))
    text = ""
    for update, row in enumerate(values, 1):
        seeds = {f"seed_{seed}/r": value for seed, value in enumerate(row.tolist())}
        text += line(update, r=float(np.mean(row)), **seeds)
    path.write_text(text + line(6, r=1.0, **{"seed_0/r": 1.0, "seed_1/r": None, "seed_2/r": None}))
    rows = Rows(path)
    rows.follow()
    assert rows.seeds == 3 and rows.tags == ["r"]
    found = rows.curves(["r"])["series"]["r"]
    for number, row in enumerate(values):
        expected = student_interval(row)
        got = [found[name][number] for name in ("mean", "low", "high")]
        assert got == pytest.approx(list(expected), rel=1e-4)
        assert [seed[number] for seed in found["seeds"]] == pytest.approx(row.tolist(), rel=1e-4)
    assert found["low"][5] is None and found["mean"][5] == 1.0  # of one seed there is no interval


def test_a_long_file_is_thinned(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "ROWS", 64)
    monkeypatch.setattr(follow, "POINTS", 10)
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(update, a=float(update)) for update in range(1, 1001)))
    rows = Rows(path)
    rows.follow()
    assert rows.read == 1000 and rows.count <= 64 and rows.latest["a"] == 1000.0
    found = rows.curves(["a"])
    assert len(found["update"]) == len(found["series"]["a"]["mean"]) <= 10
    size = math.ceil(rows.count / 10)
    kept = np.arange(1, 1001, 16)  # of 1000 rows at most 64 remain: every 16th
    assert found["series"]["a"]["mean"][0] == pytest.approx(kept[:size].mean())
    assert np.all(np.diff(found["update"]) > 0)
