"""The speed gate: ratios to a calibration kernel, repeated before they fail; see `scripts.benchmark.gate`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from jaxrl import config as configs
from jaxrl.diagnose.timing import Contestant, race
from scripts.benchmark import gate

RECORDED = {"chess, training": 10.0, "chess, random play": 4.0}


@pytest.fixture
def answers(monkeypatch, tmp_path):
    """What the next attempts measure, on a processor for which nothing is recorded yet."""
    monkeypatch.setattr(gate, "FILE", tmp_path / "gate.json")
    monkeypatch.setattr(gate.hardware, "cpu_model", lambda: "a processor")
    monkeypatch.setattr(gate.hardware, "vector_width", lambda: "AVX2")
    monkeypatch.setattr(gate.hardware, "cpu_generation", lambda: "")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    given: list[dict[str, float]] = []
    monkeypatch.setattr(gate, "measured", lambda: given.pop(0))
    return given


def test_what_looks_slow_is_measured_again(answers, capsys):
    answers.append(RECORDED)
    assert gate.main(["--record"]) == 0
    assert json.loads(gate.FILE.read_text()) == {"a processor, AVX2": RECORDED}
    slower, other = RECORDED | {"chess, training": 5.0}, RECORDED | {"chess, random play": 2.0}
    answers.extend([slower, other])  # each figure is fast once
    assert gate.main([]) == 0 and not answers
    answers.extend([slower] * gate.ATTEMPTS + [RECORDED])
    capsys.readouterr()
    assert gate.main([]) == 1 and len(answers) == 1
    out = capsys.readouterr().out
    assert f"FAIL  chess, training lost too much (bound: {gate.MOST:g} %)" in out and "random play lost" not in out
    answers[:] = [slower]
    assert gate.main(["--most", "60"]) == 0


def test_bounds_follow_how_steady_a_figure_is():
    recorded = {"chess, training": 10.0, "battle, training": 10.0}
    assert gate.slow({"chess, training": 8.4, "battle, training": 4.1}, recorded, 15.0) == ["chess, training"]
    assert gate.slow({"chess, training": 8.6, "battle, training": 3.9}, recorded, 15.0) == ["battle, training"]


def test_nothing_fails_on_another_processor(answers, capsys):
    answers.append(RECORDED)
    assert gate.main([]) == 0
    assert "nothing is recorded for this processor" in capsys.readouterr().out
    answers.extend([{"chess, training": 10.0}] * gate.ATTEMPTS)
    gate.FILE.write_text(json.dumps({"a processor, AVX2": RECORDED}))
    assert gate.main([]) == 1, "a figure is missing"


def test_the_best_turn_counts():
    work = iter([1, 1, 40, 1, 40])  # the warm-up, the count, three turns
    busy = Contestant("slow now and then", 1.0, lambda: sum(range(20_000 * next(work))))
    [speed] = race([busy], rounds=3, seconds=0.0)
    assert speed.best_cpu_rate > 5 * speed.cpu_rate
    assert gate.ratio(speed, speed) == 1.0


def test_every_preset_of_the_gate_is_one():
    for name, overrides in gate.PRESETS.values():
        configs.load(name, overrides)


@pytest.mark.thorough
@pytest.mark.parametrize("game", ["games:TicTacToe", "host_games:HostTicTacToe"])
def test_figures_of_a_configuration_are_training_and_play(game):
    tree = {"env": {"id": f"tests.support.{game}"}, "network": {"hidden": [8]}, "ppo": {"minibatches": 2}}
    tree["train"] = {"num_envs": 8, "num_steps": 4, "updates_per_call": 1}
    found = gate.figures(configs.from_dict(tree), turns=1, seconds=0.0)
    assert list(found) == ["training", "random play"] and all(value > 0 for value in found.values())


def test_each_preset_is_measured_by_a_process_of_its_own(monkeypatch):
    asked: list[str] = []

    def run(words, **_):
        asked.append(words[-1])
        return SimpleNamespace(stdout='{"training": 2.0}\n')

    monkeypatch.setattr(gate.subprocess, "run", run)
    assert gate.measured() == {f"{name}, training": 2.0 for name in gate.PRESETS} and asked == list(gate.PRESETS)
