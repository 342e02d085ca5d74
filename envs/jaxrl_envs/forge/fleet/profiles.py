"""Flags of the JVMs: three profiles, which differ in the garbage collector only.

`python -m scripts.benchmark forge --sweep` measures on the machine at hand which of them needs the least CPU for a
game. What is common to all:

- a fixed heap: growing and shrinking it costs, and a daemon plays for days;
- `Match.startGame` of Forge calls `System.gc()`, a full collection at the beginning of every game: switched off;
- no window system, and a private folder instead of the user's, whose `~/.forge` is theirs;
- no file of performance counters in /tmp, which makes threads wait for the disk;
- a JVM takes the machine for one of two cores, on which it compiles while it plays: the others have JVMs of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

PROFILES: dict[str, tuple[str, ...]] = {
    "serial": ("-XX:+UseSerialGC",),
    # One thread to collect with: the other cores have daemons of their own.
    "parallel": ("-XX:+UseParallelGC", "-XX:ParallelGCThreads=1"),
    "g1": ("-XX:+UseG1GC", "-XX:ParallelGCThreads=1", "-XX:ConcGCThreads=1"),
}


def java_flags(profile: str, heap_mb: int, private: Path, version: str = "17") -> list[str]:
    """All flags of a JVM.

    Args:
      profile: a name of `PROFILES`.
      heap_mb: size of the heap.
      private: an existing folder that the JVM takes for the user's.
      version: of Java.
    """
    # Later ones warn of what makes a game the same in every JVM (https://openjdk.org/jeps/498), or refuse it.
    unsafe = ["--sun-misc-unsafe-memory-access=allow"] if int(re.match(r"\d*", version)[0] or 0) >= 23 else []  # type: ignore[index]
    heap = [f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m"]
    common = [
        "-XX:+DisableExplicitGC",
        "-XX:-UsePerfData",
        "-XX:ActiveProcessorCount=2",
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
        f"-Duser.home={private}",
    ]
    return [*heap, *PROFILES[profile], *unsafe, *common]
