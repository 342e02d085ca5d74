"""CPU cores and memory available to this process."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")  # limits of a container or a batch job


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_bytes() -> int | None:
    """Free memory in bytes, within the limit of a container; None where the system does not report it."""
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
