"""Counts of equations and of floating-point operations of matrix products in a jaxpr."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from jaxrl_envs.contract.env import Env
from jaxrl_envs.contract.wrappers import auto_reset


def equations(jaxpr: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Yields (equation, number of runs) for a jaxpr and every jaxpr inside its parameters; see `repeats`."""
    for equation in jaxpr.eqns:
        yield equation, times
        for inner in inner_jaxprs(equation):
            yield from equations(inner, times * repeats(equation))


def repeats(equation: Any) -> int:
    """Number of times that the body of an equation runs: the length of a scan; the bound of a `while` if its condition
    compares with a literal, else 1."""
    if equation.primitive.name == "while":
        tests = [each for each in equation.params["cond_jaxpr"].jaxpr.eqns if each.primitive.name == "lt"]
        numbers = [np.asarray(each.invars[1].val) for each in tests if isinstance(each.invars[1], Literal)]
        return next((int(each) for each in numbers if np.issubdtype(each.dtype, np.integer) and each > 0), 1)
    length: int = equation.params["length"] if equation.primitive.name == "scan" else 1
    return length


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yields the jaxprs inside an equation's parameters: bodies of loops, branches, called functions."""
    for value in equation.params.values():
        for inner in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner


def count_equations(jaxpr: Any) -> int:
    """Number of equations, each counted once: the size of what is traced and compiled."""
    return sum(1 for _ in equations(jaxpr))


def count_flops(jaxpr: Any) -> int:
    """Sum of 2 M N K over all matrix products, loop bodies counted as often as they run."""
    return sum(times * matrix_flops(equation) for equation, times in equations(jaxpr))


def matrix_flops(equation: Any) -> int:
    """2 M N K of a matrix product, or of the product equivalent to a convolution; 0 for any other equation."""
    if equation.primitive.name == "conv_general_dilated":
        return 2 * math.prod(equation.outvars[0].aval.shape) * kernel_terms(equation)
    if equation.primitive.name != "dot_general":
        return 0
    (contracted, _), _ = equation.params["dimension_numbers"]
    shape = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted)


def kernel_terms(equation: Any) -> int:
    """Number of products that are summed for each output element of a convolution."""
    kernel = equation.invars[1].aval.shape
    return math.prod(kernel) // kernel[equation.params["dimension_numbers"].rhs_spec[0]]


def program_size(env: Env) -> int:
    """Number of equations of one auto-reset step."""
    auto = auto_reset(env)
    state, key = jax.eval_shape(lambda: (auto.init(jax.random.key(0)), jax.random.key(0)))
    action = jax.eval_shape(env.random_action, state, key)
    return count_equations(jax.make_jaxpr(auto.step)(state, action, key).jaxpr)
