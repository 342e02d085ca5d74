"""Work that goes on after its request: a queue, processes, and commands of `jaxrl` with their output."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jaxrl
import jaxrl_envs
from jaxrl_envs.shared.errors import UserError

AT_ONCE, WAITING, KEPT = 1, 4, 20  # commands
LINES, LINE = 400, 2_000  # of the output that are kept; characters of one
T = TypeVar("T")


class WorkQueue:
    """Calls of coroutine functions: `at_once` run at a time, `waiting` more may wait."""

    def __init__(self, at_once: int, waiting: int):
        """Makes an empty queue."""
        self._turns, self._most = asyncio.Semaphore(at_once), at_once + waiting
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> asyncio.Task[T]:
        """Queues the call `work(*args)`. Raises UserError: too many wait."""
        if len(self._tasks) >= self._most:
            raise UserError("too many wait for this already: try again in a minute.")

        async def run() -> T:
            async with self._turns:
                return await work(*args)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancels all calls."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def child(*words: str, environment: dict[str, str], **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs `python WORDS` with this very jaxrl, also where the working directory holds another one; a process that is
    still running at the end of the block is killed."""
    homes = dict.fromkeys(str(Path(str(package.__file__)).resolve().parents[1]) for package in (jaxrl, jaxrl_envs))
    paths = os.pathsep.join([*homes, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": paths} | environment
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.DEVNULL)
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", *words, env=env, **nothing | streams)
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class CommandJob:
    """A command, its state and its output."""

    def __init__(self, number: int, words: Sequence[str], about: str):
        """Makes a waiting command; `about` is the run that it concerns."""
        self.number, self.words, self.about = number, list(words), about
        self.state = "waiting"  # running, done, failed, stopped
        self.output: deque[str] = deque(maxlen=LINES)
        self.process: asyncio.subprocess.Process | None = None

    def told(self) -> dict[str, Any]:
        """Returns the state of the command as a mapping for JSON."""
        named = {"number": self.number, "command": f"jaxrl {' '.join(self.words)}", "about": self.about}
        return named | {"state": self.state, "output": "\n".join(self.output)}


class Jobs:
    """Commands that were started, one of which runs at a time."""

    def __init__(self) -> None:
        """Starts none."""
        self._jobs: dict[int, CommandJob] = {}
        self._numbers = itertools.count(1)
        self._queue = WorkQueue(AT_ONCE, WAITING)
        self.close = self._queue.close

    def begin(self, words: Sequence[str], about: str) -> CommandJob:
        """Queues `jaxrl WORDS`. Raises UserError: too many commands are waiting."""
        job = CommandJob(next(self._numbers), words, about)
        self._queue.begin(self._run, job)
        self._jobs[job.number] = job
        over = [number for number, each in self._jobs.items() if each.state not in ("waiting", "running")]
        for number in over[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[number]
        return job

    def about(self, name: str) -> list[dict[str, Any]]:
        """Returns the commands that concern a run, newest first."""
        return [job.told() for job in reversed(self._jobs.values()) if job.about == name]

    def stop(self, number: int) -> None:
        """Interrupts a command as Ctrl-C does. Raises UserError: no command has that number."""
        if number not in self._jobs:
            raise UserError("there is no such command any more.")
        job = self._jobs[number]
        if job.state in ("waiting", "running"):
            job.state = "stopped"
        if job.process is not None and job.process.returncode is None:
            job.process.send_signal(signal.SIGINT)

    async def _run(self, job: CommandJob) -> None:
        if job.state == "stopped":
            return
        job.state = "running"
        streams = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        async with child(
            "-m", "jaxrl", *job.words, environment={"NO_COLOR": "1", "COLUMNS": "120"}, **streams
        ) as process:
            job.process = process
            await _listen(job, process)
            code = await process.wait()
        if job.state == "running":
            job.state = "done" if code == 0 else "failed"


async def _listen(job: CommandJob, process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while block := await process.stdout.read(1 << 14):
        text = block.decode(errors="replace").replace("\r\n", "\n")
        for number, line in enumerate(text.split("\n")):
            if number or not job.output:
                job.output.append("")
            job.output[-1] = (job.output[-1] + line).rpartition("\r")[2][:LINE]
