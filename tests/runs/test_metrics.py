"""The log files and the progress line."""

from __future__ import annotations

import io
import json
import math
import struct
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from tensorboardX.proto.event_pb2 import Event, SessionLog

from jaxrl.runs import metric_log, metrics, stopwatch
from jaxrl.runs.logs.console import ProgressLine
from jaxrl.runs.metric_log import (
    MetricsLogger,
    Progress,
    Window,
    duration,
    flatten_seeds,
    human,
    make_logger,
    rate,
    read_rows,
)
from jaxrl.runs.stopwatch import CompileClock
from jaxrl.training import health


def events(folder, name="tensorboard") -> list[Event]:
    """All events below a folder, file by file in the order of their names (records: length, crc, data, crc)."""
    found = []
    for file in sorted((folder / name).iterdir()):
        data, place = file.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            found.append(Event.FromString(data[place + 12 : place + 12 + length]))
            place += 16 + length
    return found


def test_rows_and_events_carry_the_same_metrics(tmp_path):
    logger = MetricsLogger(tmp_path)
    logger.write(2, 64, {"train/loss": 0.5, "rollout/ep_rew_mean": math.nan})
    assert read_rows(tmp_path / "metrics.jsonl") == [
        {"update": 2, "steps": 64, "train/loss": 0.5, "rollout/ep_rew_mean": None}
    ]  # flushed already
    scalars = [(e.step, v.tag, v.simple_value) for e in events(tmp_path) for v in e.summary.value]
    assert scalars == [(64, "train/loss", 0.5)]
    logger.close()


@pytest.mark.parametrize(("logs", "files"), [("all", ["metrics.jsonl", "tensorboard"]), ("jsonl", ["metrics.jsonl"])])
def test_what_is_written_follows_run_logs(logs, files, tmp_path):
    for resume in (None, (1, 10)):
        logger = MetricsLogger(tmp_path, resume=resume, logs=logs)
        logger.write(1 if resume is None else 2, 10, {"a": 1.0})
        logger.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert [row["update"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]


def test_without_logs_nothing_is_written(tmp_path):
    logger = make_logger(tmp_path, 0, 0, logs="none")
    logger.write(1, 10, {"a": 1.0})
    logger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_log_has_every_update_once(tmp_path):
    logger = MetricsLogger(tmp_path)
    for update in (1, 2, 3):
        logger.write(update, 10 * update, {"a": update})
    logger.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"update": 4, "st')  # cut short by a crash
    logger = MetricsLogger(tmp_path, resume=(2, 20))
    logger.write(3, 30, {"a": 33})
    logger.close()
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [(row["update"], row["a"]) for row in rows] == [(1, 1), (2, 2), (3, 33)]
    starts = [e.step for e in events(tmp_path) if e.session_log.status == SessionLog.START]
    assert starts == [21]  # TensorBoard drops what is at or beyond that step


def test_two_loggers_in_one_second_do_not_overwrite_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("os.getpid", iter(range(100)).__next__)
    for resume in (None, (1, 1)):
        logger = MetricsLogger(tmp_path, resume=resume)
        logger.write(1, 1, {"a": 1})
        logger.close()
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_seeds_are_averaged_without_the_missing_ones():
    row = flatten_seeds({"a": np.array([1.0, 3.0]), "b": np.float32(2), "c": [math.nan, 4.0], "d": [math.nan] * 2})
    assert row["a"] == 2 and row["seed_0/a"] == 1 and row["seed_1/a"] == 3 and row["b"] == 2 and row["c"] == 4
    assert math.isnan(row["d"])


def test_no_division_by_zero():
    assert rate(5, 0.0) == 0.0 and rate(5, -1.0) == 0.0 and rate(6, 2.0) == 3.0
    assert "100.0 %" in Progress(0).text(0, {}, 0.0) and "ETA -" in Progress(10).text(5, {}, 0.0)


def test_progress_is_written_ever_more_rarely_without_a_terminal():
    seconds = [0.0, 20.0, 30.0, 59.0, 80.0, 110.0, 121.0, 299.0, 301.0, 700.0, 1799.0, 1801.0, 3500.0, 3700.0, 3701.0]
    screen = Console(file=io.StringIO(), soft_wrap=True)
    headline = {"KL": "train/approx_kl", "EV": "train/explained_variance"}
    progress = Progress(14, headline=headline, line=ProgressLine(screen=screen, clock=iter(seconds).__next__))
    for steps in range(1, 15):
        progress.show(steps, {"time/fps": 1234.0, "train/approx_kl": 0.01, "train/explained_variance": 0.5})
    lines = screen.file.getvalue().splitlines()
    shown = [line.split("|")[1].strip().removesuffix("/14 steps") for line in lines]
    assert [seconds[int(steps)] for steps in shown] == [20.0, 80.0, 121.0, 301.0, 700.0, 1801.0, 3700.0, 3701.0]
    assert "1.23k steps/s" in lines[0] and "KL 0.01" in lines[0] and "EV 0.5" in lines[0] and "ETA 4:20" in lines[0]


def test_rates_and_remaining_times_leave_compilation_out(monkeypatch):
    """Threads and programs within programs overlap: their time counts once."""
    clock = CompileClock()
    for end, seconds in ((12.0, 1.0), (14.0, 1.0), (15.0, 5.0), (16.0, 2.0), (20.0, 1.0)):
        clock.heard(end, seconds)
    assert clock.seconds() == 5 + 1 + 1
    monkeypatch.setattr(metric_log, "compile_seconds", clock.seconds)
    progress = Progress(100, line=ProgressLine(screen=Console(file=io.StringIO())))
    clock.heard(40.0, 6.0)
    assert "10 steps/s" in progress.text(20, {}, 8.0) and "ETA 0:08" in progress.text(20, {}, 8.0)
    progress.begin()
    assert "ETA 0:32" in progress.text(20, {}, 8.0)
    heard = stopwatch.compile_seconds()
    jax.jit(lambda x: x + 12345)(jnp.arange(7))
    assert 0.0 < stopwatch.compile_seconds() - heard < 60.0


def test_what_is_seldom_measured_is_shown_until_the_next_time():
    progress = Progress(10, headline={"win rate": "eval/mean_win_rate", "KL": "train/approx_kl"})
    assert "| win rate - | KL 0.5 |" in progress.text(1, {"train/approx_kl": 0.5}, 1.0)
    progress.tell({"eval/mean_win_rate": 0.625})
    assert "| win rate 0.625 | KL 0.25 |" in progress.text(1, {"train/approx_kl": 0.25}, 1.0)


def test_a_metric_that_begins_or_ends_within_a_window():
    """Counters stand in a report from their first use on, and settings may change at a resume."""
    window, one, three = Window(), metrics.measured, lambda value: metrics.measured(value, 3.0)
    calls = ({"time/a": one(2.0)}, {"time/a": one(4.0), "time/b": one(6.0)}, {"time/b": three(8.0)})
    for number, found in enumerate(calls):
        window.add({"rollout/games": metrics.total(10.0 * number), **found}, 1.0, updates=3 if number == 2 else 1)
    row = metrics.values(window.metrics)
    assert row["time/b"] == (1 * 6.0 + 3 * 8.0) / 4 and row["rollout/games"] == 30.0
    assert row["time/a"] == 3.0 and window.updates == 5 and window.seconds == 3.0


def test_a_line_speaks_of_all_its_calls_as_each_metric_adds_up():
    """A state of affairs is the newest one; means are over what they speak of, whatever call that was in."""
    window, begun = Window(), None
    for epsilon, updates, losses, games in ((1.0, 2, 0.0, 0), (0.5, 3, 6.0, 4), (0.1, 1, 1.0, 1)):
        found = {
            "train/epsilon": metrics.last(epsilon),
            "train/loss": metrics.mean(losses, updates),
            "rollout/ep_len_mean": metrics.mean(10.0 * games, games),
            "rollout/games": metrics.total(games),
        }
        window.add(jax.device_get(found), 0.5, updates)
        window = Window(**json.loads(json.dumps(window.record())))  # as from a checkpoint
        begun = begun or metrics.values(window.metrics)
    row = metrics.values(window.metrics)
    assert row["train/epsilon"] == np.float32(0.1) and row["train/loss"] == pytest.approx(7.0 / 6)
    assert row["rollout/games"] == 5 and row["rollout/ep_len_mean"] == 10.0 and math.isnan(begun["rollout/ep_len_mean"])
    assert window.updates == 6 and window.seconds == 1.5


def test_metrics_of_seeds_add_up_seed_by_seed():
    window = Window()
    for amounts, weights in (([1.0, 2.0], [1.0, 0.0]), ([5.0, 6.0], [1.0, 0.0])):
        window.add({"a": metrics.mean(amounts, weights), "b": metrics.last(amounts)}, 1.0, 1)
    row = metrics.values(Window(**window.record()).metrics)
    assert row["a"][0] == 3.0 and math.isnan(row["a"][1]) and row["b"].tolist() == [5.0, 6.0]


def test_metrics_of_nothing_begin_a_sum():
    found = {"a": metrics.mean(3.0, 2.0), "b": metrics.total(4), "c": metrics.last(5.0)}
    joined = metrics.join(metrics.nothing(found), found)
    assert {tag: float(value) for tag, value in metrics.values(joined).items()} == {"a": 1.5, "b": 4.0, "c": 5.0}
    assert math.isnan(metrics.nothing(found)["a"].value)


def test_readable_numbers():
    assert [human(x) for x in (5, 12345, 2.5e6, 3e9, math.nan)] == ["5", "12.3k", "2.5M", "3G", "-"]
    assert [duration(x) for x in (0, 65, 3725)] == ["0:00", "1:05", "1:02:05"]


class FakeNvml:
    """NVML of a machine with three GPUs."""

    def __init__(self, fails: str = ""):
        self.fails, self.asked = fails, []

    def __getattr__(self, name: str):
        def answer(*arguments):
            if name == self.fails:
                raise OSError(name)
            self.asked += arguments
            return (
                SimpleNamespace(gpu=90 if 1 in arguments or "GPU-b" in arguments else 30, memory=5)
                if (name == "nvmlDeviceGetUtilizationRates")
                else (arguments or (None,))[0]
            )

        return answer


GPUS = [SimpleNamespace(platform="gpu", local_hardware_id=number) for number in range(2)]


@pytest.fixture
def nvml(monkeypatch):
    """Installs a fake pynvml."""

    def install(module):
        health._meters.cache_clear()
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield install
    health._meters.cache_clear()


def test_how_busy_the_gpus_are(nvml, monkeypatch):
    fake = nvml(FakeNvml())
    found = health.gpu_utilisation(GPUS, 2.0)
    assert found[health.GPU].value == pytest.approx(0.6) and fake.asked == [0, 1, 0, 1]
    later = metrics.join(found, health.gpu_utilisation(GPUS[1:], 6.0))
    assert later[health.GPU].value == pytest.approx((2 * 0.6 + 6 * 0.9) / 8)  # over time
    assert "| GPU 60 % |" in Progress(10).text(5, {health.GPU: 0.6}, 1.0) and "GPU" not in Progress(10).text(5, {}, 1.0)
    for names, asked in (("2,1", [2]), ("GPU-b,GPU-a", ["GPU-b"])):
        health._meters.cache_clear()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
        fake.asked.clear()
        health.gpu_utilisation(GPUS[:1], 1.0)
        assert fake.asked == asked * 2


@pytest.mark.parametrize("fails", ["nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUtilizationRates"])
def test_a_driver_that_does_not_answer_shows_nothing(nvml, fails):
    nvml(FakeNvml(fails))
    assert health.gpu_utilisation(GPUS, 1.0) == {}


def test_without_a_gpu_or_its_package_nothing_is_asked(nvml):
    fake = nvml(FakeNvml())
    assert health.gpu_utilisation(jax.local_devices(), 1.0) == {} and fake.asked == []
    nvml(None)  # as if it were not installed
    assert health.gpu_utilisation(GPUS, 1.0) == {}
