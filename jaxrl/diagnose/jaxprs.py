"""Equations of jaxprs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from jaxrl_envs.contract.env import Env
from jaxrl_envs.contract.wrappers import auto_reset


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields the equations of a jaxpr and of every jaxpr inside their parameters, each once."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from equations(inner)


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yields the jaxprs inside an equation's parameters: bodies of loops, branches, called functions."""
    for value in equation.params.values():
        for inner in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner


def count_equations(jaxpr: Any) -> int:
    """Counts the equations, each once: the size of what is traced and compiled."""
    return sum(1 for _ in equations(jaxpr))


def program_size(env: Env) -> int:
    """Counts the equations of one auto-reset step."""
    auto = auto_reset(env)
    state, key = jax.eval_shape(lambda: (auto.init(jax.random.key(0)), jax.random.key(0)))
    action = jax.eval_shape(env.random_action, state, key)
    return count_equations(jax.make_jaxpr(auto.step)(state, action, key).jaxpr)
