"""Floating-point operations, bytes, kernels and memory of a program on an accelerator, estimated from its jaxpr.

Nothing is compiled. XLA's own `cost_analysis` counts the body of a loop once, and ours are loops, so here loop bodies
are counted as often as they run (`jaxrl.diagnose.estimates.jaxprs.repeats`). A simple rule approximates XLA's fusion:
element-wise operations are computed where a matrix product, a reduction, a sort, a scatter or a loop needs their
result, and only those results are stored in memory. Sums of a few numbers, and products of such small matrices, count
as element-wise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.extend.core import Literal

from jaxrl.diagnose.estimates.jaxprs import inner_jaxprs, kernel_terms, matrix_flops, repeats

LOOPS = ("scan", "while", "cond")
PRODUCTS = ("dot_general", "conv_general_dilated")
GATHERING = ("reduce_", "argm", "cum", "sort", "scatter", "top_k", "dynamic_update_slice")
FEW = 8  # largest number of terms of a sum that counts as element-wise
PICKING = ("slice", "dynamic_slice", "gather")
MOVING = ("broadcast_in_dim", "reshape", "transpose", "squeeze", "copy", "convert_element_type", "concatenate", "pad")


@dataclasses.dataclass(frozen=True)
class Footprint:
    """The estimated cost of one call of a program; all figures except `peak` add up.

    Attributes:
      flops32, flops16: floating-point operations in float32 and, of matrix products, in bfloat16.
      bytes: read from memory and written to it.
      kernels: fused operations, each launched on its own.
      peak: bytes of memory in use, too high: arrays whose lifetimes do not overlap are added up too.
    """

    flops32: float = 0.0
    flops16: float = 0.0
    bytes: float = 0.0
    kernels: float = 0.0
    peak: float = 0.0

    def combine(self, other: Footprint, times: float = 1.0) -> Footprint:
        """The sum of this footprint and `times` calls of another one."""
        names = ("flops32", "flops16", "bytes", "kernels")
        sums = {name: getattr(self, name) + times * getattr(other, name) for name in names}
        return Footprint(**sums, peak=max(self.peak, other.peak))

    def scaled(self, by: float) -> Footprint:
        """The footprint with `by` times the data in the same kernels."""
        return dataclasses.replace(Footprint().combine(self, by), kernels=self.kernels, peak=by * self.peak)


def footprint(jaxpr: Any) -> Footprint:
    """The footprint of one call of a jaxpr; its arguments and results are in memory."""
    scope = _Scope()
    scope.call(jaxpr, [scope.array(var.aval) for var in jaxpr.invars])
    return scope.result()


class _Array(NamedTuple):
    """An array in memory, identified by its number."""

    number: int
    size: int  # bytes


class _Value(NamedTuple):
    """A variable: an array in memory, or a value that is computed from such arrays where it is needed."""

    reads: frozenset[_Array]
    stored: bool


class _Scope:
    """The footprint of one program, or of the body of one loop, while it is added up."""

    def __init__(self) -> None:
        self._found = Footprint()
        self._made = 0  # arrays so far
        self._held, self._within = 0, 0.0  # bytes of the arrays of this scope; the most that a loop in it holds

    def result(self) -> Footprint:
        """The footprint so far."""
        return dataclasses.replace(self._found, peak=self._held + self._within)

    def array(self, aval: Any, *, held: bool = True) -> _Value:
        """A new array in memory; if not `held`, it reuses the memory of another one."""
        self._made += 1
        self._held += _size(aval) * held
        return _Value(frozenset((_Array(self._made, _size(aval)),)), True)

    def call(self, jaxpr: Any, arguments: Sequence[_Value]) -> None:
        """Adds a jaxpr whose results are stored in memory."""
        known = self._known(jaxpr, arguments)
        for var in jaxpr.outvars:
            self._needed(var, known)

    def _known(self, jaxpr: Any, arguments: Sequence[_Value]) -> dict[Any, _Value]:
        """The values of all variables of a jaxpr."""
        known = dict(zip(jaxpr.invars, arguments, strict=True)) | {v: self.array(v.aval) for v in jaxpr.constvars}
        for equation in jaxpr.eqns:
            inner = list(inner_jaxprs(equation))
            if equation.primitive.name in LOOPS or len(inner) > 1:
                self._loop(inner, equation, known)
            elif inner and len(inner[0].invars) == len(equation.invars):  # a function: fused with what is around it
                results = self._known(inner[0], [_read(var, known) for var in equation.invars])
                known |= dict(zip(equation.outvars, [_read(v, results) for v in inner[0].outvars], strict=True))
            else:
                self._operation(equation, known)
        return known

    def _loop(self, bodies: Sequence[Any], equation: Any, known: dict[Any, _Value]) -> None:
        """Adds a scan, a `while`, or branches, all of which run under vmap."""
        for var in equation.invars:
            self._needed(var, known)
        within = 0.0
        for body in bodies:
            found = footprint(body)
            within = max(within, found.peak - sum(_size(var.aval) for var in body.invars))
            self._found = self._found.combine(found, repeats(equation))
        self._within = max(self._within, within)
        carried = equation.params.get("num_carry", len(equation.outvars))  # written over in place
        known |= {v: self.array(v.aval, held=i >= carried) for i, v in enumerate(equation.outvars)}

    def _operation(self, equation: Any, known: dict[Any, _Value]) -> None:
        name, outs = equation.primitive.name, equation.outvars
        if name in PRODUCTS and _terms(equation) > FEW:
            flops, half = matrix_flops(equation), equation.invars[0].aval.dtype.itemsize == 2
            self._count(flops * (not half), flops * half)
            self._kernel([self._needed(var, known) for var in equation.invars], outs, known)
        elif name.startswith(GATHERING) and name != "reduce_precision" and _terms(equation) > FEW:
            self._count(math.prod(equation.invars[0].aval.shape))
            self._kernel([_read(var, known) for var in equation.invars], outs, known)
        elif name in PICKING:  # no more of the first operand is read than is returned
            rest = [_read(var, known).reads for var in equation.invars[1:]]
            part = self.array(outs[0].aval, held=False).reads
            known[outs[0]] = _Value(part.union(*rest), False)
        else:
            self._count(0 if name in MOVING else _terms(equation) * math.prod(outs[0].aval.shape))
            reads = frozenset[_Array]().union(*(_read(var, known).reads for var in equation.invars))
            known |= dict.fromkeys(outs, _Value(reads, False))

    def _count(self, flops32: float, flops16: float = 0.0) -> None:
        self._found = self._found.combine(Footprint(flops32, flops16))

    def _needed(self, var: Any, known: dict[Any, _Value]) -> _Value:
        """The value of a variable in memory; a kernel stores it if it is not there yet."""
        value = _read(var, known)
        if not value.stored:
            self._kernel([value], [var], known)
            value = known[var]
        return value

    def _kernel(self, reads: Sequence[_Value], written: Sequence[Any], known: dict[Any, _Value]) -> None:
        arrays = frozenset[_Array]().union(*(value.reads for value in reads))
        moved = sum(array.size for array in arrays) + sum(_size(var.aval) for var in written)
        self._found = self._found.combine(Footprint(bytes=moved, kernels=1))
        known |= {var: self.array(var.aval) for var in written}


def _read(var: Any, known: dict[Any, _Value]) -> _Value:
    return _Value(frozenset(), True) if isinstance(var, Literal) else known[var]


def _terms(equation: Any) -> int:
    """Number of elements of the first operand that are combined into each element of the result; at least 1."""
    operand = equation.invars[0].aval.shape if equation.invars else ()
    if equation.primitive.name == "dot_general":
        return math.prod(operand[axis] for axis in equation.params["dimension_numbers"][0][0])
    if equation.primitive.name == "conv_general_dilated":
        return kernel_terms(equation)
    axes = equation.params.get("axes", (equation.params.get("axis"),))
    if not equation.primitive.name.startswith(("reduce_", "argm", "cum")) or None in axes:
        return FEW + 1 if equation.primitive.name.startswith(GATHERING) else 1
    return math.prod(operand[axis] for axis in axes)


def _size(aval: Any) -> int:
    """Size in bytes; a PRNG key is two words."""
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    return math.prod(shape) * (getattr(dtype, "itemsize", 8) or 8)
