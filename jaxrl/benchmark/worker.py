"""A measuring process: `python -m jaxrl.benchmark.worker JOB.json RESULT.json`, started by `run_job`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_DEVICES = re.compile(r"--xla_force_host_platform_device_count=\d+")
LIMIT_SECONDS = 3600


class JobFailed(RuntimeError):
    """A measuring process ended without a result; the message is the end of what it said."""


def run_job(kind: str, job: dict[str, Any], *, devices: int = 1, core: int | None = None) -> dict[str, Any]:
    """Runs one job of `jobs.JOBS` in a process of its own.

    Args:
      kind: its name.
      job: its arguments.
      devices: virtual devices on a CPU; no effect on an accelerator.
      core: pin the process to this core; None: all cores.

    Returns:
      The job's report, with the machine and the seconds that it took.

    Raises:
      JobFailed: with the end of the process's error output.
    """
    with tempfile.TemporaryDirectory(prefix="jaxrl-benchmark-") as folder:
        question, answer = Path(folder, "job.json"), Path(folder, "result.json")
        asked = time.time()
        question.write_text(json.dumps({"kind": kind, "core": core, "job": {"started": asked, **job}}))
        command = [sys.executable, "-m", "jaxrl.benchmark.worker", str(question), str(answer)]
        done = subprocess.run(
            command, env=_environment(devices), stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, check=False
        )
        if done.returncode or not answer.exists():
            raise JobFailed(_last_lines(done.stderr) or f"exit code {done.returncode}")
        return json.loads(answer.read_text()) | {"wall_seconds": time.time() - asked}


def _environment(devices: int) -> dict[str, str]:
    """This process's environment with another number of virtual devices and with our packages importable."""
    environment = dict(os.environ)
    flags = _DEVICES.sub("", environment.get("XLA_FLAGS", ""))
    environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}".strip()
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    return environment


def _last_lines(text: str, count: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def main(arguments: list[str]) -> int:
    """Reads the job, measures, writes the result."""
    task = json.loads(Path(arguments[0]).read_text())
    if task["core"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task["core"]})
    from jaxrl import xla

    xla.set_flags(1, False)  # adds what is missing; the number of devices is already there

    from jaxrl.benchmark import hardware
    from jaxrl.benchmark.jobs import JOBS

    result = JOBS[task["kind"]](task["job"])
    Path(arguments[1]).write_text(json.dumps(result | {"hardware": hardware.describe(), "core": task["core"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
