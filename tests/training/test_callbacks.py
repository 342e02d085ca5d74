"""Callbacks hear what happens in a training and change nothing of it; one that fails stops it, and nothing is lost."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from examples.aim_callback import AimCallback
from examples.media_callback import WandbMedia
from jaxrl import cli
from jaxrl.config import trust
from jaxrl.runs.directory import find_run
from jaxrl.runs.folder import next_command
from jaxrl.training.callbacks import Callback, Callbacks, RunFacts
from jaxrl.training.loggers import LibraryLogger
from jaxrl_envs.shared.errors import UserError
from tests.runs.test_metrics import events

CONFIG = """
env: {id: "examples.nim:Nim"}
run: {devices: 1, cache_dir: "", directory: "."}
network: {hidden: [8]}
ppo: {minibatches: 2}
train: {num_envs: 16, num_steps: 8, total_steps: 768, updates_per_call: 1, checkpoint_every: 2, evaluate_every: 3}
evaluate: {deals: 2, training_deals: 2, opponents: [random]}
"""
HEARD: list[tuple] = []


class Recorder(Callback):
    """Remembers all it hears."""

    def on_start(self, run):
        HEARD.append(("start", run))

    def on_metrics(self, step, metrics):
        with pytest.raises(TypeError):
            metrics["train/loss"] = 0.0
        HEARD.append(("metrics", step, dict(metrics)))

    def on_checkpoint(self, update, directory):
        HEARD.append(("checkpoint", update, (directory / "record.json").exists()))

    def on_end(self, finished):
        HEARD.append(("end", finished))


class Failing(Callback):
    """Raises after three updates, in the middle of what follows a call: an evaluation is due too."""

    def on_metrics(self, step, metrics):
        if step == 3 * 128:
            raise ZeroDivisionError("nothing to divide by")


def digest(name: str) -> str:
    return str(find_run(name).checkpoints().newest().meta["params_hash"])


def heard(kind: str) -> list[tuple]:
    return [each[1:] for each in HEARD if each[0] == kind]


@pytest.mark.thorough
def test_what_they_hear_is_what_happens_and_one_that_fails_costs_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(CONFIG)
    HEARD.clear()
    train = ["train", "--config", "small.yaml", "--name"]
    assert cli.main([*train, "alone"]) == 0 and not HEARD
    capsys.readouterr()

    both = "callbacks=[tests.training.test_callbacks:Failing,tests.training.test_callbacks:Recorder]"
    assert cli.main([*train, "told", both]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert "callback 'tests.training.test_callbacks:Failing' failed in on_metrics: " in sentence
    assert "test_callbacks.py, line" in sentence and "ZeroDivisionError: nothing to divide by" in sentence
    assert "saved after update 3; continue with: jaxrl resume told" in sentence
    assert heard("checkpoint") == [(2, True), (3, True)] and HEARD[-1] == ("end", False)

    assert cli.main(["resume", "told", "callbacks=[tests.training.test_callbacks:Recorder]"]) == 0
    (first,), (second,) = heard("start")
    assert (first.name, first.step, first.update) == ("told", 0, 0) and first.config["train"]["num_envs"] == 16
    assert (second.step, second.update) == (384, 3)
    assert heard("checkpoint")[2:] == [(4, True), (6, True)] and HEARD[-1] == ("end", True)
    assert [step for step, _ in heard("metrics")] == [128, 256, 384, 384, 512, 640, 768, 768]  # two evaluations
    rows = [json.loads(line) for line in Path("told/metrics.jsonl").read_text().splitlines()]
    for row, (_, metrics) in zip(rows, heard("metrics"), strict=True):
        assert {tag: row[tag] for tag in metrics if row[tag] is not None}.items() <= metrics.items()
    assert digest("told") == digest("alone")
    what_a_command_asks_for(monkeypatch, capsys)


def what_a_command_asks_for(monkeypatch, capsys):
    """What is printed to be typed next is not refused, and only a training asks for callbacks."""
    monkeypatch.delenv(trust.VARIABLE)
    capsys.readouterr()
    assert cli.main(["resume", "told", "--allow", "examples", "--allow", "tests"]) == 0
    again = capsys.readouterr().out.splitlines()[-1].partition("go further with: jaxrl ")[2]
    assert again.endswith("told --steps 1536 --allow examples.nim --allow tests.training.test_callbacks")
    assert next_command("train", Path("told")).endswith(
        "--config told/config.yaml --name NAME train.from_run=told --allow examples.nim"
        " --allow tests.training.test_callbacks"
    )
    monkeypatch.setenv(trust.VARIABLE, "examples")
    assert next_command("resume", Path("told")) == "jaxrl resume told --allow tests.training.test_callbacks"
    assert next_command("evaluate", Path("told"), "--checkpoint best") == "jaxrl evaluate told --checkpoint best"
    assert next_command("resume", Path("my runs/gone")) == "jaxrl resume 'my runs/gone'"
    heard = len(HEARD)
    assert cli.main(["export", "told"]) == 0
    capsys.readouterr()
    changes = ["evaluate.greedy=false", "evaluate.deals=3", "evaluate.opponents=[perfect]"]
    for player in ("told", "told.jaxrl"):  # as a tournament takes them
        assert cli.main(["evaluate", player, *changes]) == 0
        printed = capsys.readouterr().out
        assert "sampled policy, 3 deals" in printed and "perfect" in printed and "random" not in printed
        for change, why in (
            ("network.hidden=[9]", "cannot be changed"),
            ("evaluate.options={largest: 9}", "leave those"),
        ):
            assert cli.main(["evaluate", player, change]) == 2 and why in capsys.readouterr().err
    assert cli.main(["evaluate", "bot:perfect", "--against", "told", "env.id=examples.nim:Nim", "--deals", "2"]) == 0
    assert cli.main(["resume", "told"]) == 2 and "--allow tests.training.test_callbacks" in capsys.readouterr().err
    assert len(HEARD) == heard


def test_what_goes_wrong_at_the_end_is_only_told(caplog):
    class Late(Callback):
        def on_end(self, finished):
            raise KeyError("x")

    callbacks = Callbacks([])
    callbacks._each["late"] = Late()
    callbacks.end(True)
    assert not caplog.text  # it had not begun
    callbacks._started = True
    callbacks.end(True)
    assert "callback 'late' failed in on_end: " in caplog.text and "in on_end: KeyError: 'x'" in caplog.text


# ---- loggers --------------------------------------------------------------------------------------------------------


class FakeRun(dict):
    """What `wandb.init`, `trackio.init` and `aim.Run` give."""

    def __init__(self, **settings):
        super().__init__()
        self.settings, self.tracked, self.closed = settings, [], []
        self.id = self.hash = settings.get("id") or settings.get("run_hash") or "fresh"

    def log(self, metrics, step):
        self.tracked += [(tag, number, step) for tag, number in metrics.items()]

    def track(self, number, name, step):
        self.tracked.append((name, number, step))

    def finish(self):
        self.closed.append(0)

    def close(self):
        self.closed.append(0)


@pytest.mark.parametrize(("library", "key"), [("wandb", "id"), ("trackio", ""), ("aim", "run_hash")])
def test_a_logger_of_another_library(library, key, tmp_path, monkeypatch):
    begun: list[FakeRun] = []

    def begin(**settings):
        begun.append(FakeRun(**settings))
        return begun[-1]

    fake = types.SimpleNamespace(init=begin, Run=begin, finish=lambda: begun[-1].finish())
    fake.log = lambda metrics, step: begun[-1].log(metrics, step)
    monkeypatch.setitem(sys.modules, library, fake)
    facts = RunFacts("mine", tmp_path, {"run": {"seed": 1}}, 0, 0)
    for expected in (None, "fresh"):  # begun, and gone on with
        logger = AimCallback() if library == "aim" else LibraryLogger(library)
        logger.on_start(facts)
        logger.on_metrics(128, {"train/loss": 0.5, "time/fps": 7.0})
        logger.on_end(True)
        run = begun[-1]
        assert run.settings.get(key) == (expected if key else None) and run.settings.get("resume", "allow") == "allow"
        assert run.tracked == [("train/loss", 0.5, 128), ("time/fps", 7.0, 128)] and run.closed == [0]


def test_a_logger_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match=r"pip install 'jaxrl\[trackio\]'"):
        LibraryLogger("trackio")


@pytest.mark.slow
def test_tables_histograms_and_a_film_stand_beside_the_numbers_in_tensorboard(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "run.devices=1 run.cache_dir= network.hidden=[8] train.num_envs=16 train.num_steps=16 train.total_steps=512"
    more = "train.updates_per_call=1 train.checkpoint_every=1 train.evaluate_every=1 evaluate.deals=2"
    media = "callbacks=[examples.media_callback:TensorBoardMedia]"
    told = ["train", "env.id=beasty_bar", *small.split(), *more.split(), "evaluate.training_deals=2", media]
    assert cli.main([*told, "evaluate.opponents=[random]", "--name", "seen"]) == 0
    tags = {each.tag: each for event in events(tmp_path / "runs" / "seen", "media") for each in event.summary.value}
    assert b"| random |" in tags["evaluation/text_summary"].tensor.string_val[0]
    kernels = [value for tag, value in tags.items() if tag.startswith("parameters/") and tag.endswith("kernel")]
    assert kernels and all(value.histo.num >= 8 for value in kernels)
    if all(map(importlib.util.find_spec, ("resvg_py", "PIL", "imageio_ffmpeg"))):
        assert tags["game"].image.encoded_image_string[:4] == b"GIF8"


def test_tables_histograms_and_a_film_go_to_weights_and_biases(tmp_path, monkeypatch):
    kinds = {name: lambda *_, **given: given for name in ("Table", "Histogram", "Video")}
    sent = []
    fake = types.SimpleNamespace(log=lambda what, step: sent.append((what, step)), **kinds)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    media = WandbMedia()
    media.on_start(RunFacts("mine", tmp_path, {}, 0, 0))
    media.on_metrics(128, {"eval/hard/win_rate": 0.25, "train/loss": 1.0})
    media.histogram("parameters/kernel", np.arange(10.0))
    media.film("game", tmp_path / "media.gif")
    assert sent[0] == ({"evaluation": {"columns": ["opponent", "won"], "data": [["hard", 0.25]]}}, 128)
    counts, edges = sent[1][0]["parameters/kernel"]["np_histogram"]
    assert counts.sum() == 10 and len(edges) == 65
    assert sent[2] == ({"game": {"format": "gif"}}, 128)
