"""Advice about launches and waits on a GPU: the lines of a game's rules that cost them. It never fails a game."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import source_info_util

from jaxrl_envs.conformance.probe import NotApplicable, Probe, take
from jaxrl_envs.contract.wrappers import AutoReset

ADVICE = {  # by primitive, after vmap over games
    "while": "a loop whose end depends on data: a GPU waits for the host in each round. Give it a fixed number of "
    "rounds that change nothing beyond the end (lax.scan and jnp.where)",
    "scan": "a loop of {length} rounds, each with kernels of its own: write it over an axis of arrays, or unroll it",
    "sort": "a sort, as in a permutation, fuses with nothing: draw the k-th set bit of a word, or deal one card a step",
    "scatter": "x.at[i].set(y) fuses with little: write jnp.where(jnp.arange(n) == i, y, x)",
    "callback": "a call of Python: a GPU waits for the host in each step",
}


def equations(jaxpr: Any, line: str = "") -> Iterator[tuple[Any, str]]:
    """Yields all equations of a jaxpr, each with the user's line: loops and their content, of what only calls another
    jaxpr the content alone."""
    for equation in jaxpr.eqns:
        own = re.sub(r":\d+ \(", " (", source_info_util.summarize(equation.source_info))  # without the column
        place = own if re.search(r":\d", own) else line
        inner = list(_inner(equation.params.values()))
        if not inner or kind_of(equation) in ADVICE:
            yield equation, place
        for each in inner:
            yield from equations(each, place)


def kind_of(equation: Any) -> str:
    """Returns the name of an equation's primitive, alike for all scatters and all calls of Python."""
    name: str = equation.primitive.name
    return "scatter" if name.startswith("scatter") else "callback" if name.endswith("callback") else name


def _inner(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _inner(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(getattr(value, "jaxpr", None), "eqns"):
            yield value.jaxpr


def launches_on_a_gpu(probe: Probe) -> str:
    """Names the lines of the rules by which the kernels of a step multiply on a GPU, or it waits for the host."""
    if probe.env.host:
        raise NotApplicable("the engine computes on the host")
    states, keys = take(probe.first, slice(0, 2)), probe.keys(24, 2)
    actions = probe.random_action(probe.first, probe.keys(25, probe.games))[:2]
    traced = jax.make_jaxpr(jax.vmap(AutoReset(probe.env).step))(*jax.tree.map(jnp.asarray, (states, actions)), keys)
    found: dict[str, dict[str, None]] = {}
    for equation, line in equations(traced.jaxpr):
        kind = kind_of(equation)
        if kind in ADVICE and equation.params.get("length") != 1:
            lines = found.setdefault(ADVICE[kind].format(**equation.params), {})
            lines[line.removeprefix(f"{Path.cwd()}{os.sep}")] = None
    told = (f"{', '.join(lines)}: {advice}" for advice, lines in found.items())
    return "; ".join(told) or "no loop, sort, scatter or call of the host in a step"


CHECKS = (launches_on_a_gpu,)
