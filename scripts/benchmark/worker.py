"""Measuring processes: each holds the contestants of one job and runs them when it is told to.

The asking process and a worker speak one line of JSON per message over a pipe: {"run": contestant, "repeats": n} is
answered by {"clock": seconds, "cpu": seconds}, {"finish": true} by the worker's facts. Workers do nothing between two
questions, so that contestants of several processes can take turns on the same cores.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

from jaxrl.diagnose.timing import Contestant, Runner, Speed, race_runners, runner

_START = "import sys; from scripts.benchmark.worker import main; sys.exit(main(sys.argv[1]))"
_DEVICES = re.compile(r"--xla_force_host_platform_device_count=\d+")
_OUR_FLAGS = re.compile(r"--xla_backend_extra_options=xla_cpu_use_multi_output_fusion\b")


class JobFailed(RuntimeError):
    """A worker ended before it was done; the message is the end of what it said."""


class Task(NamedTuple):
    """One worker's task."""

    kind: str  # of `jobs.JOBS`
    job: dict[str, Any]
    devices: int = 1  # virtual ones on a CPU; no effect on an accelerator
    core: int | None = None  # the only core that the process may use; None: all
    our_flags: bool = True  # the XLA flags that jaxrl sets for the job's game; False: XLA's defaults


class Measurement(NamedTuple):
    """What a worker measured and knows."""

    results: list[Speed]
    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"results": [result._asdict() for result in self.results], **self.facts}


def ask(tasks: Sequence[Task], *, rounds: int = 1, seconds: float = 0.1) -> list[Measurement]:
    """Starts a worker per task, one after the other, then runs all their contestants in turn.

    Raises:
      JobFailed: a worker died.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_Worker(task)) for task in tasks]
        everyone = [contestant for worker in workers for contestant in worker.contestants]
        runners = [each for worker in workers for each in worker.runners()]
        results = iter(race_runners(everyone, runners, rounds=rounds, seconds=seconds) if everyone else [])
        return [Measurement([next(results) for _ in worker.contestants], worker.finish()) for worker in workers]


class _Worker:
    """The asking side of one process."""

    def __init__(self, task: Task):
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(task._asdict())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(task),
            text=True,
        )
        try:
            self.contestants = [
                Contestant(name, units, _elsewhere, info) for name, units, info in self._hear()["contestants"]
            ]
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def runners(self) -> list[Runner]:
        """One per contestant."""
        return [self._runner(index) for index in range(len(self.contestants))]

    def finish(self) -> dict[str, Any]:
        """Ends the worker; its closing facts."""
        return self._say({"finish": True})

    def _runner(self, index: int) -> Runner:
        def run(repeats: int) -> tuple[float, float]:
            reply = self._say({"run": index, "repeats": repeats})
            return reply["clock"], reply["cpu"]

        return run

    def _say(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `_hear` says why
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._errors.seek(0)
        raise JobFailed(_essence(self._errors.read()) or f"exit code {code}")


def _elsewhere() -> None:
    raise AssertionError("this contestant runs in another process")


def _environment(task: Task) -> dict[str, str]:
    """This process's environment with the task's devices and flags, our packages importable."""
    environment = dict(os.environ)
    flags = _OUR_FLAGS.sub("", _DEVICES.sub("", environment.get("XLA_FLAGS", "")))
    environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={task.devices}".strip()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    return environment


def _essence(errors: str, count: int = 8) -> str:
    """The lines of an error output that say most: a failed check of XLA, else the end."""
    lines = errors.strip().splitlines()
    checks = [line for line in lines if "Check failed" in line]
    return "\n".join(checks[:1] or lines[-count:])


# ---- the worker's side --------------------------------------------------------------------------------------------


def main(task_text: str) -> int:
    """Makes the team, then runs its contestants as told."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not mix with the answers
    task = json.loads(task_text)
    if task["core"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task["core"]})
    if task["our_flags"]:
        from jaxrl import xla

        # Adds what is missing; the number of devices is there already. jax reads the flags when it first computes.
        xla.set_devices(1)
        xla.prepare_game(_game_of(task["job"]))
    from scripts.benchmark import jobs

    team = jobs.JOBS[task["kind"]](**task["job"])
    runners = [runner(contestant.block) for contestant in team.contestants]
    _send(answers, {"contestants": [[each.name, each.units, each.info] for each in team.contestants]})
    for line in sys.stdin:
        message = json.loads(line)
        if "finish" in message:
            facts = jobs.closing_facts(team)
            team.close()
            _send(answers, facts | {"core": task["core"]})
            break
        clock, cpu = runners[message["run"]](message["repeats"])
        _send(answers, {"clock": clock, "cpu": cpu})
    return 0


def _game_of(job: dict[str, Any]) -> str:
    """The id of the game of a job."""
    return job["env"] if "env" in job else job["config"]["env"]["id"]


def _send(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()
