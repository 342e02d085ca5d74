"""Temporary folders that do not pile up: making one removes those of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "jaxrl-forge-"
LOCK = "in-use"  # held locked by the process that owns the folder, so unlocked once that has ended


class Scratch:
    """A folder for temporary files, which `close` removes, or else the next process that makes one."""

    def __init__(self, place: Path | None = None):
        """Makes it in the folder `place`, or in the system's."""
        place = place or Path(tempfile.gettempdir())
        _sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        unfinished = self.path / f"{LOCK}.part"  # a lock is never seen by others before it is locked
        self._lock = unfinished.open("wb")
        with contextlib.suppress(OSError):  # where files cannot be locked, none are swept
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unfinished.rename(self.path / LOCK)

    def close(self) -> None:
        """Removes the folder and all that is in it. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(place: Path) -> None:
    """Removes the folders of this user whose process has ended."""
    for lock in place.glob(f"{PREFIX}*/{LOCK}"):
        try:  # others may put anything there: neither a link nor a pipe is a lock of ours
            with open(os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as handle:
                status = os.fstat(handle.fileno())
                if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode) or lock.parent.is_symlink():
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # it is in use, or gone already
            continue
