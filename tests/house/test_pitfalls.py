"""Regression tests for failures of well-known projects; those of one module are tested beside it."""

from __future__ import annotations

import ast
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxrl.diagnose.play import program_size
from jaxrl_envs.conformance.gpu_checks import equations
from jaxrl_envs.contract import registry
from tests.support.paths import ROOT


def inner_programs(equation: Any) -> list[Any]:
    values = [
        v for value in equation.params.values() for v in (value if isinstance(value, (tuple, list)) else (value,))
    ]
    return [inner for inner in (getattr(value, "jaxpr", value) for value in values) if hasattr(inner, "eqns")]


def operations(jaxpr: Any) -> int:
    """Counts equations; those in a scan count once for each step, those in a `while` once."""
    total = 0
    for equation in jaxpr.eqns:
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += 1 + times * sum(operations(inner) for inner in inner_programs(equation))
    return total


@pytest.mark.parametrize("options", [{}, {"episode": "round"}, {"players": 8}])
def test_slow_auto_reset(options):
    """jumanji 297, 30 times slower: a reset is evaluated in every lane and step, so it deals no cards by itself."""
    env = registry.make("skull_king", **options)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(env.init, key)
    step = operations(jax.make_jaxpr(env.step)(state, jnp.int32(0), key).jaxpr)
    reset = operations(jax.make_jaxpr(env.reset)(state, key).jaxpr)
    init = operations(jax.make_jaxpr(env.init)(key).jaxpr)
    assert reset < init / 2, "the reset deals a whole new game"
    assert reset < step / 2


@pytest.mark.parametrize("options", [{}, {"episode": "round"}, {"players": 8}])
def test_compile_size_of_rules(options):
    """pgx 297, 34 s from unrolled rules: the program of a step stays small (4600 when this was written)."""
    env = registry.make("skull_king", **options)
    assert program_size(env) < 6000
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(env.init, key)
    for bot in env.bots.values():
        assert sum(1 for _ in equations(jax.make_jaxpr(bot)(state, key).jaxpr)) < 6000


def forks(source: str) -> list[str]:
    """Returns the names of calls and imports in a source file that may fork this process."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.keyword) and node.arg == "preexec_fn":
            names = ["preexec_fn"]
        unsafe = ("os.fork", "multiprocessing", "pty.fork", "preexec_fn", "concurrent.futures.ProcessPoolExecutor")
        found += [name for name in names if name.startswith(unsafe)]
    return found


def test_fork_after_jax_starts():
    """jax 18852: a forked child of a process with XLA's threads may hang; `subprocess` starts a fresh one."""
    for top in ("envs", "jaxrl", "scripts", "examples", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            assert not (re.search("fork|multiproc|preexec_fn|ProcessPool", source) and forks(source)), path
    assert forks("import os\nos.fork()") and forks("from multiprocessing import Pool")
    assert not forks("import subprocess\nsubprocess.run(['ls'])")
