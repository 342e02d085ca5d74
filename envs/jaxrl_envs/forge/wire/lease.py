"""Leases of a connection: held by a game, and revocable by the fleet while the game is idle."""

from __future__ import annotations

import threading
import time
from typing import Any

from jaxrl_envs.forge.wire.link import Link

IDLE, RUNNING, GONE = "idle", "running", "gone"
NO_START = "no start"  # why a lease failed: NEWGAME was not answered in time


class Lease:
    """A link while it belongs to one game, which enters it to play and leaves it in between.

    Attributes:
      link: connection to a daemon.
      daemon: whatever the fleet knows it by.
      status: "running", "idle" (not in use at the moment) or "gone" for ever.
      last_used: seconds of the monotonic clock, when it was left.
    """

    def __init__(self, link: Link, daemon: Any = None):
        self.link, self.daemon, self.status = link, daemon, RUNNING
        self.last_used = self._since = time.monotonic()
        self._used = 0.0  # seconds in which it was running, without the present ones
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Goes from idle to running. False: it is gone, or in use."""
        return self._change(IDLE, RUNNING)

    def leave(self) -> None:
        """Goes from running to idle: from now on it may be evicted."""
        self._change(RUNNING, IDLE)

    def finish(self) -> bool:
        """From running to gone, by its user; the link stays as it is. False: it was not running."""
        return self._change(RUNNING, GONE)

    def evict(self) -> bool:
        """Goes from idle to gone, and closes the link. False: it is in use, or gone."""
        evicted = self._change(IDLE, GONE)
        if evicted:
            self.link.close()
        return evicted

    def _change(self, before: str, after: str) -> bool:
        with self._lock:
            if self.status != before:
                return False
            now = time.monotonic()
            if before == RUNNING:
                self._used += now - self._since
                self.last_used = now
            self._since, self.status = now, after
            return True

    @property
    def busy_seconds(self) -> float:
        """Seconds that it was in use in all."""
        with self._lock:
            return self._used + (time.monotonic() - self._since if self.status == RUNNING else 0.0)
