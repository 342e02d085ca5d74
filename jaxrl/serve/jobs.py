"""Commands of `jaxrl` started from a page, each in a process of its own; their output is kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jaxrl
import jaxrl_envs
from jaxrl_envs.shared.errors import UserError

AT_ONCE, WAITING, KEPT = 1, 4, 20
LINES, LINE = 400, 2_000  # of the output that are kept; characters of one


class CommandJob:
    """A command, its state and its output."""

    def __init__(self, number: int, words: Sequence[str], about: str):
        """Makes a waiting command; `about` is the run that it concerns."""
        self.number, self.words, self.about = number, list(words), about
        self.state = "waiting"  # running, done, failed, stopped
        self.begun = time.time()
        self.output: deque[str] = deque(maxlen=LINES)
        self.process: asyncio.subprocess.Process | None = None

    def told(self) -> dict[str, Any]:
        """Returns the state of the command as a mapping for JSON."""
        named = {"number": self.number, "command": f"jaxrl {' '.join(self.words)}", "about": self.about}
        return named | {"state": self.state, "begun": self.begun, "output": "\n".join(self.output)}


class Jobs:
    """A queue of commands."""

    def __init__(self) -> None:
        """An empty queue; made within the server's event loop."""
        self._jobs: OrderedDict[int, CommandJob] = OrderedDict()
        self._numbers = itertools.count(1)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, words: Sequence[str], about: str) -> CommandJob:
        """Queues `jaxrl WORDS`. Raises UserError: too many commands are waiting."""
        if sum(job.state == "waiting" for job in self._jobs.values()) >= WAITING:
            raise UserError("many commands wait already: try again when one of them is done.")
        job = CommandJob(next(self._numbers), words, about)
        self._jobs[job.number] = job
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
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

    async def close(self) -> None:
        """Stops all commands."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: CommandJob) -> None:
        async with self._turns:
            if job.state == "stopped":
                return
            job.state = "running"
            code = await self._finish(job)
        if job.state == "running":
            job.state = "done" if code == 0 else "failed"

    async def _finish(self, job: CommandJob) -> int:
        job.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "jaxrl", *job.words),
            env=environment(NO_COLOR="1", COLUMNS="120"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 20,
        )
        try:
            await self._listen(job, job.process)
            return await job.process.wait()
        finally:
            if job.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    job.process.kill()
                await job.process.wait()

    async def _listen(self, job: CommandJob, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while block := await process.stdout.read(1 << 14):
            text = block.decode(errors="replace").replace("\r\n", "\n")
            for number, line in enumerate(text.split("\n")):
                if number or not job.output:
                    job.output.append("")
                job.output[-1] = (job.output[-1] + line).rpartition("\r")[2][:LINE]


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that runs this very jaxrl, also where the working directory holds another one."""
    homes = dict.fromkeys(str(Path(str(package.__file__)).resolve().parents[1]) for package in (jaxrl, jaxrl_envs))
    paths = [*homes, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more
