"""Settings of the whole test suite; they must be in place before jax is imported."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import subprocess
import sys
import tempfile

import pytest

from jaxrl import xla

# Some tests compare bit by bit, which holds on a CPU. If JAX_PLATFORMS is set, they run on that platform instead.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Files of the tests name these modules; who tests that a file's word is not enough takes it back.
os.environ["JAXRL_ALLOW"] = "tests,examples"

# One device, also where a test calls the command line, which would otherwise ask for one per core. Tests of several
# devices start a process of their own.
xla.set_devices(1)

# How `jaxrl` compiles Skull King.
AS_USERS = "--xla_backend_optimization_level=3 --xla_backend_extra_options=xla_cpu_use_multi_output_fusion"

# Most of the time goes into compiling, so it is done fast rather than well; results are the same up to rounding. XLA
# aborts on some programs with multi-output fusion, so it is off where a game asks for it too. Given flags win: with
# AS_USERS everything is compiled as users' programs are, which the tests marked `optimised` are in any case.
FAST = AS_USERS not in os.environ.get("XLA_FLAGS", "")
if FAST:
    xla.add_flag("xla_backend_optimization_level", "0")
    xla.add_flag("xla_backend_extra_options", "xla_nothing")  # an unknown option is ignored
    xla.add_flag("xla_cpu_parallel_codegen_split_count", "1")  # parts for several cores are 25 % more work
    if importlib.metadata.version("jaxlib").startswith("0.10."):  # XLA ends a process whose flag it does not know
        xla.add_flag("xla_cpu_use_fusion_emitters", "false")

# Every process collects all files, which takes 34 CPU seconds if none finds what another has compiled; containers often
# ask for that.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tracing makes many objects and hardly any cycles; a process that has seen half of the suite looks through all of them
# again and again for nothing.
gc.set_threshold(100_000, 20, 100)

# What one process of pytest-xdist, or one that a test starts, has compiled, the others load. The folder is gone at the
# end.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="jaxrl-tests-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _CACHE.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# Files are handed out whole, so those that take a minute begin first: at the end everything else would wait for them.
LONG = (
    "training/test_resume.py",
    "training/test_loop.py",
    "search/test_search.py",
    "skull_king/test_engine.py",
    "sebulba/test_faults.py",
)


LARGE = 3 << 30  # bytes


def pytest_xdist_auto_num_workers() -> int:
    """Returns one more than the number of cores: tests wait for other processes a quarter of the time."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--whole`, which includes the tests marked `thorough`."""
    parser.addoption("--whole", action="store_true", help="also the tests marked `thorough`")


def pytest_configure(config: pytest.Config) -> None:
    """Includes the tests marked `thorough` if files are named on the command line."""
    config.option.whole |= config.args_source is not config.ArgsSource.TESTPATHS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts long files to the front, and drops the tests marked `thorough` unless `--whole` is given."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG))
    if not config.option.whole:
        items[:] = [
            item for item in items if not item.get_closest_marker("thorough") or item.get_closest_marker("slow")
        ]


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between two files, forgets compiled programs once the process holds too much: workers share the memory."""
    if nextitem is not None and nextitem.path != item.path and _resident() > LARGE:
        import jax  # here, because the settings above must be in place before

        jax.clear_caches()
        gc.collect()


def _resident() -> int:
    """Returns the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test marked `optimised`, which computes for long, in a process that compiles as users' programs are."""
    if not FAST or pyfuncitem.get_closest_marker("optimised") is None:
        return None
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    done = subprocess.run(
        [*command, "-m", "slow or not slow"],
        cwd=pyfuncitem.config.rootpath,
        env=os.environ | {"XLA_FLAGS": AS_USERS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return True
