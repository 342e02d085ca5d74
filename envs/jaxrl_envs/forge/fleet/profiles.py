"""Flags of the JVMs: profiles, which differ in the garbage collector only.

`python -m scripts.benchmark.forge --profiles` measures on the machine at hand which of them needs the least CPU for
a game. What is common to all:

- a fixed heap: growing and shrinking it costs, and a daemon plays for days;
- `Match.startGame` of Forge calls `System.gc()`, a full collection at the beginning of every game: switched off;
- no window system, and a private folder instead of the user's, whose `~/.forge` is theirs;
- no file of performance counters in /tmp, which makes threads wait for the disk;
- a JVM takes the machine for one of two cores, on which it compiles while it plays: the others have JVMs of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PROFILES: dict[str, tuple[str, ...]] = {
    "serial": ("-XX:+UseSerialGC",),
    # One thread to collect with: the other cores have daemons of their own.
    "parallel": ("-XX:+UseParallelGC", "-XX:ParallelGCThreads=1"),
    "g1": ("-XX:+UseG1GC", "-XX:ParallelGCThreads=1", "-XX:ConcGCThreads=1"),
    # What many programs are started with, to be compared.
    "g1_common": (
        *("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=50"),
        *("-XX:+ParallelRefProcEnabled", "-XX:+UseStringDeduplication"),
    ),
}


def java_flags(
    profile: str, heap_mb: int, private: Path, version: str = "17", own: Sequence[str] = (), jfr: Path | None = None
) -> list[str]:
    """Returns all flags of a JVM.

    Args:
      profile: a name of `PROFILES`.
      heap_mb: size of the heap.
      private: an existing folder that the JVM takes for the user's.
      version: version of Java.
      own: options of the user, after all others; one that chooses a collector replaces the profile.
      jfr: file of a Java Flight Recorder, written when the JVM ends.
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
    collector = () if any(re.fullmatch(r"-XX:\+Use\w+GC", option) for option in own) else PROFILES[profile]
    recorder = [f"-XX:StartFlightRecording=filename={jfr},dumponexit=true,settings=profile"] if jfr is not None else []
    return [*heap, *collector, *unsafe, *common, *recorder, *own]
