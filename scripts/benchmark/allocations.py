"""Does playing allocate memory? Calls of malloc are counted, in a process of its own, while a million decisions pass.

A small library that counts the calls is compiled with the system's C compiler and preloaded (Linux with glibc). Beside
the calls stand the bytes in use (`mallinfo2`), the objects of Python and the resident memory before and after: growth
of none of them, and no calls, means that the hot path allocates nothing, not even what it frees again.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl.diagnose import hardware

SOURCE = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static _Atomic long calls;
void *malloc(size_t size) { calls++; return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { calls++; return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { calls++; return __libc_realloc(old, size); }
long jaxrl_malloc_calls(void) { return calls; }
"""


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
        )
    ]


def missing() -> str | None:
    """None if allocations can be counted here, else one sentence saying why not."""
    if not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallinfo2"):
        return "allocations: counted on Linux with glibc 2.33 or later only"
    if shutil.which("cc") is None:
        return "allocations: a C compiler (cc) is needed to count them"
    return None


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Runs `main` with a counting malloc; its report.

    Args:
      job: {"env", "options", "batch", "decisions", "threads"}; env "" is the engine that does nothing.

    Raises:
      RuntimeError: the process failed; with the end of what it said.
    """
    return counting(f"from scripts.benchmark.allocations import main; main({json.dumps(job)!r})")


def counting(program: str) -> dict[str, Any]:
    """Runs a Python program in which `while_running` works; the JSON in the last line that it prints.

    Raises:
      RuntimeError: it failed; with the end of what it said.
    """
    with tempfile.TemporaryDirectory(prefix="jaxrl-malloc-") as folder:
        source, library = Path(folder) / "count.c", Path(folder) / "count.so"
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        root = str(Path(__file__).resolve().parent.parent.parent)
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:] or f"exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main(text: str) -> None:
    """In the counting process: plays, prints one line of JSON with what was allocated on each way to play."""
    from scripts.benchmark import engines

    job = json.loads(text)
    report: dict[str, Any] = {}
    with engines.HostContestants(engines.find_game(job["env"], job["options"]), job["batch"]) as seats:
        for name, block, decisions in seats.hot_paths(job["threads"]):
            repeats = max(1, job["decisions"] // decisions)
            report[name] = while_running(block, repeats) | {"decisions": decisions * repeats}
    print(json.dumps(report))


def while_running(block: Callable[[], Any], repeats: int) -> dict[str, float]:
    """What `repeats` calls of `block` allocate: calls of malloc, growth in bytes, Python's objects and MiB.

    The process must have been started by `counting`.
    """
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _MallInfo
    library.jaxrl_malloc_calls.restype = ctypes.c_long

    def state() -> tuple[int, int, int, float]:
        calls, bytes_in_use = library.jaxrl_malloc_calls(), library.mallinfo2().uordblks
        return calls, bytes_in_use, sys.getallocatedblocks(), hardware.memory()["rss_mib"] or 0.0

    state(), block(), block(), state()  # whatever happens once is over then
    before = state()
    for _ in range(repeats):
        block()
    after = state()
    calls, grown, objects, resident = (b - a for a, b in zip(before, after, strict=True))
    return {"malloc_calls": calls, "bytes": grown, "python_objects": objects, "rss_mib": resident}
