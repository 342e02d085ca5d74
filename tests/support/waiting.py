"""Waiting for what happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Waits until a condition holds, and returns whether it does; a busy machine may need long."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()
