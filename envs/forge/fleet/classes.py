"""The daemon, compiled on the user's machine for the Java and the Forge that are there.

Its classes lie in the user's cache folder, under a name that changes with the sources, Java and Forge, so that this is
done once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from jaxrl.envs.forge.fleet.find import ForgeRelease, Java

SOURCES = Path(__file__).resolve().parents[1] / "daemon" / "src"
MAIN = "forgedaemon.ForgeDaemon"
SECONDS = 120.0  # for the compiler, which needs three
_FRESH = ".compiling-"  # how folders begin that are being filled
_ONE = threading.Lock()  # several daemons start at the same time, one of them compiles


class CompileError(Exception):
    """The daemon could not be compiled.

    Args:
      problem: why, in a sentence.
      output: what the compiler said.
      final: another attempt would end in the same way.
    """

    def __init__(self, problem: str, output: str = "", *, final: bool = True):
        super().__init__(problem)
        self.output, self.final = output, final


def compiled(java: Java, forge: ForgeRelease) -> Path:
    """The folder of the daemon's classes.

    Raises:
      CompileError: there is none, and it could not be made.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "jaxrl" / "forge"
    with _ONE:
        _sweep(cache)
        try:
            folder = cache / _key(java, forge)
            if not folder.is_dir():
                _compile(java, forge, folder)
        except OSError as error:
            raise CompileError(f"its classes cannot be kept in {cache} ({error}): set XDG_CACHE_HOME") from error
    return folder


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def _key(java: Java, forge: ForgeRelease) -> str:
    """Of everything that the classes depend on."""
    jars = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in forge.jars]
    sources = [(path.name, path.read_bytes()) for path in _sources()]
    return hashlib.sha256(repr((java, jars, sources)).encode()).hexdigest()[:20]


def _compile(java: Java, forge: ForgeRelease, folder: Path) -> None:
    """Compiles into a new folder, which then takes its name, so that nobody finds half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_FRESH, dir=folder.parent, ignore_cleanup_errors=True) as fresh:
        classes = Path(fresh) / "classes"
        _run_compiler(java, forge, classes)
        try:
            classes.rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody was faster
                raise


def _sweep(cache: Path) -> None:
    """Removes what compilers left behind that were killed together with whoever started them."""
    for left in cache.glob(f"{_FRESH}*"):
        with contextlib.suppress(OSError):  # somebody else removes it
            if time.time() - left.stat().st_mtime > 2 * SECONDS:
                shutil.rmtree(left)


def _run_compiler(java: Java, forge: ForgeRelease, classes: Path) -> None:
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # it runs for two seconds
    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    command = [str(java.path), *flags, *compiler, "-d", str(classes), "-cp", forge.class_path, *map(str, _sources())]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"it was not compiled after {SECONDS:g} s", final=False) from error
    except OSError as error:
        raise CompileError(f"{java.path} cannot be run: {error.strerror}") from error
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace")
        why = next((line for line in output.splitlines() if "error:" in line), f"exit code {done.returncode}")
        problem = f"it cannot be compiled for Forge {forge.version}: {why}"
        raise CompileError(problem, output, final=done.returncode > 0)  # else it was killed
