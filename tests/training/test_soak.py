"""An hour of trainings to which everything happens: kill -9, signals, SIGSTOP, full disks, engines that die or lie.

    SOAK_MINUTES=60 SOAK_OUT=soak.jsonl python -m pytest -n0 -s -m slow tests/training/test_soak.py

In the first half nothing happens that ends a training, so that what grows is seen; in the second half it is ended and
resumed again and again. At the end, every state and every line of the logs is what a run without any trouble has.
SOAK_OUT gets memory, threads and open files every few seconds, and what was done. Growth is told
from ten minutes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl.runs.directory import RunDirectory
from jaxrl.training.callbacks import Callback
from tests.support.forge.fake import Fault, fake_home, fake_java
from tests.support.killing import assert_same, newest, rows
from tests.support.paths import PYTHONPATH
from tests.training.test_liars import LIES, told
from tests.training.test_loop import small_disk

MINUTES = float(os.environ.get("SOAK_MINUTES", "60"))
SAMPLE = 5.0  # seconds between two looks
LIE = "SOAK_LIE"  # names a file: the lie that is told
PAUSE, PACE = "SOAK_PAUSE", 4.0  # seconds after every line of the logs
SIZE = 16 * 8  # steps of an update


class Paced(Callback):
    """A small load, and lies on request."""

    def on_metrics(self, step: int, metrics: Any) -> None:
        time.sleep(float(os.environ[PAUSE]))
        told[:] = Path(os.environ[LIE]).read_text().split("\n") if os.path.exists(os.environ[LIE]) else []


COMMON: dict[str, Any] = {
    "run": {"devices": 1, "cache_dir": ""},
    "callbacks": ["tests.training.test_soak:Paced"],
    "league": {"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 4},
    "ppo": {
        "epochs": 1,
        "minibatches": 2,
        "learning_rate": {"kind": "constant", "start": 5e-3},
        "entropy_coef": {"kind": "constant", "start": 0.01},
    },
    "train": {
        "num_envs": 16,
        "num_steps": 8,
        "total_steps": 10**8,
        "updates_per_call": 2,
        "checkpoint_every": 8,
        "evaluate_every": 60,
    },
    "evaluate": {"deals": 4, "training_deals": 4, "opponents": ["random"]},
}
DAEMONS = 2


def places(home: Path) -> dict[str, str]:
    """Where the program of the engines is."""
    return {"home": str(home / "daemons" / "forge"), "java": str(home / "daemons" / "java")}


def trees(home: Path) -> dict[str, dict[str, Any]]:
    """What is trained: a compiled game, one of engines that lie, one whose engines are processes."""
    daemons = home / "daemons"
    daemons.mkdir()
    (daemons / "scripted").touch()
    kinds = ("close", "half", "utf8", "garbage", "noise", "stall", "chatter", "slow", "die")
    faults = [Fault(kind, game=8 + 9 * i, decision=2 + i % 4, seconds=0.5) for i, kind in enumerate(9 * kinds)]
    fake_home(daemons), fake_java(daemons, faults)
    compiled = {
        "env": {"id": "tests.support.games:TicTacToe"},
        "network": {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 4}},
        "ppo": COMMON["ppo"] | {"sequence": 4},
        "run": COMMON["run"] | {"seeds": 2},
    }
    lying = {
        "env": {"id": "tests.training.test_liars:Liar"},
        "network": {"hidden": [8]},
        "sebulba": {"threads": 2, "lag": 2, "timeout": 20},
    }
    processes = {
        "env": {"id": "forge", "options": {"decks": ["sprint", "sprint"]}},
        "forge": places(home) | {"daemons": DAEMONS, "decision_timeout": 5, "start_timeout": 60},
        "network": {"kind": "candidates", "candidates": {"dim": 8, "layers": 1, "embedding": 2}},
        "sebulba": {"actors": DAEMONS, "groups": 1, "timeout": 900},
        "league": COMMON["league"] | {"snapshots": 1},
        "train": COMMON["train"] | {"num_envs": DAEMONS, "num_steps": SIZE // DAEMONS, "evaluate_every": 0},
    }
    return {"compiled": COMMON | compiled, "lying": COMMON | lying, "processes": COMMON | processes}


GENTLE = {
    "compiled": ["pause"],
    "lying": ["pause"],
    "processes": ["pause", "kill an engine", "kill an engine", "stop an engine"],
}
FATAL = {name: [*gentle, "kill", "kill", "terminate", "interrupt", "full"] for name, gentle in GENTLE.items()}
FATAL["lying"] += ["lie", "lie", "lie"]


class Subject:
    """One training on a small disk, which is started again whenever it has ended."""

    def __init__(self, name: str, tree: dict[str, Any], home: Path):
        self.name, self.home, self.lives, self.done = name, home, 0, Counter[str]()
        self.config, self.out, self.lie = home / f"{name}.yaml", home / f"{name}.log", home / f"{name}.lie"
        self.place, self.temporary = home / name, home / f"{name}.tmp"
        self.run = RunDirectory(self.place / "runs" / name)
        for folder in (self.place, self.temporary):
            folder.mkdir()
        self.config.write_text(yaml.safe_dump(tree))
        self.process: subprocess.Popen | None = None

    def command(self, *arguments: str, pause: float) -> subprocess.Popen:
        paths = {
            "TMPDIR": self.temporary,
            "XDG_CACHE_HOME": self.home / "cache",
            LIE: self.lie,
            "PYTHONPATH": PYTHONPATH,
        }
        words = {
            PAUSE: str(pause),
            "JAXRL_ALLOW": ",".join(["tests", *places(self.home).values()]),
            "JAX_PLATFORMS": "cpu",
        }
        with self.out.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "jaxrl", *arguments],
                env=os.environ | words | {key: str(value) for key, value in paths.items()},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def train(self, home: Path, *overrides: str, pause: float) -> subprocess.Popen:
        where = f"run.directory={home / 'runs'}"
        return self.command("train", "--config", str(self.config), "--name", self.name, where, *overrides, pause=pause)

    def start(self) -> None:
        """A new life."""
        self.began, self.lives = time.monotonic(), self.lives + 1
        self.said = self.out.stat().st_size if self.out.exists() else 0
        saved = self.run.checkpoints().saved()
        self.process = (
            self.command("resume", str(self.run.path), pause=PACE) if saved else self.train(self.place, pause=PACE)
        )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def engines(self) -> list[int]:
        return [pid for pid, parent in parents().items() if parent == self.pid]

    def ended(self, code: int, seconds: float = 180.0) -> str:
        """Waits for its end, which must be this one; what it said last."""
        assert self.process is not None
        engines = self.engines()
        found = self.process.wait(seconds)
        said = [line for line in self.out.read_text(errors="replace").splitlines() if not line.startswith("[")]
        assert found == code, f"{self.name}: exit code {found}, not {code}\n" + "\n".join(said[-60:])
        end = time.monotonic() + 20
        while left := [pid for pid in engines if alive(pid)]:
            assert time.monotonic() < end, f"engines are left: {left}"
            time.sleep(0.1)
        return said[-1]

    def look(self) -> dict[str, Any]:
        """What it needs now. Raises AssertionError if it has ended by itself."""
        assert self.process is not None
        if self.process.poll() is not None:
            self.ended(-1000)
        place = Path(f"/proc/{self.pid}")
        return {
            "subject": self.name,
            "life": self.lives,
            "age": time.monotonic() - self.began,
            "mb": int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
            "threads": len(list((place / "task").iterdir())),
            "files": len(list((place / "fd").iterdir())),
            "children": len(self.engines()),
            "temporary": entries(self.temporary),
            "run files": entries(self.run.path),
        }

    # ---- what happens to it ----

    def strike(self, what: str, rng: np.random.Generator) -> None:
        """Does it, and starts it again if that was its end."""
        if what == "pause":
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(float(rng.uniform(1, 8)))
            os.kill(self.pid, signal.SIGCONT)
        elif what in ("kill an engine", "stop an engine"):
            if not (engines := self.engines()):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(rng.choice(engines)), signal.SIGKILL if what.startswith("kill") else signal.SIGSTOP)
        else:
            if what in ("terminate", "interrupt", "full", "lie") and not self.training():
                return  # while it starts it ends in other words
            self.end(what, rng)
            self.start()
        self.done[what] += 1

    def training(self) -> bool:
        """Whether this life has come as far as its first progress line."""
        return b"steps/s" in self.out.read_bytes()[self.said :]

    def end(self, what: str, rng: np.random.Generator) -> None:
        if what in ("kill", "terminate", "interrupt"):
            number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}[what]
            os.kill(self.pid, number)
            self.ended(-number if what == "kill" else 128 + number)
        elif what == "full":
            ballast = self.place / "runs" / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(1 << 16)):
                    pass
            assert "no space left on the disk" in self.ended(2)
            ballast.unlink()
        else:
            lie = str(rng.choice(list(LIES)))
            self.lie.write_text(lie)
            said = self.ended(2)
            assert LIES[lie].sentence.partition(" for 1 s")[0] in said, said
            self.lie.unlink()

    def as_if_nothing_had_happened(self, whole: Path) -> int:
        """Compares it with a run of as many updates without any trouble; how many these are."""
        found, wanted = newest(self.place, self.name), newest(whole, self.name)
        assert_same(wanted, found)
        ours, theirs = ({row["update"]: row for row in learnt(place, self.name)} for place in (self.place, whole))
        assert len(ours) == len(learnt(self.place, self.name)) and [*ours] == sorted(ours)
        assert ours.keys() == theirs.keys()
        for update in ours:
            for name in ("steps", "train/updates", "rollout/games"):
                assert ours[update][name] == theirs[update][name], (self.name, update, name)
        return found.step


def learnt(home: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in rows(home, name) if "train/loss" in row]


def entries(folder: Path) -> int:
    """Files and folders below one in which others come and go meanwhile."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def parents() -> dict[int, int]:
    """Process -> its parent, of all that live."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(place.name)] = int(parent)
    return found


def alive(pid: int) -> bool:
    return pid in parents()


@pytest.mark.slow
def test_nothing_grows_is_lost_or_doubled(tmp_path):
    rng, samples = np.random.default_rng(int(MINUTES)), []
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's & has it ignored, and so would have its children
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(os.environ.get("SOAK_OUT", os.devnull), "a", buffering=1))
        subjects = [Subject(name, tree, tmp_path) for name, tree in trees(tmp_path).items()]
        for each in subjects:
            stack.enter_context(small_disk(each.place / "runs", "48m"))
            each.start()
            stack.callback(lambda each=each: each.process.kill())
        begin, looked, next_strike = time.monotonic(), 0.0, time.monotonic() + 45
        while (now := time.monotonic()) < begin + 60 * MINUTES:
            time.sleep(0.5)
            if now > looked + SAMPLE:
                looked = now
                samples += [each.look() | {"minute": (now - begin) / 60} for each in subjects]
                for sample in samples[-len(subjects) :]:
                    print(json.dumps(sample), file=out)
            if now > next_strike:
                each = subjects[int(rng.integers(len(subjects)))]
                what = str(rng.choice((GENTLE if now < begin + 30 * MINUTES else FATAL)[each.name]))
                print(json.dumps({"minute": (now - begin) / 60, "subject": each.name, "what": what}), file=out)
                each.strike(what, rng)
                next_strike = time.monotonic() + rng.exponential(12.0)
        for each in subjects:
            while not each.training():
                time.sleep(0.5)
                each.look()
            os.kill(each.pid, signal.SIGTERM)
            each.ended(128 + signal.SIGTERM)
        (tmp_path / "daemons" / "faults.json").write_text("[]")
        whole = tmp_path / "whole"
        for each in subjects:  # to the end of a call: the last one may have been stopped in its middle
            steps = str(SIZE * (newest(each.place, each.name).step // 2 * 2 + 4))
            ends = each.command("resume", str(each.run.path), "--steps", steps, pause=0.0)
            twin = each.train(whole, f"train.total_steps={steps}", pause=0.0)
            assert [ends.wait(3600), twin.wait(3600)] == [0, 0]
        for each in subjects:
            updates = each.as_if_nothing_had_happened(whole)
            print(each.name, f"{updates} updates in {each.lives} lives", dict(each.done), growth(samples, each.name))
            leftover = [path for path in each.temporary.rglob("*") if path.is_file()]
            print(f"  left in the temporary folder: {leftover}")
        for each in subjects:
            for what, (first, last) in growth(samples, each.name).items():
                assert last <= first * 1.05 + (8 if what == "mb" else 2), (each.name, what, first, last)


def growth(samples: list[dict[str, Any]], name: str) -> dict[str, tuple[float, float]]:
    """What the first life needed in its second fifth and in its last one (medians)."""
    life = [each for each in samples if each["subject"] == name and each["life"] == 1]
    fifth = len(life) // 5
    return {
        what: (median(each[what] for each in life[fifth : 2 * fifth]), median(each[what] for each in life[-fifth:]))
        for what in ("mb", "threads", "files", "children", "temporary")
    }
