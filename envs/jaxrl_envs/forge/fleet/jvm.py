"""A local daemon: a JVM that this process starts, reads and reaps.

Its thread sleeps in `read` of the JVM's output, which ends when the JVM does: nothing is polled, and no zombie stays.
The JVM's input is a pipe that is never written. Its end, when this process dies in whatever way, tells the JVM to end.
"""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.forge.fleet.classes import MAIN, SECONDS, CompileError, compiled
from jaxrl_envs.forge.fleet.daemon import TOKEN, Daemon, Ended
from jaxrl_envs.forge.fleet.find import ForgeRelease, Java
from jaxrl_envs.forge.fleet.profiles import java_flags
from jaxrl_envs.forge.settings import LOCAL_HOST, Deployment

UNKNOWN = "unknown"
READY, FAILED = "FORGE DAEMON READY", "FORGE DAEMON FAILED:"
LOG_LIMIT = 16 << 20  # bytes of a log, which is truncated then
TAIL = 60  # its last lines, which are remembered
WORDS = 300  # characters of them in a sentence


class Launch(NamedTuple):
    """Launch settings that the JVMs of a deployment share."""

    java: Java
    forge: ForgeRelease
    deployment: Deployment  # the flags
    decks: Path
    private: Path  # a folder of ours

    def place(self, number: int) -> Path:
        """Returns the working directory and `user.home` of a JVM: private, and removed at the end."""
        folder = self.private / f"daemon-{number}"
        folder.mkdir(exist_ok=True)
        return folder

    def command(self, number: int) -> list[str]:
        """Starts the daemon; raises `CompileError` if it has to be compiled and cannot."""
        told = self.deployment
        jfr = Path(told.record_jfr).expanduser().absolute() / f"daemon-{number}.jfr" if told.record_jfr else None
        own, version = told.jvm_options, self.java.version
        flags = java_flags(told.profile, told.heap_mb, self.place(number), version, own, jfr)
        options = ["--port", "0", "--res", str(self.forge.res), "--watch-stdin", *(["--stock"] if told.stock else [])]
        options += ["--forge-version", self.forge.version] if self.forge.version else []
        options += ["--decks", str(self.decks), "--decks", "/"]  # whole paths come from us only: the token tells
        path = f"{compiled(self.java, self.forge, max(SECONDS, told.start_timeout))}{os.pathsep}{self.forge.jar}"
        return [str(self.java.path), *flags, "-cp", path, MAIN, *options]


class LocalDaemon(Daemon):
    """A JVM of ours."""

    local = True

    def __init__(self, number: int, launch: Launch, logs: Path, start_timeout: float):
        super().__init__(number, LOCAL_HOST, 0)
        self.token = secrets.token_hex(16)
        self.log, self.start_seconds = logs / f"forge-daemon-{number}.log", 0.0
        self._launch, self._timeout = launch, start_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._guard = threading.Lock()  # a process is not signalled while it is being reaped
        self._tail: collections.deque[str] = collections.deque(maxlen=TAIL)
        self._cpu_before = 0.0  # seconds of the JVMs before this one

    @property
    def name(self) -> str:
        """For sentences: it listens wherever there was room."""
        return f"#{self.number}"

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, if it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    # ---- life -------------------------------------------------------------------------------------------------------

    def come_up(self) -> Ended | None:
        """Starts the JVM and reads what it says until it is ready."""
        try:
            command = self._launch.command(self.number)
        except CompileError as error:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(error.output)
            return Ended(str(error), error.final)
        began = time.monotonic()
        self._tail.clear()
        with self._guard:
            if self._stopping:
                return Ended("all are being stopped", final=True)
            try:
                self._process = self._spawn(command)
            except OSError as error:
                self._process = None
                return Ended(f"{self._launch.java.path} cannot be run: {error.strerror}", final=True)
        late = threading.Timer(self._timeout, self.signal, (signal.SIGKILL,))
        late.daemon = True
        late.start()
        try:
            line = self._read_on((READY, FAILED))
        finally:
            late.cancel()
        self.start_seconds = time.monotonic() - began
        if line.startswith(READY):
            facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
            self.port, self.version = int(facts.get("port", 0)), facts.get("forge", UNKNOWN)
            self.remarks = self._remarks(facts)
            return None
        self._reap()
        if line.startswith(FAILED):
            return Ended(line.removeprefix(FAILED).strip(), final=True)
        if self.start_seconds >= self._timeout:
            return Ended(f"it was not ready after {self._timeout:g} s")
        # If it has never been up, Java refuses its flags; else it was killed.
        return Ended(self.last_words(), final=not self.version)

    def _remarks(self, facts: dict[str, str]) -> tuple[str, ...]:
        """Warnings for the user about this JVM, from the words of its READY line."""
        found = []
        if facts.get("short-cuts") == "no" and not self._launch.deployment.stock:
            hint = "; if the jar is one of these, say so by its name (docs/games/magic_training.md)"
            name = hint if self.version == UNKNOWN else ""
            found.append(
                f"the version of Forge is {self.version}, and the daemons' short cuts were compared with 1.6.50 and "
                "1.6.53 to 1.6.55 only: it is played without them, which takes two to three times the CPU of a "
                f"game{name}"
            )
        if facts.get("repeats") == "no":
            found.append(
                f"Java {self._launch.java.version} does not let the daemons fix the order of Forge's maps: a seed may "
                "give another game in another JVM, so a training may stop where a JVM has died, or not be resumed "
                "exactly; take a JDK of version 17 to 25 (forge.java)"
            )
        return tuple(found)

    def run(self) -> Ended:
        """Reads the JVM's output to its end, and reaps it."""
        self._read_on(())
        self._reap()
        return Ended(self.last_words())

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._launch.place(self.number),
            env=os.environ | {TOKEN: self.token, "LC_ALL": "C.UTF-8"},  # else names of decks could be ASCII only
            start_new_session=True,  # Ctrl-C is for us, and we stop the JVMs
        )

    def _read_on(self, until: tuple[str, ...]) -> str:
        """Copies the output into the log, up to its end or to a line that begins like that, which is returned."""
        process = self._process
        assert process is not None and process.stdout is not None
        with self.log.open("ab") as log:
            if until:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
                log.write(f"== {stamp} daemon {self.number}, process {process.pid}\n".encode())
            while data := process.stdout.readline(8192):
                if log.tell() > LOG_LIMIT:
                    log.truncate(0)
                log.write(data)
                log.flush()
                line = data.decode(errors="replace").rstrip()
                self._tail.append(line)
                if until and line.startswith(until):
                    return line
        return ""

    def _reap(self) -> None:
        """Waits for the process and takes its exit status."""
        process = self._process
        if process is None:
            return
        if hasattr(os, "waitid"):  # without taking the status: until that is taken its number is not used again
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self._cpu_before += process_figures(process.pid)[0]
        with self._guard:
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    # ---- from other threads -----------------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Signals the JVM and whatever it started, unless it is gone."""
        with self._guard:
            process = self._process
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    def give_up(self) -> None:
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Tells the JVM to end, and starts no other; does not wait."""
        with self._guard:
            self._stopping = True
        self.signal(signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Returns whether the process has ended within `seconds`; its own thread reaps it."""
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    # ---- for people -------------------------------------------------------------------------------------------------

    def why(self, problem: str) -> str:
        times = "" if self.failures == 1 else f" {self.failures} times in a row without a finished game"
        return f"Forge daemon {self.name} ended{times} ({problem}), see {self.log}"

    def last_words(self) -> str:
        """Its end in words: its exit code, and the end of its output without the places in stack traces."""
        code = self._process.returncode if self._process is not None else None
        how = "" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        lines = [line.strip() for line in self._tail if line.strip() and not line.lstrip().startswith("at ")]
        said = " | ".join(line for line in lines[-3:] if not line.startswith(READY))[-WORDS:]
        return ", ".join(filter(None, [how, f"its last words: {said}" if said else ""])) or "without a word"

    def figures(self) -> dict[str, Any]:
        pid = self.pid
        cpu, resident = process_figures(pid) if pid is not None else (0.0, 0.0)
        return super().figures() | {
            "pid": pid,
            "cpu_seconds": self._cpu_before + cpu,
            "rss_mib": resident,
            "start_seconds": self.start_seconds,
            "log": str(self.log),
        }


def process_figures(pid: int) -> tuple[float, float]:
    """Returns CPU seconds and resident MiB of a process; zeros where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
