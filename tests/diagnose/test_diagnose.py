"""Diagnosis: a report of everything, and mistakes."""

from __future__ import annotations

import argparse
import json

import pytest

from jaxrl import config as configs
from jaxrl.diagnose import command_diagnose, diagnosis, machine_report
from jaxrl_envs.shared.errors import UserError

SETTINGS = [
    "env.id=tests.support.games:TicTacToe",
    "network.hidden=[8]",
    "train.num_envs=8",
    "train.num_steps=4",
    "ppo.minibatches=2",
    "train.updates_per_call=1",
    "run.devices=1",
]


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command_diagnose.add_options(parser)
    return parser.parse_args(given)


@pytest.fixture(scope="module")
def report():
    return diagnosis.diagnose(configs.load(None, [*SETTINGS, "run.cache_dir=''"]), seconds=0.05)


def test_report_is_complete_and_json(report):
    json.dumps(report)
    assert set(report["inference_ms"]) == {"1", "8"}
    times = report["inference_ms"]["8"]
    assert 0 < times["p50"] <= times["p95"] <= times["p99"]
    assert report["training"]["steps_per_second"] > 0 and 0 < report["environment"]["share"]
    assert report["memory"]["peak_rss_mib"] > 0 and report["utilisation"]["cpu_cores_busy"] > 0
    assert report["cache"] == {"directory": "", "programs": 0, "mib": 0.0, "added": 0}
    text = machine_report.describe(report)
    for part in ("environment steps/s", "update ms", "p99", "peak memory", "compile cache: off"):
        assert part in text


def test_cache_state_counts_programs(tmp_path):
    assert diagnosis.cache_state(str(tmp_path / "none"))["programs"] == 0
    (tmp_path / "jit_f-0123-cache").write_bytes(b"x" * 2**20)
    (tmp_path / "jit_f-0123-atime").write_bytes(b"x")
    assert diagnosis.cache_state(str(tmp_path)) == {"directory": str(tmp_path), "programs": 1, "mib": 1.0}


def test_mistakes_are_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "some_run").mkdir(parents=True)
    (tmp_path / "runs" / "some_run" / "config.yaml").write_text("env: {id: skull_king}")
    cases = [
        (("--save", str(tmp_path / "none" / "report.json")), "folder"),
        (("--seconds", "0"), "above 0"),
        (("no_such_run",), "no run"),
        (("some_run", "--config", "skull_king_cpu"), "either"),
    ]
    for given, message in cases:
        with pytest.raises(UserError, match=message):
            command_diagnose.main(arguments(*given))


def test_an_override_may_stand_where_a_run_could(monkeypatch):
    found = []
    monkeypatch.setattr(machine_report, "report_machine", lambda config, *_: found.append(config))
    monkeypatch.setattr("jaxrl.xla.prepare_training", lambda config: None)
    assert command_diagnose.main(arguments(*SETTINGS)) == 0 and found[0].train.num_envs == 8


# ---- games on the host --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host_report():
    settings = ["env.id=battle", "network.hidden=[8]", "train.num_envs=4", "train.num_steps=4", "ppo.minibatches=1"]
    settings += ["ppo.epochs=1", "train.updates_per_call=1", "run.devices=1"]
    return diagnosis.diagnose(configs.load(None, [*settings, "run.cache_dir=''"]), seconds=0.05)


@pytest.mark.thorough
def test_report_of_a_game_on_the_host(host_report):
    json.dumps(host_report)
    host = host_report["host"]
    assert {"action", "env_step", "backward"} <= set(host["counters"])
    assert 0 <= host["figures"]["engine_busy"] <= 1 and host["threads"]["actor"] >= 1  # 0: games were ahead of a call
    assert set(host_report["inference_ms"]) == {"1", "2"}  # half of the games: two blocks
    text = machine_report.describe(host_report)
    for part in ("env step, ms per 1,000 steps", "engine busy", "threads: ", "lag 1", "not told"):
        assert part in text
