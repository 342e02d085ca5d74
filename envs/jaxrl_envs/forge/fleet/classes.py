"""Compiles the daemon on the user's machine, for the Java and the Forge that are installed.

Its classes lie in the user's cache folder, under a name that changes with the sources, Java and Forge, so that this is
done once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import threading
from pathlib import Path

from jaxrl_envs.forge.fleet.find import ForgeRelease, Java
from jaxrl_envs.forge.fleet.scratch import Scratch

SOURCES = Path(__file__).resolve().parents[1] / "daemon" / "src"
MAIN, BRIDGE = "forgedaemon.ForgeDaemon", "forgedaemon.Bridge"
SECONDS = 120.0  # at least, for the compiler, which needs three of CPU
_ONE = threading.Lock()  # several daemons start at the same time, one of them compiles


class CompileError(Exception):
    """The daemon could not be compiled.

    Args:
      problem: why, in a sentence.
      output: the compiler's output.
      final: another attempt would end in the same way.
    """

    def __init__(self, problem: str, output: str = "", *, final: bool = True):
        super().__init__(problem)
        self.output, self.final = output, final


def compiled(java: Java, forge: ForgeRelease, seconds: float = SECONDS) -> Path:
    """Returns the folder of the daemon's classes; a step of compiling may take `seconds`.

    Raises:
      CompileError: they are not compiled yet, and cannot be.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "jaxrl" / "forge"
    with _ONE:
        try:
            folder = cache / _key(java, forge)
            if not folder.is_dir():
                _compile(java, forge, folder, seconds)
        except OSError as error:
            raise CompileError(f"its classes cannot be kept in {cache} ({error}): set XDG_CACHE_HOME") from error
    return folder


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def _key(java: Java, forge: ForgeRelease) -> str:
    """Returns a hash of everything that the classes depend on."""
    jar = (str(forge.jar), forge.jar.stat().st_size, forge.jar.stat().st_mtime_ns)
    sources = [(path.name, path.read_bytes()) for path in _sources()]
    return hashlib.sha256(repr((java, jar, sources)).encode()).hexdigest()[:20]


def _compile(java: Java, forge: ForgeRelease, folder: Path, seconds: float) -> None:
    """Compiles into a temporary folder and renames it, so that no other process finds half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(Scratch(folder.parent)) as fresh:
        classes = fresh.path / "classes"
        compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
        _run(java, forge, [*compiler, "-d", str(classes), "-cp", str(forge.jar), *map(str, _sources())], seconds)
        _run(java, forge, ["-cp", f"{classes}{os.pathsep}{forge.jar}", BRIDGE, str(classes)], seconds)  # for this Forge
        try:
            classes.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _run(java: Java, forge: ForgeRelease, arguments: list[str], seconds: float) -> None:
    """Runs one step of compiling."""
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # it runs for two seconds
    command = [str(java.path), *flags, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"it was not compiled after {seconds:g} s (forge.start_timeout)", final=False) from error
    except OSError as error:
        raise CompileError(f"{java.path} cannot be run: {error.strerror}") from error
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace")
        why = next((line for line in output.splitlines() if "error:" in line), f"exit code {done.returncode}")
        problem = f"it cannot be compiled for Forge {forge.version}: {why}"
        raise CompileError(problem, output, final=done.returncode > 0)  # else it was killed
