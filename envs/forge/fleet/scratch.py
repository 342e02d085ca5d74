"""Temporary folders that do not pile up: whoever makes one removes those of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "jaxrl-forge-"
LOCK = "in-use"  # held locked by the process whose folder it is, and so by nobody once that has ended


class Scratch:
    """A folder for temporary files, which `close` removes, or else the next process that makes one."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        unfinished = self.path / f"{LOCK}.part"  # a lock is never seen by others before it is locked
        self._lock = unfinished.open("wb")
        with contextlib.suppress(OSError):  # where files cannot be locked nobody sweeps
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unfinished.rename(self.path / LOCK)

    def close(self) -> None:
        """Removes the folder and all that is in it. May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep() -> None:
    """Removes the folders of this user that belong to nobody any more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        try:
            with lock.open("rb") as handle:
                if os.fstat(handle.fileno()).st_uid != os.getuid():
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # it is in use, or gone already
            continue
