"""CPU cores, their vectors, and memory available to this process."""

from __future__ import annotations

import functools
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows, which has no such limits
    resource = None  # type: ignore[assignment]

_CGROUP = Path("/sys/fs/cgroup")  # limits of a container or a batch job
VECTORS = {  # flag of a processor -> name, the widest first
    **{"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"},
    **{"sve": "SVE", "asimd": "NEON", "sse2": "SSE2"},
}


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def vector_width() -> str:
    """Returns the widest vectors of the processor ("AVX-512", "AVX2", "NEON"), on which compiled programs depend;
    "unknown" where the operating system does not tell."""
    facts = cpu_facts()
    flags = set((facts.get("flags") or facts.get("features") or "").split())
    return next((name for flag, name in VECTORS.items() if flag in flags), "unknown")


@functools.cache  # they are asked for at every checkpoint
def cpu_facts() -> dict[str, str]:
    """Returns Linux's facts about the first core, by names in lower case; {} elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def free_bytes() -> int | None:
    """Free memory in bytes, within the limits of a container and of the shell (`ulimit -v`); None where the system does
    not report it."""
    free, space = _free_memory(), address_space()
    if free is None or space is None:
        return free
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return min(free, max(0, space - pages * resource.getpagesize()))


def address_space() -> int | None:
    """Returns the address space that this process may use (`ulimit -v`), in bytes; None if it is not limited."""
    return _limit("RLIMIT_AS")


def open_files() -> int | None:
    """Returns the number of files that this process may have open (`ulimit -n`); None if it is not limited."""
    return _limit("RLIMIT_NOFILE")


def _limit(name: str) -> int | None:
    if resource is None:
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _free_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        limit, used, stat = ((_CGROUP / f"memory.{name}").read_text().split() for name in ("max", "current", "stat"))
        cached = sum(int(stat[stat.index(name) + 1]) for name in ("inactive_file", "active_file"))
    except (OSError, ValueError):
        return free
    return free if limit == ["max"] else min(free, int(limit[0]) - int(used[0]) + cached)
