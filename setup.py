"""Builds the compiled parts (Cython); everything else about the package stands in pyproject.toml.

JAXRL_BUILD=checked builds them with bounds checks: of typed memoryviews by Cython, of C arrays by the compiler, where a
violation stops the process. JAXRL_BUILD=address builds them for AddressSanitizer. Both are for the tests.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

KIND = os.environ.get("JAXRL_BUILD", "fast")
FLAGS = {
    "fast": ["-O3", "-g0", "-ffp-contract=off"],  # no fused multiply-add: the same bits on every machine
    "checked": ["-O0", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-ffp-contract=off"],
    "address": ["-O1", "-g", "-fsanitize=address", "-fno-omit-frame-pointer", "-ffp-contract=off"],
}[KIND]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SHARED = "jaxrl_envs.host.memoryviews"  # Cython's code for memoryviews, which every extension else has its own copy of
LINK = ["-fsanitize=address"] if KIND == "address" else []


def extensions() -> list[Extension]:
    """Returns an extension for every .pyx file of the packages (or of JAXRL_ONLY), and the one they share."""
    only = os.environ.get("JAXRL_ONLY")
    found = (path for root in ("envs", "jaxrl") for path in Path(root).rglob("*.pyx"))
    sources = sorted(map(Path, only.split(",")) if only else found)
    return [
        Extension(
            ".".join(path.with_suffix("").parts).removeprefix("envs."),
            [str(path)],
            extra_compile_args=[*FLAGS, "-pthread"],
            extra_link_args=[*LINK, "-pthread"],
            depends=[str(part) for part in sorted(path.parent.glob("*.pxd"))],
        )
        for path in (*sources, Path("envs", *SHARED.split(".")).with_suffix(".c"))
    ]


def write_layout() -> None:
    """Writes the numbers of envs/jaxrl_envs/forge/layout.py for Cython, also of what it lists: TYPE_ORDER = 12,
    NUM_TYPES = 15."""
    declared = runpy.run_path("envs/jaxrl_envs/forge/layout.py")
    numbers = {name: int(value) for name, value in declared.items() if isinstance(value, int | float)}
    for name in ("TYPES", "PHASES", "COLORS", "CARD_TYPES", "KEYWORDS", "ZONES", "SORTS"):
        numbers[f"NUM_{name}"] = len(declared[name])
        for number, each in enumerate(declared[name]):
            numbers[f"{name[:-1]}_{each.upper().replace(' ', '_')}"] = number
    lines = ["# Written by setup.py from layout.py.", "cdef enum:", *(f"    {n} = {v}" for n, v in numbers.items()), ""]
    target = Path("envs/jaxrl_envs/forge/layout.pxd")
    if not target.is_file() or target.read_text() != "\n".join(lines):
        target.write_text("\n".join(lines))


class BuildParts(build_ext):
    """Builds several parts at once; in place through a folder of its own, as a wheel takes all of the usual one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES
        if self.inplace:
            self.build_lib = os.path.join("build", "in-place")


write_layout()
setup(
    packages=[*find_packages(include=["jaxrl*"]), *find_packages("envs"), "jaxrl.configs"],
    package_dir={"jaxrl_envs": "envs/jaxrl_envs", "jaxrl.configs": "configs"},  # configs/ is installed with the package
    cmdclass={"build_ext": BuildParts},
    ext_modules=cythonize(
        extensions(),
        include_path=["envs"],
        build_dir=os.path.join("build", f"cython-{KIND}"),
        nthreads=CORES if multiprocessing.get_start_method() == "fork" else 0,  # others would run this file again
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": KIND != "fast",
            "wraparound": False,
            "initializedcheck": KIND != "fast",
            "cdivision": True,
            "embedsignature": True,
        },
    ),
)
