"""`fused` runs a function of one lane for all lanes inside one GPU kernel."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from jaxrl_envs.shared.fused.memory import Indexing, triton_memory
from jaxrl_envs.shared.fused.rules import RULES
from jaxrl_envs.shared.fused.trace import KernelTrace, LaneArray, flat, is_key, parts

BLOCK = 32  # lanes of an instance of a kernel
TABLE = 16  # elements from which on a constant lies in memory where it is looked up
DTYPES = [np.dtype(name) for name in ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32")]

_inside = contextvars.ContextVar("_inside", default=False)


def inside_kernel() -> bool:
    """Returns whether a function is being traced for a kernel, whose lanes are other games."""
    return _inside.get()


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def fused(function: Callable[..., Any], *, block: int = BLOCK, interpret: bool = False) -> Callable[..., Any]:
    """`jax.vmap(function)` as one kernel; arguments and results are pytrees of arrays [B, ...].

    Results that are arguments unchanged never enter the kernel. If the first result has the structure of the first
    argument, it is written in its place (XLA copies what is needed afterwards). Integer results are those of `jax.vmap`
    bit by bit; floats may differ in their last bits, since a GPU rounds quotients and roots differently.

    Args:
      function: function of one lane, pure, without what `rules` and `trace` lack (sorts, matrix products, callbacks).
      block: lanes of one instance of the kernel, a power of two, at least 32.
      interpret: True runs the kernel on any device, slowly, for tests.

    Raises:
      NotImplementedError: while tracing, a kernel cannot hold the function.
    """

    def run(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        forms = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in leaves]
        with _tracing():  # a new function: traces are cached by identity, and this one may differ from an earlier one
            traced = jax.make_jaxpr(lambda *each: function(*each), return_shape=True)
            closed, shapes = traced(*jax.tree.unflatten(tree, forms))
        numbers = {var: number for number, var in enumerate(closed.jaxpr.invars)}
        same = [numbers.get(var) if isinstance(var, jex.Var) else None for var in closed.jaxpr.outvars]
        wanted = [number for number, argument in enumerate(same) if argument is None]
        first = shapes[0] if type(shapes) is tuple else shapes
        structures: list[Any] = [jax.tree.structure(each) for each in (first, arguments[0])]
        places = range(structures[0].num_leaves if structures[0] == structures[1] else 0)
        made = iter(_run(closed, leaves, wanted, [number for number in wanted if number in places], block, interpret))
        results = [next(made) if number is None else leaves[number] for number in same]
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def vmap_on(device: jax.Device) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the vmap for a device: all lanes of a function of one lane in one kernel on a GPU, else `jax.vmap`."""
    return fused_if_possible if device.platform == "gpu" else jax.vmap


def fused_if_possible(function: Callable[..., Any]) -> Callable[..., Any]:
    """`fused`, or `jax.vmap` of a function that a kernel cannot hold."""

    def run(*arguments: Any) -> Any:
        try:
            return fused(function)(*arguments)
        except NotImplementedError as reason:
            logging.getLogger(__name__).warning("a step of all lanes is many GPU kernels instead of one: %s", reason)
            return jax.vmap(function)(*arguments)

    return run


def _run(
    closed: jex.ClosedJaxpr,
    leaves: Sequence[jax.Array],
    wanted: Sequence[int],
    replaced: Sequence[int],
    block: int,
    interpret: bool,
) -> list[jax.Array]:
    """Some of the results of a jaxpr of one lane, [B, ...] each.

    Args:
      leaves: the arguments, [B, ...].
      wanted: numbers of results. replaced: of those that may take the memory of the argument of the same number.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    count, forms, avals = leaves[0].shape[0], closed.in_avals, [closed.out_avals[k] for k in wanted]
    for form in (*forms, *avals):
        if not is_key(form) and form.dtype not in DTYPES:
            raise NotImplementedError(f"a kernel has no {form.dtype}")
    words = [jax.random.key_data(leaf) if is_key(leaf) else leaf for leaf in leaves]
    tables, used = _tables(closed), {id(var) for equation in closed.jaxpr.eqns for var in equation.invars}

    def kernel(*refs):
        inputs, constants, outputs = parts(refs, [len(words), len(tables)])
        numbers = pl.program_id(0) * block + jnp.arange(block, dtype=jnp.int32)
        lanes = jnp.minimum(numbers, count - 1)  # of the last block some do the work of the last lane
        memory = Indexing() if interpret else triton_memory()
        places = {id(table): ref for table, ref in zip(tables, constants, strict=True)}
        trace = KernelTrace(RULES, block, places, memory)
        arguments = zip(inputs, closed.jaxpr.invars, strict=True)
        unused = LaneArray((), [])
        values = [_loaded(memory, ref, lanes, count, var.aval) if id(var) in used else unused for ref, var in arguments]
        found = trace.call(closed, values)
        lanes = lanes if interpret else jnp.where(numbers < count, numbers, -(2**31))  # nothing is stored there
        for ref, number in zip(outputs, wanted, strict=True):
            items = flat([found[number]])
            for k, item in enumerate(items):
                memory.store(ref, lanes + k * count, trace.vector(item))

    made = pl.pallas_call(
        kernel,
        grid=(-(-count // block),),
        out_shape=[
            jax.ShapeDtypeStruct((count * aval.size * _width(aval),), np.uint32 if is_key(aval) else aval.dtype)
            for aval in avals
        ],
        compiler_params=triton.CompilerParams(num_warps=block // 32, num_stages=1),
        input_output_aliases={k: wanted.index(k) for k in replaced if forms[k] == closed.out_avals[k]},
        interpret=interpret,
        name="fused",
    )(*(jnp.ravel(jnp.moveaxis(leaf, 0, -1)) for leaf in words), *map(jnp.ravel, tables))
    return [_from_words(leaf, count, aval) for leaf, aval in zip(made, avals, strict=True)]


def _width(form: Any) -> int:
    """Words of an element."""
    return 2 if is_key(form) else 1


def _from_words(leaf: jax.Array, count: int, aval: Any) -> jax.Array:
    """Returns a result [B, ...] of what the kernel wrote."""
    words = jnp.moveaxis(leaf.reshape(*aval.shape, *[2] * is_key(aval), count), -1, 0)
    return jax.random.wrap_key_data(words, impl=aval.dtype._impl) if is_key(aval) else words


def _loaded(memory: Any, ref: Any, lanes: jax.Array, count: int, form: jax.ShapeDtypeStruct) -> LaneArray:
    """An argument as the kernel finds it in memory, [..., B], so that neighbouring threads read neighbouring words; a
    random key is two of them."""
    items = [memory.load(ref, lanes + k * count, replaced=True) for k in range(form.size * _width(form))]
    return LaneArray(form.shape, list(zip(items[::2], items[1::2], strict=True)) if is_key(form) else items)


def _tables(closed: jex.ClosedJaxpr) -> list[Any]:
    """Collects what a jaxpr and those inside it need in memory: large constants, and values from around the kernel."""
    found = {id(c): c for c in closed.consts if isinstance(c, jax.core.Tracer) or np.size(c) > TABLE}
    is_jaxpr = lambda value: isinstance(value, jex.ClosedJaxpr)  # noqa: E731
    for equation in closed.jaxpr.eqns:
        for inner in filter(is_jaxpr, jax.tree.leaves(list(equation.params.values()), is_leaf=is_jaxpr)):
            found |= {id(table): table for table in _tables(inner)}
    return list(found.values())
