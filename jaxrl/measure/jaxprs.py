"""What a program consists of, counted in its jaxpr: equations, and floating-point operations of matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax

from jaxrl.envs.core import Env
from jaxrl.envs.wrappers import auto_reset


def equations(jaxpr: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """(equation, how often it runs) of a jaxpr and of every jaxpr inside its parameters; a `while` runs once."""
    for equation in jaxpr.eqns:
        yield equation, times
        often = times * (equation.params["length"] if equation.primitive.name == "scan" else 1)
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner, often)


def count_equations(jaxpr: Any) -> int:
    """Equations, each counted once: what has to be traced and compiled."""
    return sum(1 for _ in equations(jaxpr))


def count_flops(jaxpr: Any) -> int:
    """2 M N K of every matrix product, loops as often as they run."""
    return sum(times * _flops(equation) for equation, times in equations(jaxpr))


def _flops(equation: Any) -> int:
    if equation.primitive.name != "dot_general":
        return 0
    (contracted, _), _ = equation.params["dimension_numbers"]
    shape = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted)


def program_size(env: Env) -> int:
    """Equations of one auto-reset step."""
    auto = auto_reset(env)
    state, key = jax.eval_shape(lambda: (auto.init(jax.random.key(0)), jax.random.key(0)))
    action = jax.eval_shape(env.random_action, state, key)
    return count_equations(jax.make_jaxpr(auto.step)(state, action, key).jaxpr)
