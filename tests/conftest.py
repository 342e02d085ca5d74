"""Settings of the whole test suite; they must be in place before jax is imported."""

from __future__ import annotations

import os
import tempfile

import pytest

from jaxrl import xla

# Some tests compare bit by bit, which holds on a CPU; whoever sets JAX_PLATFORMS tests that platform instead.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# One device, also where a test calls the command line, which would otherwise ask for one per core. Tests of several
# devices start a process of their own.
xla.set_devices(1)

# Most of the time goes into compiling, so it is done fast rather than well; results are the same up to rounding. XLA
# aborts on some programs with multi-output fusion and without fusion emitters, so the former is off where a game asks
# for it too. Given flags win: XLA_FLAGS="--xla_backend_optimization_level=3 --xla_cpu_use_fusion_emitters=true
# --xla_backend_extra_options=xla_cpu_use_multi_output_fusion" compiles as users' programs are compiled, which one
# training in tests/test_trainer.py is in any case.
xla._add("xla_backend_optimization_level", "0")
xla._add("xla_cpu_use_fusion_emitters", "false")
xla._add("xla_backend_extra_options", "xla_nothing")  # an unknown option is ignored

# What one process of pytest-xdist, or one that a test starts, has compiled, the others load. The folder is gone at the
# end.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="jaxrl-tests-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _CACHE.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# Files are handed out whole, so those that take a minute begin first: at the end everything else would wait for them.
LONG = ("test_builds.py", "test_trainer.py", "test_search.py", "test_skull_king_engine.py", "test_sebulba_faults.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the rest in the order of their names."""
    items.sort(key=lambda item: item.path.name not in LONG)
