"""Runs that are killed at an update, and comparisons of checkpoints and metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
    """Returns the newest checkpoint of a run of that folder."""
    return runs.RunDirectory(home / "runs" / name).checkpoints().newest()


def rows(home: Path, name: str) -> list[dict]:
    """Returns the metrics of a run without those of time."""
    found = read_rows(home / "runs" / name / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith("time/") or k == "time/total_timesteps"} for row in found]


def assert_same(first: Snapshot, second: Snapshot) -> None:
    """Asserts that all leaves are equal bit by bit."""
    assert first.step == second.step and first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        assert array.dtype == second.arrays[name].dtype
        assert array.tobytes() == second.arrays[name].tobytes(), name
