"""`KernelTrace` evaluates a jaxpr of one lane in a kernel: each scalar is a vector [block], one element per lane."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex

LARGEST = 200_000  # operations of a lane in a kernel
ELEMENTWISE = frozenset(
    """abs add and atan2 ceil clamp clz convert_element_type cos div eq erf_inv exp exp2 expm1 floor ge gt integer_pow
    is_finite le le_to log log1p logistic lt lt_to max min mul ne neg nextafter not or population_count pow rem rsqrt
    select_n shift_left shift_right_arithmetic shift_right_logical sign sin sqrt square sub tan tanh xor""".split()
)
CALLS = {  # primitives that call a jaxpr, and the name under which they have it
    **{"jit": "jaxpr", "checkpoint": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"},
    **{"custom_vjp_call": "call_jaxpr", "custom_vmap_call": "call"},
}
ORDERS = {"le_to": lax.le_p, "lt_to": lax.lt_p}  # of `jnp.searchsorted`; only NaN and -0 differ
BIT_COUNTS = lax.population_count_p, lax.clz_p

Element = Any  # a NumPy scalar, the same in all lanes; a vector [block]; or two of these, the words of a random key


class LaneArray:
    """An array of which some elements differ from lane to lane: its elements in row-major order."""

    def __init__(self, shape: Sequence[int], items: Sequence[Element]):
        self.shape, self.items = tuple(shape), list(items)


Value = np.ndarray | LaneArray  # NumPy: known while tracing


def is_key(form: Any) -> bool:
    """Returns whether an array is one of random keys."""
    return jax.dtypes.issubdtype(form.dtype, jax.dtypes.prng_key)


def is_known(element: Element) -> bool:
    """Returns whether an element is the same in all lanes and known while tracing."""
    return isinstance(element, np.generic)


def items_of(value: Value) -> list[Element]:
    """Returns the elements of an array."""
    return list(value.items) if isinstance(value, LaneArray) else list(value.ravel())


def numbers_of(value: Value) -> np.ndarray:
    """Returns the number of each element in `items_of`, in the array's shape."""
    return np.arange(math.prod(value.shape)).reshape(value.shape)


def make(aval: Any, items: Sequence[Element]) -> Value:
    """Returns the array of this shape and dtype with these elements, NumPy's if all of them are known."""
    if all(map(is_known, items)):
        return np.array(items, aval.dtype).reshape(aval.shape)
    return LaneArray(aval.shape, items)


def flat(values: Iterable[Value]) -> list[Element]:
    """Returns all elements of arrays; random keys by words."""
    items = itertools.chain.from_iterable(map(items_of, values))
    return list(itertools.chain.from_iterable(item if isinstance(item, tuple) else (item,) for item in items))


def shaped(items: Iterable[Element], avals: Iterable[Any]) -> list[Value]:
    """Inverts `flat`."""
    left = iter(items)
    take = lambda aval: (next(left), next(left)) if is_key(aval) else next(left)  # noqa: E731
    return [make(aval, [take(aval) for _ in range(math.prod(aval.shape))]) for aval in avals]


def parts(items: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """Consecutive parts of these sizes, and the rest."""
    ends = [0, *itertools.accumulate(sizes)]
    return [list(items[start:end]) for start, end in itertools.zip_longest(ends, ends[1:])]


class KernelTrace:
    """Evaluates jaxprs of one lane for the lanes of a block.

    Attributes:
      rules: rules for primitives that are not elementwise, (trace, equation, *operands, **parameters) -> results.
      tables: references to arrays in memory, by the identity of what they hold.
      known: results by operation and operands, of the bodies of loops and branches that are being traced, the innermost
        last: nothing is computed twice.
    """

    def __init__(self, rules: Mapping[str, Callable[..., Any]], block: int, tables: dict[int, Any], memory: Any):
        self.rules, self.block, self.tables, self.memory = rules, block, tables, memory
        self.known: list[dict[Any, Any]] = [{}]
        self.operations = 0

    # ---- elements ---------------------------------------------------------------------------------------------------

    def vector(self, element: Element) -> jax.Array:
        """Returns an element as a vector [block]."""
        if not is_known(element):
            return element
        full = lambda: jnp.full((self.block,), element, element.dtype)  # noqa: E731
        return self.once(("full", element.dtype, element.tobytes()), (), full)

    def once(self, key: Any, operands: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """Returns the result of `compute`, cached by key; the key has identities of operands, which are kept alive."""
        for known in reversed(self.known):
            if key in known:
                return known[key][0]
        self.operations += 1
        if self.operations > LARGEST:
            raise NotImplementedError(f"a lane needs more than {LARGEST:,} operations")
        result = compute()
        self.known[-1][key] = result, operands
        return result

    def apply(self, primitive: Any, *operands: Element, **params: Any) -> Element:
        """Applies an elementwise operation."""
        if all(map(is_known, operands)):
            return _folded(primitive, operands, params)[()]
        decided = _decided(primitive, operands)
        if decided is not None:
            return decided
        names = tuple((each.dtype, each.tobytes()) if is_known(each) else id(each) for each in operands)
        compute = lambda: _bind(primitive, map(self.vector, operands), params)  # noqa: E731
        return self.once((primitive, names, tuple(params.items())), operands, compute)

    def select(self, mask: Element, yes: Element, no: Element) -> Element:
        """`yes` in the lanes where the mask is true, else `no`."""
        if isinstance(yes, tuple):
            return tuple(self.select(mask, *pair) for pair in zip(yes, no, strict=True))
        return self.apply(lax.select_n_p, mask, no, yes)

    def all_of(self, masks: Iterable[Element]) -> Element:
        """Returns whether all masks are true."""
        return functools.reduce(lambda a, b: self.apply(lax.and_p, a, b), masks, np.True_)

    def clipped(self, index: Element, last: int) -> Element:
        """Returns an index between 0 and the last one."""
        return self.apply(lax.min_p, self.apply(lax.max_p, index, np.int32(0)), np.int32(last))

    def any(self, mask: jax.Array) -> jax.Array:
        """bool[], whether a mask is true in some lane of the block."""
        return jnp.max(mask.astype(jnp.int32)) > 0

    # ---- jaxprs -----------------------------------------------------------------------------------------------------

    def call(self, closed: jex.ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
        """Returns the results of a jaxpr."""
        jaxpr, env = closed.jaxpr, dict[Any, Value]()

        def read(atom: Any) -> Value:
            if not isinstance(atom, jex.Literal):
                return env[atom]
            aval: Any = atom.aval
            return np.asarray(atom.val, aval.dtype)

        env |= zip(jaxpr.constvars, map(self._constant, closed.consts), strict=True)
        env |= zip(jaxpr.invars, arguments, strict=True)
        for equation in jaxpr.eqns:
            env |= zip(equation.outvars, self._results(equation, list(map(read, equation.invars))), strict=True)
        return list(map(read, jaxpr.outvars))

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """The body of a loop or branch: what is computed there does not exist outside."""
        self.known.append({})
        try:
            yield
        finally:
            self.known.pop()

    def _constant(self, const: Any) -> Value:
        table = self.tables.get(id(const))
        if isinstance(const, jax.core.Tracer):  # of the program around the kernel
            zero = self.vector(np.int32(0))
            return LaneArray(const.shape, [self.memory.load(table, zero + k) for k in range(const.size)])
        value = np.asarray(const)
        if table is not None:
            self.tables[id(value)] = table
            self.known[0]["alive", id(value)] = value, ()
        return value

    def _results(self, equation: jex.JaxprEqn, operands: list[Value]) -> list[Value]:
        primitive, params, name = equation.primitive, equation.params, equation.primitive.name
        avals: list[Any] = [var.aval for var in equation.outvars]
        if all(isinstance(each, np.ndarray) for each in operands) and not any(map(is_key, avals)):
            found = _folded(primitive, operands, params)
            return found if primitive.multiple_results else [found]
        if name in self.rules:
            found = self.rules[name](self, equation, *operands, **params)
            return found if isinstance(found, list) else [found]
        if name in CALLS:
            return self.call(params[CALLS[name]], operands)
        if name not in ELEMENTWISE:
            raise NotImplementedError(f"a kernel has no {name}")
        primitive = ORDERS.get(name, primitive)
        rows = zip(*(_spread(operand, avals[0].shape) for operand in operands), strict=True)
        return [make(avals[0], [self.apply(primitive, *row, **params) for row in rows])]


def _spread(value: Value, shape: Sequence[int]) -> list[Element]:
    """Broadcasts an array to a shape and returns its elements."""
    items = items_of(value)
    return items if value.shape == tuple(shape) else [items[k] for k in np.broadcast_to(numbers_of(value), shape).flat]


def _folded(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluates a primitive on known operands."""
    with jax.ensure_compile_time_eval():
        found = primitive.bind(*operands, **params)
    return list(map(np.asarray, found)) if primitive.multiple_results else np.asarray(found)


def _bind(primitive: Any, vectors: Iterable[jax.Array], params: dict[str, Any]) -> jax.Array:
    if primitive not in BIT_COUNTS:
        return primitive.bind(*vectors, **params)
    (words,) = vectors  # Triton counts bits of signed words alone
    if words.dtype.itemsize < 4:
        raise NotImplementedError(f"a kernel has no {primitive.name} of {words.dtype}")
    return primitive.bind(words.astype(jnp.int32)).astype(words.dtype)


def _decided(primitive: Any, operands: Sequence[Element]) -> Element | None:
    """Returns the result of a choice, or of a logical operation, that known operands decide; else None."""
    if primitive is lax.select_n_p and len(operands) == 3:
        mask, no, yes = operands
        if yes is no:
            return yes
        return (yes if mask else no) if is_known(mask) else None
    if primitive in (lax.and_p, lax.or_p) and any(map(is_known, operands)):
        known, other = operands if is_known(operands[0]) else operands[::-1]
        zero, ones = known == 0, known == np.bitwise_not(np.zeros_like(known))
        if zero or ones:
            return other if zero == (primitive is lax.or_p) else known
    return None
