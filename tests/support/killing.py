"""Runs that are killed as by a power failure, and comparisons of their results."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints.checkpoint import Snapshot
from jaxrl.runs.metric_log import read_rows
from tests.support.paths import PYTHONPATH

# Runs the command line until the call after the update named in the environment.
KILLED = """
import os, signal, sys
from jaxrl import cli
from jaxrl.training.loop import Training
call = Training._call
def dying(self):
    if self.update == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    call(self)
Training._call = dying
sys.exit(cli.main(sys.argv[1:]))
"""


def kill(*arguments: str, at: int) -> None:
    """Runs `jaxrl` until it is killed before the call after this update."""
    environment = {"KILL_AT": str(at), "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", KILLED, *arguments]
    child = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr


def newest(home: Path, name: str) -> Snapshot:
    """The newest checkpoint of a run of that folder."""
    return runs.RunDirectory(home / "runs" / name).checkpoints().newest()


def rows(home: Path, name: str) -> list[dict]:
    """The metrics of a run without those of time."""
    found = read_rows(home / "runs" / name / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith("time/") or k == "time/total_timesteps"} for row in found]


def assert_same(first: Snapshot, second: Snapshot) -> None:
    """Asserts that all leaves are equal bit by bit."""
    assert first.step == second.step and first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        assert array.dtype == second.arrays[name].dtype
        assert array.tobytes() == second.arrays[name].tobytes(), name


# ---- from outside ----------------------------------------------------------------------------------------------------

NAME, CONFIG = "run", "config.yaml"
UPDATED = re.compile(rb"update (\d+): [\d.]+ s in the call")  # of the log at level debug
OF_TIME = re.compile(r"time/|(time|date|clock|seconds|cpu_seconds)$")  # names in records
OF_A_PROCESS = re.compile(r"share-\d+\.npz|log\.\d+\.txt")

LONGEST = 900.0  # seconds of a life, after which it counts as one that hangs

# Runs the command line; the process dies in the middle of the entry of the compilation cache that KILL_ENTRY counts,
# of which KILL_PART is written: jax writes to the place itself.
CUTS_AN_ENTRY = """
import os, signal, sys
from jax._src.lru_cache import LRUCache
from jaxrl import cli
put, left = LRUCache.put, [int(os.environ["KILL_ENTRY"])]
def dying(self, key, value):
    left[0] -= 1
    if not left[0]:
        put(self, key, value[: int(len(value) * float(os.environ["KILL_PART"]))])
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, key, value)
LRUCache.put = dying
sys.exit(cli.main(sys.argv[1:]))
"""


class Life:
    """A training in a process of its own, from its start or newest checkpoint on, and what it has logged so far."""

    def __init__(self, home: Path, place: Path, *, program: tuple[str, ...] = ("-m", "jaxrl"), **more: str):
        """Begins or resumes the run of the folder `place`, configured by CONFIG in `home`."""
        self.run = runs.RunDirectory(place / "runs" / NAME)
        self.log, self.said = self.run.path / "log.txt", place / "said"
        self.read = self.log.stat().st_size if self.log.exists() else 0
        place.mkdir(exist_ok=True)
        arguments = ["train", "--config", str(home / CONFIG), "--name", NAME, f"run.directory={place / 'runs'}"]
        if self.run.checkpoints().saved():
            arguments = ["resume", str(self.run.path)]
        flags = (flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag)
        more = {"XLA_FLAGS": " ".join(flags)} | more  # as many devices as the run asks for
        words = {"JAXRL_ALLOW": f"tests,{home / 'cache'}", "PYTHONPATH": PYTHONPATH, "JAX_PLATFORMS": "cpu"} | more
        command = [sys.executable, *program, *arguments]
        with self.said.open("wb") as said, (place / "errors").open("ab") as errors:
            self.process = subprocess.Popen(command, env=os.environ | words, stdout=said, stderr=errors)

    def updates(self) -> list[int]:
        """The updates that this life has logged, each of them beyond the checkpoint from which it was resumed."""
        return [int(number) for number in UPDATED.findall(self.logged())]

    def logged(self) -> bytes:
        """What this life has logged."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as file:
            file.seek(self.read)
            return file.read()

    def wait(self, beyond: int, at_least: int = 0, line: bytes = b"") -> int:
        """Waits until it has made `beyond` updates or calls, come to update `at_least` and logged `line`; returns the
        newest update, or -1 if it has ended before."""
        last = time.monotonic() + LONGEST
        while self.process.poll() is None:
            assert time.monotonic() < last, "it hangs"
            if len(found := self.updates()) >= beyond and found[-1] >= at_least and line in self.logged():
                return found[-1]
            time.sleep(0.005)
        return -1

    def ended(self) -> int:
        """The exit code, once it has ended."""
        try:
            return self.process.wait(LONGEST)
        finally:
            self.process.kill()

    def kill(self) -> bool:
        """Whether it was still running."""
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL


def configure(home: Path, tree: dict[str, Any]) -> None:
    """Writes the configuration of runs that log every call and keep their compiled programs."""
    run = {"devices": 1, "cache_dir": str(home / "cache"), "log_level": "debug"} | tree.get("run", {})
    (home / CONFIG).write_text(yaml.safe_dump(tree | {"run": run}))


def finish(home: Path, place: Path) -> None:
    """Runs what is left of the run of a folder."""
    code = Life(home, place).ended()
    assert code == 0, (place / "errors").read_text()[-4000:]


def assert_as_if_nothing_had_happened(place: Path, whole: Path) -> None:
    """Asserts that two runs have the same leaves, rows, tables and files."""
    run, other = (runs.RunDirectory(each / "runs" / NAME) for each in (place, whole))
    for store, wanted in ((run.checkpoints(), other.checkpoints()), (run.best(), other.best())):
        assert store.steps() == wanted.steps()
        for first, second in ((store.read(step), wanted.read(step)) for step in wanted.steps()):
            assert_same(first, second)
            assert _timeless(first.meta["host"]) == _timeless(second.meta["host"]), first.step
    assert rows(whole, NAME) == rows(place, NAME)
    for file in ("best.json", "evaluation.json", "milestones.json"):
        assert timeless(run.path / file) == timeless(other.path / file), file
    assert listing(run.path) == listing(other.path)
    tables = [lines_of_tables(each / "said") for each in (place, whole)]
    assert tables[0] == tables[1]
    errors = (place / "errors").read_text()
    assert "Traceback" not in errors and "compilation cache" not in errors


def timeless(path: Path) -> Any:
    """JSON without dates and seconds; None without the file."""
    with contextlib.suppress(FileNotFoundError):
        return _timeless(json.loads(path.read_text()))


def _timeless(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _timeless(part) for name, part in content.items() if not OF_TIME.match(name)}
    return [_timeless(part) for part in content] if isinstance(content, list) else content


def listing(run: Path) -> list[str]:
    """The files of a run, except those that every life or each of several processes writes for itself, and those that
    the libraries name by themselves."""
    names = (path.relative_to(run).as_posix() for path in run.rglob("*") if not OF_A_PROCESS.fullmatch(path.name))
    return sorted(name for name in names if not name.startswith("tensorboard/") and "/state/" not in name)


def lines_of_tables(said: Path) -> list[str]:
    """The rows of the tables that a run has printed at its end."""
    return [line for line in said.read_text().splitlines() if line.count("|") > 1 or line.count("  ") > 2]
