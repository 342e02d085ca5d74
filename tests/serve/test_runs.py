"""Runs in a browser, as the server tells them: what their files say, live, and the few things that can be done."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys

import pytest

from jaxrl import config as configs
from jaxrl.serve.runs.run_watcher import RunWatcher, trainer_of
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from tests.support.serving import serving
from tests.support.waiting import wait_until

ROW = {"rollout/ep_rew_mean": 0.5, "league/share/self": 0.75, "league/share/random": 0.25, "league/elo/self": 1020.0}
OUTCOMES = {"games": 8, "wins": 6, "win_rate": 0.75, "win_rate_95": [0.4, 0.93], "draw_rate": 0.0}
FIGURES = {"return": {"mean": 1.0, "half_width_95": 0.1}}
RESULT = {"candidate": "first", "opponent": "random", "figures": FIGURES, "outcomes": OUTCOMES}
TABLE = {
    "update": 3,
    "policy": "greedy",
    "seed": 1,
    "fair": 0.25,
    "rows": [RESULT],
    "overall": {"first": {"mean_win_rate": 0.75}},
}
TRAINER = """
import fcntl, json, os, platform, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has this test run in the background
handle = open(sys.argv[1] + "/.lock", "w")
fcntl.flock(handle, fcntl.LOCK_EX)
who = {"pid": os.getpid(), "host": platform.node(), "processes": 1, "begun": "2026-01-01T00:00:00+00:00"}
json.dump(who | {"ended": "", "how": "", "why": ""}, open(sys.argv[1] + "/process.json", "w"))
print("begun", flush=True)
try:
    time.sleep(120)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def make_run(folder, updates=3):
    """A run as a training leaves it."""
    folder.mkdir(parents=True)
    config = configs.load("skull_king", [f"run.name={folder.name}"])
    (folder / "config.yaml").write_text(files.dump(configs.to_dict(config)))
    rows = [{"update": update, "steps": 100 * update} | ROW for update in range(1, updates + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "evaluation.json").write_text(json.dumps([TABLE]))
    for store in ("checkpoints", "best"):
        (folder / store / "3").mkdir(parents=True)
        (folder / store / "3" / "arrays").write_bytes(b"x" * 1000)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    for name in ("first", "second"):
        make_run(folder / "runs" / name)
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "config.yaml").write_text("{{{")
    (folder / "runs" / "no_run").mkdir()
    (folder / "outside").mkdir()
    (folder / "outside" / "config.yaml").write_text("a: 1")
    return folder


@pytest.fixture(scope="module")
def client(place):
    with serving(place) as client:
        yield client


def told(client, path):
    status, text = client.request(path)
    assert status == 200, text
    return json.loads(text)


def test_all_runs_are_listed_also_one_that_cannot_be_read(place):
    found = {run["name"]: run for run in RunWatcher(place / "runs").listed()}
    assert set(found) == {"first", "second", "broken"}
    assert found["first"]["game"] == "skull_king" and found["first"]["update"] == 3
    assert found["first"]["evaluation"] == {"update": 3, "win_rate": 0.75, "fair": 0.25}
    assert found["broken"]["state"] == "config.yaml cannot be read"


def test_a_run_tells_what_its_files_say(client):
    found = told(client, "/runs/of/first")
    assert found["latest"]["league/share/self"] == 0.75 and "league/elo/self" in found["tags"]
    checkpoints = [(each["update"], each["best"], each["bytes"]) for each in found["checkpoints"]]
    assert checkpoints == [(3, False, 1000), (3, True, 1000)]
    assert found["evaluations"][0]["rows"][0]["outcomes"]["wins"] == 6
    assert "skull_king" in found["config"] and found["tree"]["env"]["id"] == "skull_king"
    curves = told(client, "/runs/of/first/curves?tags=rollout/ep_rew_mean,unknown")
    assert curves["steps"] == [100, 200, 300] and curves["series"] == {"rollout/ep_rew_mean": {"mean": [0.5] * 3}}
    assert told(client, "/runs/of/broken")["status"]["state"] == "config.yaml cannot be read"


@pytest.mark.parametrize("name", ["..", "%2e%2e", "no_run", "..%2Foutside", "first%2F..%2F..%2Foutside", "first%00"])
def test_names_lead_nowhere_else(client, name):
    assert client.request(f"/runs/of/{name}")[0] in (400, 404)


def test_a_stream_tells_what_a_training_adds(client, place):
    run = make_run(place / "runs" / "live")
    stream = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    stream.request("GET", "/runs/of/live/events")
    answer = stream.getresponse()
    assert answer.getheader("content-type").startswith("text/event-stream")

    def heard():
        while not (line := answer.readline()).startswith(b"data: "):
            assert line
        return json.loads(line[6:])

    first = heard()
    assert first["read"] == 3 and first["status"]["update"] == 3
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"update": 4, "steps": 400, "rollout/ep_rew_mean": 0.9}) + "\n")
    second = heard()
    assert second["read"] == 4 and second["epoch"] == first["epoch"] and second["latest"]["rollout/ep_rew_mean"] == 0.9
    stream.close()
    curves = told(client, "/runs/of/live/curves?tags=rollout/ep_rew_mean&after=3")
    assert curves["series"] == {"rollout/ep_rew_mean": {"mean": [0.9]}}


def test_a_training_and_no_other_process_is_stopped_as_by_ctrl_c(client, place):
    run = make_run(place / "runs" / "training")
    assert client.request("/runs/of/training/stop", {})[0] == 400  # no process trains it
    process = subprocess.Popen([sys.executable, "-c", TRAINER, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        assert wait_until(lambda: told(client, "/runs/of/training")["status"]["state"] == "training")
        who = json.loads((run / "process.json").read_text())
        (run / "process.json").write_text(json.dumps(who | {"pid": os.getppid()}))  # a number of another process
        with pytest.raises(UserError, match="cannot be told"):
            trainer_of(run)
        (run / "process.json").write_text(json.dumps(who | {"host": "elsewhere"}))
        with pytest.raises(UserError, match="trained on elsewhere"):
            trainer_of(run)
        (run / "process.json").write_text(json.dumps(who))
        status, text = client.request("/runs/of/training/stop", {}, Origin="http://other.example")
        assert status == 403 and process.poll() is None
        assert "was asked to stop" in client.post("/runs/of/training/stop", {})["said"]
        assert process.stdout.readline() == "stopped\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


WRONG = [("opponents", each) for each in ("--allow=os", "a b", "zoo:a,../other/run", "random,tests", "os:system")]


@pytest.mark.parametrize("key, value", [("checkpoint", "-1"), ("deals", "x"), *WRONG])
def test_what_is_no_evaluation_is_refused(client, key, value):
    status, text = client.request("/runs/of/first/evaluate", {key: value})
    assert status == 400 and b"must be" in text


def test_commands_run_and_their_output_is_told(client):
    job = client.post("/runs/of/second/evaluate", {"checkpoint": "77", "opponents": "random"})
    assert job["command"].endswith("second --checkpoint 77 --opponents random")
    assert wait_until(lambda: told(client, "/runs/of/second")["jobs"][0]["state"] == "failed", 240)
    (found,) = told(client, "/runs/of/second")["jobs"]
    assert "checkpoint" in found["output"]


def test_looking_again_costs_next_to_nothing(place, monkeypatch):
    watching = RunWatcher(place / "runs")
    run = watching.find("first")
    before = watching.state(run), watching.details(run)
    monkeypatch.setattr("jaxrl.serve.runs.run_watcher.status.glance", None)  # would fail if it were asked
    monkeypatch.setattr("jaxrl.serve.runs.run_watcher.presets.read", None)
    assert watching.state(run) is before[0] and watching.details(run) is before[1]
