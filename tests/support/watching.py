"""What Python code does to the machine while it reads a file: what it writes and starts, how much memory it takes."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = dict.fromkeys(("os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.chmod", "os.chown", "os.utime"), 1)
CHANGES |= dict.fromkeys(("os.rename", "os.link", "os.symlink"), 2)
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind")
_watched: list[tuple[str, Any]] | None = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in STARTS:
        _watched.append((event, args[0] if args else ""))
    elif event in CHANGES:
        _watched.extend((event, path) for path in args[: CHANGES[event]])
    elif event == "open" and (set(args[1] or "") & set("wax+") or (args[2] or 0) & WRITING):
        _watched.append((event, args[0]))


sys.addaudithook(_hook)


@contextlib.contextmanager
def nothing_elsewhere(folder: Path) -> Iterator[None]:
    """Asserts that a block starts no process, connects to nothing and changes no file outside of a folder, as far as
    Python's audit events say; compiled modules (`__pycache__`) and programs (JAX's cache) are no such files."""
    global _watched
    _watched = seen = []
    try:
        yield
    finally:
        _watched, inside = None, folder.resolve()
        found = [each for each in seen if each[0] in STARTS or not _harmless(each[1], inside)]
        assert not found, found


def _harmless(path: Any, inside: Path) -> bool:
    at = inside if isinstance(path, int) else Path(os.path.realpath(os.fsdecode(path)))
    allowed = (inside, Path("/dev/null"), Path(jax.config.jax_compilation_cache_dir or "/dev/null"))
    return any(at.is_relative_to(each) for each in allowed) or "__pycache__" in at.parts


@contextlib.contextmanager
def bounded_memory(extra: int) -> Iterator[SimpleNamespace]:
    """Limits the memory that a block may take beyond what this process has (RLIMIT_AS), in bytes. Yields a namespace
    whose `peak` is afterwards what the block took, of real memory."""
    used, (soft, hard) = SimpleNamespace(peak=0), resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError):  # the peak is then of the whole process
        Path("/proc/self/clear_refs").write_text("5")
    size, before = (_kilobytes(name) << 10 for name in ("VmSize", "VmRSS"))
    resource.setrlimit(resource.RLIMIT_AS, (size + extra, hard))
    try:
        yield used
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        used.peak = (_kilobytes("VmHWM") << 10) - before


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
