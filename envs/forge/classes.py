"""The daemon compiled once instead of at every start, which halves the time a JVM takes to get ready.

`java ForgeDaemon.java` would compile the file each time, with a compiler that is cold. The classes are kept in the
user's cache folder under a name that changes with the source, Java and Forge. If that does not work for whatever
reason, Java compiles the file at every start, as it can do by itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from envs.forge.fleet.find import SOURCE, ForgeRelease, Java

LOG = logging.getLogger("jaxrl.forge")
MAIN = "ForgeDaemon"
SECONDS = 120.0
_ONE = threading.Lock()  # several daemons start at the same time, one of them compiles


def compiled(java: Java, forge: ForgeRelease) -> Path | None:
    """The folder of the daemon's classes, or None: Java has to compile the source at the start."""
    with _ONE:
        try:
            folder = _cache() / _key(java, forge)
            if not (folder / f"{MAIN}.class").is_file():
                _compile(java, forge, folder)
            return folder
        except (OSError, subprocess.SubprocessError) as error:
            LOG.info("the Forge daemon is compiled at every start (%s)", error)
            return None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "jaxrl" / "forge"


def _key(java: Java, forge: ForgeRelease) -> str:
    """Of everything that the classes depend on."""
    jars = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in forge.jars]
    return hashlib.sha256(SOURCE.read_bytes() + repr((java, jars)).encode()).hexdigest()[:20]


def _compile(java: Java, forge: ForgeRelease, folder: Path) -> None:
    """Compiles into a new folder, which then takes its name, so that nobody finds half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".compiling-", dir=folder.parent))
    try:
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # it runs for two seconds
        compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none"]
        command = [str(java.path), *flags, *compiler, "-d", str(fresh), "-cp", forge.class_path, str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
        if not (fresh / f"{MAIN}.class").is_file():
            raise OSError("the compiler wrote nothing")
        fresh.chmod(0o755)
        try:
            os.rename(fresh, folder)
        except OSError:  # somebody else was faster
            if not (folder / f"{MAIN}.class").is_file():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
