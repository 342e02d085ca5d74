"""Figures for Prometheus: what a scrape finds, over real HTTP, in the text format."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import re
import socket
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.runs import distributed
from jaxrl.runs.prometheus import Exporter, exporting
from jaxrl.training import loop
from jaxrl.training.launching.launch import free_port
from jaxrl_envs.host.game import make_buffers
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import HostTicTacToe, TicTacToeGame
from tests.support.paths import ROOT
from tests.support.small_runs import configure, train
from tests.training.sebulba.test_workers import elsewhere

pytest.importorskip("prometheus_client", reason="the extra 'metrics' is not installed")
from prometheus_client.parser import text_string_to_metric_families


def scrape(port: int) -> dict[tuple[str, tuple], float]:
    """Every sample by its name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


class Figures:
    """Counters of a game with two engine processes, which have been busy for `busy` seconds each."""

    def __init__(self) -> None:
        self.busy = [3.0, 0.0]

    def __call__(self) -> dict:
        return {
            "games_started": 9,
            "games_finished": 7,
            "restarts": 2,
            "evictions": 1,
            "queue": 4,
            "faults_by_reason": {"killed": 2, 'half "line"\n': 1},
            "game_seconds": {"bounds": [0.5, 1.0, 2.0], "counts": [1, 3, 2, 1], "sum": 8.25},
            "daemons": [
                {"name": f"127.0.0.1:{17171 + i}", "games": 3 + i, "busy_seconds": busy, "state": "free"}
                for i, busy in enumerate(self.busy)
            ],
            "workers": [{"name": "0.1", "threads": 2.0, "busy_seconds": 7.0, "calls": 2, "losses": 5}],
        }


def test_a_scrape_tells_everything():
    figures = Figures()
    with contextlib.closing(Exporter(0, counters=figures)) as exporter:
        row = {"time/queue_depth": 1.5, "train/policy_lag": 1.0, "train/loss": 0.25, "rollout/ep_rew_mean": math.nan}
        row["time/gpu_utilisation"] = 0.75
        exporter.update(steps=3_000_000_000, updates=12, games=345, row=row)
        found = scrape(exporter.port)
    expected = {
        "jaxrl_env_steps_total": 3e9,
        "jaxrl_updates_total": 12.0,
        "jaxrl_games_total": 345.0,
        "jaxrl_queue_depth": 1.5,
        "jaxrl_gpu_utilisation": 0.75,
        "jaxrl_policy_lag_updates": 1.0,
        "jaxrl_games_started_total": 9.0,
        "jaxrl_games_waiting": 4.0,
        "jaxrl_daemon_restarts_total": 2.0,
        "jaxrl_daemon_evictions_total": 1.0,
        "jaxrl_game_duration_seconds_sum": 8.25,
        "jaxrl_game_duration_seconds_count": 7.0,
    }
    assert {name: found[name, ()] for name in expected} == expected
    buckets = {labels[0][1]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert buckets == {"0.5": 1.0, "1.0": 4.0, "2.0": 6.0, "+Inf": 7.0}
    assert found["jaxrl_scalar", (("tag", "train/loss"),)] == 0.25
    assert ("jaxrl_scalar", (("tag", "rollout/ep_rew_mean"),)) not in found  # no game has ended: there is no mean
    assert found["jaxrl_daemon_faults_total", (("reason", 'half "line"\n'),)] == 1.0
    assert found["jaxrl_daemon_games_total", (("daemon", "127.0.0.1:17172"),)] == 4.0
    assert found["jaxrl_daemon_busy_seconds_total", (("daemon", "127.0.0.1:17171"),)] == 3.0
    worker = {"busy_seconds_total": 7.0, "calls": 2.0, "losses_total": 5.0, "utilisation": 0.0}
    assert {name: found[f"jaxrl_worker_{name}", (("worker", "0.1"),)] for name in worker} == worker
    assert 0.0 <= found["jaxrl_parameter_age_seconds", ()] < 60.0


def test_utilisation_is_that_of_the_last_calls(monkeypatch):
    now, figures = [100.0], Figures()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with contextlib.closing(Exporter(0, counters=figures)) as exporter:
        shares = []
        for seconds, busy in ((10.0, [8.0, 0.0]), (10.0, [18.0, 5.0]), (10.0, [18.0, 25.0])):
            now[0] += seconds
            figures.busy = busy
            exporter.update(steps=1, updates=1, games=1, row={})
            families = {family.name: family for family in exporter.collect()}
            shares.append([sample.value for sample in families["jaxrl_daemon_utilisation"].samples])
    assert shares == [[0.5, 0.0], [1.0, 0.5], [0.0, 1.0]]  # since the end of the call before; never above 1


def test_a_game_without_engine_processes_and_a_training_before_its_first_call():
    with contextlib.closing(Exporter(0)) as exporter:
        assert [name for name, _ in scrape(exporter.port) if not name.startswith("process_")] == []
        exporter.update(steps=5, updates=1, games=0, row={"train/loss": 1.0})
        assert scrape(exporter.port)["jaxrl_env_steps_total", ()] == 5.0
    assert not [thread for thread in threading.enumerate() if thread is exporter._thread]


def test_the_game_of_another_stage_is_told_by_the_same_server():
    config, figures = configs.from_dict({"metrics": {"prometheus": "127.0.0.1:0"}}), Figures()
    stages: list[Any] = [SimpleNamespace(counters=dict), SimpleNamespace(counters=figures)]
    own = (("host", platform.node()), ("rank", "0"), ("run", "mine"))
    with exporting(config, "mine", lambda: stages[0].counters()) as exporter, contextlib.closing(exporter):
        assert ("jaxrl_games_waiting", own) not in scrape(exporter.port)
        stages.pop(0)
        assert scrape(exporter.port)["jaxrl_games_waiting", own] == 4.0


def test_each_process_serves_its_own_at_a_port_of_its_own(monkeypatch):
    ports = {free_port() for _ in range(9)}
    port = next(each for each in ports if each + 2 not in ports and each < 60_000)
    monkeypatch.setattr(distributed, "rank", lambda: 2)
    with exporting(configs.from_dict({}), "mine", Figures()) as exporter:
        assert exporter is None
    config = configs.from_dict({"metrics": {"prometheus": port}})
    with exporting(config, "mine", Figures()) as exporter, contextlib.closing(exporter):
        exporter.update(steps=5, updates=3, games=4, row={"train/loss": 1.0})
        found = scrape(port + 2)
    own = (("host", platform.node()), ("rank", "2"), ("run", "mine"))
    assert all(set(own) <= set(labels) for _, labels in found) and found["jaxrl_updates_total", own] == 3.0
    assert found["process_resident_memory_bytes", own] > 2**20 and found["jaxrl_games_waiting", own] == 4.0
    names = {name for name, _ in found}
    assert not names & {"jaxrl_env_steps_total", "jaxrl_games_total", "jaxrl_scalar"}  # the first process tells them
    high = configs.from_dict({"metrics": {"prometheus": 65534}})
    with pytest.raises(UserError, match="would serve at port 65536: choose"), exporting(high, "mine", Figures()):
        pass


def test_a_training_that_cannot_begin_serves_nothing():
    config = configs.from_dict({"metrics": {"prometheus": free_port()}})
    with pytest.raises(OSError, match="full"), exporting(config, "mine", Figures()) as exporter:
        assert scrape(exporter.port) is not None
        raise OSError("the disk is full")
    assert is_free(exporter.port)


def test_what_is_counted_of_the_workers_of_a_fleet():
    game = TicTacToeGame(opening=True)
    with elsewhere([[], [2]])(
        SimpleNamespace(game=game, share=8), 0, seed=0, groups=1
    ) as pool:  # the second is lost with its second answer
        rows = make_buffers(game, 8)
        pool.start(rows)
        before = pool.told()
        pool.send(np.argmax(rows.legal_action_mask, axis=1).astype(np.int32), rows)
        meanwhile = [each["calls"] for each in pool.told()]
        pool.recv()
        told = pool.told()
    assert [(each["calls"], each["losses"], each["threads"]) for each in before] == [(0, 0, 1.0)] * 2
    assert meanwhile == [1, 1]
    assert [(each["calls"], each["losses"]) for each in told] == [(0, 0), (0, 1)]
    assert all(now["busy_seconds"] > then["busy_seconds"] for now, then in zip(told, before, strict=True))
    assert sum(each["busy_seconds"] for each in told) == pytest.approx(pool.busy_ns[0] / 1e9)


DASHBOARD = ROOT / "examples" / "cluster" / "grafana.json"


def test_the_dashboard_shows_what_is_served():
    with contextlib.closing(
        Exporter(0, counters=Figures(), labels={"run": "mine", "rank": "0", "host": "here"})
    ) as exporter:
        row = {"time/queue_depth": 1.5, "train/policy_lag": 1.0, "time/engine_busy": 0.5}
        exporter.update(steps=1, updates=1, games=1, row=row)
        served = {name for name, _ in scrape(exporter.port)}
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    variables = {each["name"]: each for each in board["templating"]["list"]}
    texts = [target["expr"] for panel in panels for target in panel["targets"]]
    used = set(re.findall(r"(?:jaxrl|process)_\w+", " ".join([*texts, variables["run"]["definition"]])))
    assert used <= served, used - served
    wanted = {"games_total", "game_duration_seconds_bucket", "worker_utilisation", "queue_depth", "policy_lag_updates"}
    assert {f"jaxrl_{name}" for name in wanted | {"parameter_age_seconds"}} <= used


def test_what_is_missing_is_said(monkeypatch):
    with contextlib.closing(Exporter(0)) as exporter:
        with pytest.raises(UserError, match=f"port {exporter.port} .* choose another"):
            Exporter(exporter.port)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UserError, match="pip install 'jaxrl\\[metrics\\]'"):
        Exporter(0)


class Counted(HostTicTacToe):
    """TicTacToe that claims to be played by two engine processes."""

    def __init__(self) -> None:
        super().__init__(opening=True)
        self.game.counters = Figures()  # type: ignore[method-assign]


def test_a_training_can_be_scraped(tmp_path, monkeypatch):
    configure(tmp_path, "tests.runs.test_prometheus:Counted", 3, sebulba={"groups": 1}, train={"updates_per_call": 1})
    port, found = free_port(), {}
    evaluate = loop.Training.final_evaluation

    def scraping(self):
        found.update(scrape(port))
        return evaluate(self)

    monkeypatch.setattr(loop.Training, "final_evaluation", scraping)
    assert train(tmp_path, "seen", f"metrics.prometheus={port}") == 0
    own = (("host", platform.node()), ("rank", "0"), ("run", "seen"))
    assert found["jaxrl_env_steps_total", own] == 96.0 and found["jaxrl_updates_total", own] == 3.0
    assert found["jaxrl_games_total", own] > 3 and found["jaxrl_policy_lag_updates", own] in (0.0, 1.0)
    assert ("jaxrl_queue_depth", own) in found and ("jaxrl_scalar", (*own, ("tag", "train/approx_kl"))) in found
    assert found["jaxrl_game_duration_seconds_count", own] == 7.0 and 0 <= found["jaxrl_engine_utilisation", own] <= 1
    rows = (tmp_path / "runs" / "seen" / "metrics.jsonl").read_text()
    assert '"train/policy_lag"' in rows and '"time/queue_depth"' in rows  # in TensorBoard as well
    with pytest.raises(OSError):  # the server has ended with the training
        scrape(port)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
