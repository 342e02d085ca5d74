"""Where Forge is and how its daemons are run: the section `forge` of a configuration, or the arguments of `deploy`.

Nothing here decides a game: the same seed gives the same game on any deployment.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence

from envs.errors import UserError, nearest
from envs.forge.profiles import PROFILES

AUTO = "auto"
LOCAL_HOST = "127.0.0.1"
OVERHEAD_MB = 300  # what a JVM takes beside its heap: code, classes, stacks, the collector's own
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):([0-9]{1,5})")


@dataclasses.dataclass(frozen=True)
class Deployment:
    """One way to run Forge.

    Attributes:
      home: folder of a Forge release; empty: the environment variable FORGE_HOME.
      java: the `java` of a JDK, or its folder; empty: JAVA_HOME, then PATH.
      daemons: JVMs on this machine, "auto" for one less than there are cores (and no more than fit into memory); or
        addresses ("host:port") of daemons that somebody else started and looks after.
      profile: serial, parallel or g1, the JVM flags of `envs.forge.profiles`.
      heap_mb: heap of a JVM, fixed.
      port: the first daemon listens there, the next ones behind it.
      decks: folder of your own decks, which games then name by their files; empty: the decks that come along.
      decision_timeout: seconds that a daemon may take for its next line before it counts as hanging.
      start_timeout: seconds that a daemon may take to get ready.
      stock: without the short cuts of our daemons, which save computing and change no game.
      record: folder that every conversation is written into; empty: none is.
      log_dir: folder of the daemons' logs; empty: a temporary one.
    """

    home: str = ""
    java: str = ""
    daemons: str | int | tuple[str, ...] = AUTO
    profile: str = "serial"
    heap_mb: int = 1024
    port: int = 17171
    decks: str = ""
    decision_timeout: float = 120.0
    start_timeout: float = 120.0
    stock: bool = False
    record: str = ""
    log_dir: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "daemons", _daemons(self.daemons))
        if self.profile not in PROFILES:
            raise UserError(f"forge.profile: there is no profile {self.profile!r}; {nearest(self.profile, PROFILES)}")
        for name, least, most in (("heap_mb", 256, 1 << 20), ("port", 1, 65535)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise UserError(f"forge.{name} must be a whole number from {least} to {most}, got {value!r}.")
        for name in ("decision_timeout", "start_timeout"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise UserError(f"forge.{name} must be a number of seconds above 0, got {value!r}.")

    @property
    def remote(self) -> bool:
        """Whether the daemons are somebody else's."""
        return isinstance(self.daemons, tuple)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of every remote daemon."""
        return tuple(parse_address(text) for text in self.daemons) if isinstance(self.daemons, tuple) else ()

    def local_count(self) -> int:
        """How many JVMs to start here."""
        if isinstance(self.daemons, int):
            return self.daemons
        memory = available_mb()
        room = memory // (self.heap_mb + OVERHEAD_MB) if memory is not None else cores()
        return max(1, min(cores() - 1, room))


def parse_address(text: str) -> tuple[str, int]:
    """("host", port) of "host:port"; an IPv6 host stands in brackets.

    Raises:
      UserError: it is no such address.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 1 <= int(match[2]) <= 65535 or not _possible(match[1]):
        raise UserError(f"forge.daemons: {text!r} is no address; write host:port, e.g. 192.168.0.7:17171.")
    return match[1].strip("[]"), int(match[2])


def _possible(host: str) -> bool:
    """Whether a host can have that name; sockets refuse others by an error that is no OSError."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_mb() -> int | None:
    """Memory that programs may still take, in MiB; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) // 1024
    except OSError:
        pass
    return None


def _daemons(value: object) -> str | int | tuple[str, ...]:
    """`daemons` in its one form."""
    if value == AUTO:
        return AUTO
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, Sequence) and value and all(isinstance(text, str) for text in value):
        for text in value:
            parse_address(text)
        return tuple(value)
    raise UserError(f"forge.daemons must be auto, a number of at least 1 or a list of host:port, got {value!r}.")
