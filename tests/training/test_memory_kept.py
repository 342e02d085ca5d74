"""On a CPU the memory of large arrays is kept for the next ones."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

CODE = """
import ctypes, resource
from jaxrl import xla
kept = xla.keep_memory()
block = b"x" * (64 << 20)
del block
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    block = b"x" * (64 << 20)
    del block
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, faults, ctypes.CDLL("libc.so.6").mallopt(-3, 2**31 - 1) == 1)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
@pytest.mark.parametrize("mine", [{}, {"MALLOC_ARENA_MAX": "8"}], ids=["ours", "the user's"])
def test_large_blocks_are_used_again(mine):
    """Large blocks stay mapped: a new one does not map its 16,384 pages again. The user's own settings stay.

    An older glibc refuses: it says so, and nothing is changed either.
    """
    own = {name: each for name, each in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    environment = own | {"JAX_PLATFORMS": "cpu"} | mine
    found = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    kept, faults, possible = found.stdout.split()
    assert (int(faults) < 1000) == (kept == "True")
    assert kept == ("False" if mine else possible)
