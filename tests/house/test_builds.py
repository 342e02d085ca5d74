"""The compiled parts pass their tests when built with bounds checks, and with AddressSanitizer.

pytest -m slow tests/house/test_builds.py    # AddressSanitizer needs gcc and its libasan
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

BATTLE, HOST, FORGE, DQN = ("jaxrl_envs/battle", "jaxrl_envs/host", "jaxrl_envs/forge", "algorithms/dqn")
ENGINE_TESTS = (
    *(f"{BATTLE}/test_{name}.py" for name in ("golden", "script", "engine", "caches")),
    *(f"{HOST}/test_{name}.py" for name in ("bridge", "simultaneous")),
    *(f"{FORGE}/test_{name}.py" for name in ("fuzz", "encoder", "engine")),
    f"{DQN}/test_sumtree.py",
)
# What reaches every compiled part with data of all kinds; with the checks the rest would only be run a second time.
CHECKED_TESTS = tuple(f"{name}.py" for name in (f"{BATTLE}/test_golden", f"{HOST}/test_bridge", f"{DQN}/test_sumtree"))
CHECKED_TESTS += (f"{FORGE}/test_fuzz.py",)
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1", "PYTHONMALLOC": "malloc"}  # Python itself leaks at exit


def build(kind: str, place: Path) -> Path:
    """Builds the packages with these checks in a folder of their own, with the tests beside them."""
    done = subprocess.run(
        [*(sys.executable, "setup.py", "-q", "build"), "--build-base", place / "base", "--build-lib", place / "lib"],
        cwd=ROOT,
        env=os.environ | {"JAXRL_BUILD": kind},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shutil.copytree(ROOT / "tests", place / "lib" / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place / "lib")
    return place / "lib"


def run_tests(library: Path, tests: tuple[str, ...], **environment: str) -> str:
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"), *(f"tests/{t}" for t in tests)],
        cwd=library,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    report = done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0, report
    return report


@pytest.mark.slow
def test_bounds_checked_build(tmp_path):
    """Typed memoryviews are checked by Cython, C arrays by the compiler: a violation would stop the process."""
    library = build("checked", tmp_path)
    where = [sys.executable, "-c", "import jaxrl_envs.battle.engine.batch as batch; print(batch.__file__)"]
    found = subprocess.run(where, cwd=library, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(library)), "the tests must run the checked build"
    shipped = {path.name for path in (ROOT / "jaxrl" / "zoo").iterdir() if path.suffix in (".jaxrl", ".md")}
    assert shipped and shipped <= {path.name for path in (library / "jaxrl" / "zoo").iterdir()}
    assert " passed" in run_tests(library, CHECKED_TESTS)


def ask_gcc(library: str) -> str:
    """Returns the path at which gcc finds a library, or its bare name if it is not installed."""
    found = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


@pytest.mark.slow
def test_address_sanitizer(tmp_path):
    """AddressSanitizer finds no access outside of an object or to freed memory."""
    asan = ask_gcc("libasan.so")
    if not Path(asan).is_file():
        pytest.skip("gcc's libasan is not installed")
    # Beside it the library of C++, or the sanitizer cannot pass on the exceptions that XLA throws.
    preloaded = f"{asan}:{ask_gcc('libstdc++.so')}"
    report = run_tests(build("address", tmp_path), ENGINE_TESTS, LD_PRELOAD=preloaded, **SANITIZER)
    assert " passed" in report and "AddressSanitizer" not in report
