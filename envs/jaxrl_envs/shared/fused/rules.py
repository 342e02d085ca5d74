"""Rules of `KernelTrace` for primitives that are not elementwise: moves, indexing, sums, loops, random keys."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core as jex

from jaxrl_envs.shared.fused.trace import (
    Element,
    KernelTrace,
    Value,
    flat,
    is_known,
    items_of,
    make,
    numbers_of,
    parts,
    shaped,
)

MOST = 512  # elements outside of tables that an index may choose from


# ---- moves of data, done on the numbers of the elements -------------------------------------------------------------


def _pad(array: np.ndarray, fill: np.ndarray, padding_config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    for axis, (low, high, inner) in enumerate(padding_config):
        size = array.shape[axis]
        places = low + np.arange(size) * (inner + 1)
        total = low + high + size + max(size - 1, 0) * inner
        there = (places >= 0) & (places < total)
        wide = np.full((*array.shape[:axis], total, *array.shape[axis + 1 :]), fill)
        wide[(slice(None),) * axis + (places[there],)] = np.compress(there, array, axis)
        array = wide
    return array


def _broadcast(array: np.ndarray, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> np.ndarray:
    wide = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, array.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(array.reshape(wide), shape)


def _slice(array: np.ndarray, start_indices: Any, limit_indices: Any, strides: Any) -> np.ndarray:
    steps = strides or (1,) * array.ndim
    return array[tuple(slice(*each) for each in zip(start_indices, limit_indices, steps, strict=True))]


def _move(change: Callable[..., Any]) -> Callable[..., list[Value]]:
    """Returns the rule of a primitive that only moves elements; `change` is what it does with arrays of numbers."""

    def rule(trace: KernelTrace, equation: jex.JaxprEqn, *operands: Value, **params: Any) -> list[Value]:
        items: list[Element] = []
        numbers = []
        for operand in operands:
            numbers.append(numbers_of(operand) + len(items))
            items += items_of(operand)
        found = change(*numbers, **params)
        found = found if isinstance(found, list) else [found]
        results = zip(equation.outvars, found, strict=True)
        return [make(var.aval, [items[k] for k in number.flat]) for var, number in results]

    return rule


MOVES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda *arrays, dimension: np.concatenate(arrays, dimension),
    "copy": lambda array: array,
    "pad": _pad,
    "reshape": lambda array, new_sizes, **_: array.reshape(new_sizes),
    "reshard": lambda array, **_: array,
    "rev": lambda array, dimensions: np.flip(array, dimensions),
    "slice": _slice,
    "split": lambda array, sizes, axis: np.split(array, np.cumsum(sizes)[:-1], axis),
    "squeeze": lambda array, dimensions: np.squeeze(array, dimensions),
    "stack": lambda *arrays, axis: np.stack(arrays, axis),
    "transpose": lambda array, permutation: np.transpose(array, permutation),
    "unstack": lambda array, axis: list(np.moveaxis(array, axis, 0)),
}


# ---- indexing -------------------------------------------------------------------------------------------------------


def _index(trace: KernelTrace, value: Element) -> Element:
    """Returns an index as i32."""
    return trace.apply(lax.convert_element_type_p, value, new_dtype=np.dtype(np.int32), weak_type=False, sharding=None)


def _is(trace: KernelTrace, index: Element, place: int) -> Element:
    return trace.apply(lax.eq_p, index, np.int32(place))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _at(
    trace: KernelTrace, items: list[Element], table: Any, starts: Sequence[tuple[Element, int, int]], offset: int
) -> Element:
    """The element number offset + sum of start * stride: a load from the table, or a chain of choices.

    Args:
      starts: an index, its stride, and its greatest value, to which it is clipped, each.
    """
    moving = []
    for index, stride, last in starts:
        index = trace.clipped(index, last)
        if is_known(index):
            offset += int(index) * stride
        else:
            moving.append((index, stride, last))
    if not moving:
        return items[offset]
    if table is not None:
        place: Element = np.int32(offset)
        for index, stride, _ in moving:
            place = trace.apply(lax.add_p, place, trace.apply(lax.mul_p, index, np.int32(stride)))
        return trace.once(("load", id(table), id(place)), (place,), lambda: trace.memory.load(table, place))
    choices = math.prod(last + 1 for _, _, last in moving)
    if choices > MOST:
        raise NotImplementedError(f"an index of a lane chooses from {choices} elements")

    def choose(offset: int, moving: list[tuple[Element, int, int]]) -> Element:
        if not moving:
            return items[offset]
        (index, stride, last), *rest = moving
        found = choose(offset, rest)
        for place in range(1, last + 1):
            found = trace.select(_is(trace, index, place), choose(offset + place * stride, rest), found)
        return found

    return choose(offset, moving)


def _gather(trace, equation, operand, indices, *, dimension_numbers, slice_sizes, mode, fill_value, **_):
    d, out = dimension_numbers, equation.outvars[0].aval
    batch = [axis for axis in range(len(out.shape)) if axis not in d.offset_dims]
    kept = [a for a in range(len(operand.shape)) if a not in (*d.collapsed_slice_dims, *d.operand_batching_dims)]
    strides, items, rows = _strides(operand.shape), items_of(operand), numbers_of(indices)
    indices = [_index(trace, item) for item in items_of(indices)]
    lasts = [operand.shape[axis] - slice_sizes[axis] for axis in d.start_index_map]
    fixed = [*zip(d.offset_dims, kept, strict=True)]
    fixed += [(batch[b], a) for a, b in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True)]
    table, found = trace.tables.get(id(operand)), []
    for place in np.ndindex(*out.shape):
        start = [indices[k] for k in rows[tuple(place[axis] for axis in batch)]]
        offset = sum(place[axis] * strides[a] for axis, a in fixed)
        steps = [strides[a] for a in d.start_index_map]
        item = _at(trace, items, table, list(zip(start, steps, lasts, strict=True)), offset)
        if mode == lax.GatherScatterMode.FILL_OR_DROP:
            bounds = [(lax.ge_p, index, 0) for index in start]
            bounds += [(lax.le_p, index, last) for index, last in zip(start, lasts, strict=True)]
            inside = trace.all_of(trace.apply(compare, index, np.int32(end)) for compare, index, end in bounds)
            item = trace.select(inside, item, _fill(out.dtype) if fill_value is None else out.dtype.type(fill_value))
        found.append(item)
    return make(out, found)


def _fill(dtype: np.dtype) -> np.generic:
    """Returns the value that `lax.gather` gives beyond the bounds."""
    if np.issubdtype(dtype, np.inexact):
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max)


def _dynamic_slice(trace, equation, operand, *starts, slice_sizes):
    out, strides, items = equation.outvars[0].aval, _strides(operand.shape), items_of(operand)
    indices = [_index(trace, items_of(start)[0]) for start in starts]
    lasts = [whole - part for whole, part in zip(operand.shape, slice_sizes, strict=True)]
    steps, table = list(zip(indices, strides, lasts, strict=True)), trace.tables.get(id(operand))
    offsets = [sum(p * s for p, s in zip(place, strides, strict=True)) for place in np.ndindex(*out.shape)]
    return make(out, [_at(trace, items, table, steps, offset) for offset in offsets])


def _dynamic_update_slice(trace, equation, operand, update, *starts):
    lasts = [whole - part for whole, part in zip(operand.shape, update.shape, strict=True)]
    indices = [trace.clipped(_index(trace, items_of(s)[0]), last) for s, last in zip(starts, lasts, strict=True)]
    items, numbers, new = items_of(operand), numbers_of(operand), items_of(update)
    for start in np.ndindex(*(last + 1 for last in lasts)):
        here = trace.all_of(_is(trace, index, place) for index, place in zip(indices, start, strict=True))
        there = numbers[tuple(slice(s, s + size) for s, size in zip(start, update.shape, strict=True))]
        for number, item in zip(there.flat, new, strict=True):
            items[number] = trace.select(here, item, items[number])
    return make(equation.outvars[0].aval, items)


def _scatter(combine: Any) -> Callable[..., Value]:
    """Returns the rule of a scatter; `combine`: the primitive of the old and the new element, None: the new one."""

    def rule(trace, equation, operand, indices, updates, *, dimension_numbers, mode, **_):
        d, shape = dimension_numbers, operand.shape
        if d.operand_batching_dims:
            raise NotImplementedError("a kernel has no scatter of batches")
        batch = [axis for axis in range(len(updates.shape)) if axis not in d.update_window_dims]
        kept = [axis for axis in range(len(shape)) if axis not in d.inserted_window_dims]
        size = {a: updates.shape[axis] for axis, a in zip(d.update_window_dims, kept, strict=True)}
        places = [range(shape[a] - size.get(a, 1) + 1) for a in d.scatter_dims_to_operand_dims]
        items, strides, rows = items_of(operand), _strides(shape), numbers_of(indices)
        indices = [_index(trace, item) for item in items_of(indices)]
        for item, place in zip(items_of(updates), np.ndindex(*updates.shape), strict=True):
            start = [indices[k] for k in rows[tuple(place[axis] for axis in batch)]]
            if mode == lax.GatherScatterMode.CLIP:
                start = [trace.clipped(index, room[-1]) for index, room in zip(start, places, strict=True)]
            offset = sum(place[axis] * strides[a] for axis, a in zip(d.update_window_dims, kept, strict=True))
            for chosen in itertools.product(*places):
                here = trace.all_of(_is(trace, index, at) for index, at in zip(start, chosen, strict=True))
                moved = zip(chosen, d.scatter_dims_to_operand_dims, strict=True)
                number = offset + sum(at * strides[a] for at, a in moved)
                new = item if combine is None else trace.apply(combine, items[number], item)
                items[number] = trace.select(here, new, items[number])
        return make(equation.outvars[0].aval, items)

    return rule


def _bitcast(trace, equation, operand, **params):
    out = equation.outvars[0].aval
    if operand.shape != out.shape:
        raise NotImplementedError("a kernel has no bitcast between widths")
    return make(out, [trace.apply(lax.bitcast_convert_type_p, item, **params) for item in items_of(operand)])


# ---- along axes -----------------------------------------------------------------------------------------------------


def _columns(operand: Value, axes: Sequence[int]) -> np.ndarray:
    """Returns the numbers of the elements along some axes, i64[others, along]."""
    along = math.prod(operand.shape[axis] for axis in axes)
    return np.moveaxis(numbers_of(operand), axes, range(len(axes))).reshape(along, -1).T


def _reduce(primitive: Any) -> Callable[..., Value]:
    def rule(trace, equation, operand, *, axes, **_):
        items, join = items_of(operand), functools.partial(trace.apply, primitive)
        found = [functools.reduce(join, [items[k] for k in column]) for column in _columns(operand, axes)]
        return make(equation.outvars[0].aval, found)

    return rule


def _reduce_by(trace, equation, operand, start, *, jaxpr, dimensions, consts=(), **_):
    closed, items = jex.ClosedJaxpr(jaxpr, consts), items_of(operand)
    one = lambda item: make(jax.ShapeDtypeStruct((), equation.outvars[0].aval.dtype), [item])  # noqa: E731
    join = lambda total, k: trace.call(closed, [total, one(items[k])])[0]  # noqa: E731
    found = [functools.reduce(join, column, start) for column in _columns(operand, dimensions)]
    return make(equation.outvars[0].aval, flat(found))


def _cumulative(primitive: Any) -> Callable[..., Value]:
    def rule(trace, equation, operand, *, axis, reverse):
        items = items_of(operand)
        for column in _columns(operand, [axis]):
            for before, now in itertools.pairwise(column[::-1] if reverse else column):
                items[now] = trace.apply(primitive, items[before], items[now])
        return make(equation.outvars[0].aval, items)

    return rule


def _best(better: Any) -> Callable[..., Value]:
    """Returns the rule of argmin or argmax: the first of the best."""

    def rule(trace, equation, operand, *, axes, index_dtype, **_):
        number, items, found = np.dtype(index_dtype).type, items_of(operand), []
        for column in _columns(operand, axes):
            best, where = items[column[0]], number(0)
            for place, k in enumerate(column[1:], 1):
                is_better = trace.apply(better, items[k], best)
                best = trace.select(is_better, items[k], best)
                where = trace.select(is_better, number(place), where)
            found.append(where)
        return make(equation.outvars[0].aval, found)

    return rule


# ---- loops and branches ---------------------------------------------------------------------------------------------


def _vectors(trace: KernelTrace, values: Sequence[Value]) -> list[jax.Array]:
    return [trace.vector(item) for item in flat(values)]


def _while(trace, equation, *operands, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    """Goes on while some lane of the block does; the others keep what they have."""
    of_cond, of_body, start = parts(operands, [cond_nconsts, body_nconsts])
    avals = [var.aval for var in equation.outvars]

    def goes_on(values):
        return _vectors(trace, trace.call(cond_jaxpr, [*of_cond, *values]))[0]

    def advance(carry):
        active, items = carry
        with trace.scope():
            new = _vectors(trace, trace.call(body_jaxpr, [*of_body, *shaped(items, avals)]))
            items = [trace.select(active, after, before) for after, before in zip(new, items, strict=True)]
            return active & goes_on(shaped(items, avals)), items

    carry = goes_on(start), _vectors(trace, start)
    return shaped(lax.while_loop(lambda carry: trace.any(carry[0]), advance, carry)[1], avals)


def _scan(trace, equation, *operands, jaxpr, length, reverse, **_):
    """A loop if it neither reads nor writes rows, else unrolled. Rows have an axis more outside than in the body."""
    avals = [var.aval for var in equation.outvars]
    num_carry = sum(outer.ndim == inner.ndim for outer, inner in zip(avals, jaxpr.out_avals, strict=True))
    num_rows = sum(var.aval.ndim > inner.ndim for var, inner in zip(equation.invars, jaxpr.in_avals, strict=True))
    consts, carry, rows = parts(operands, [len(operands) - num_carry - num_rows, num_carry])
    if not num_rows and len(avals) == num_carry:

        def advance(_, items):
            with trace.scope():
                return _vectors(trace, trace.call(jaxpr, [*consts, *shaped(items, avals)]))

        return shaped(lax.fori_loop(0, length, advance, _vectors(trace, carry)), avals)
    found: list[Any] = [None] * length
    for turn in reversed(range(length)) if reverse else range(length):
        forms = [jax.ShapeDtypeStruct(row.aval.shape[1:], row.aval.dtype) for row in equation.invars[-len(rows) :]]
        row = [make(f, items_of(r)[turn * f.size : (turn + 1) * f.size]) for r, f in zip(rows, forms, strict=False)]
        results = trace.call(jaxpr, [*consts, *carry, *row])
        carry, found[turn] = results[:num_carry], results[num_carry:]
    columns = zip(*found, strict=True)
    stacked = [[item for value in column for item in items_of(value)] for column in columns]
    return [*carry, *(make(aval, items) for aval, items in zip(avals[num_carry:], stacked, strict=True))]


def _expanded(trace, equation, *operands, _prim):
    """Calls the jaxpr that a primitive of jax 0.12 (`searchsorted`) stands for."""

    def expand(*leaves):
        return jax.tree.leaves(_prim.expand(*jax.tree.unflatten(_prim.in_tree, leaves)))

    forms = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in equation.invars]
    return trace.call(jax.make_jaxpr(expand)(*forms), list(operands))


def _cond(trace, equation, index, *operands, branches, **_):
    """Runs the first branch in all lanes, then each other one if some lane of the block takes it."""
    (index,) = items_of(index)
    if is_known(index):
        return trace.call(branches[int(np.clip(index, 0, len(branches) - 1))], operands)
    found = _vectors(trace, trace.call(branches[0], operands))
    for number, branch in enumerate(branches[1:], 1):
        compare = lax.ge_p if number == len(branches) - 1 else lax.eq_p
        takes = index if index.dtype == bool else trace.apply(compare, index, np.int32(number))

        def work(branch=branch):
            with trace.scope():
                return _vectors(trace, trace.call(branch, operands))

        new = lax.cond(trace.any(takes), work, lambda found=found: found)
        found = [trace.select(takes, after, before) for after, before in zip(new, found, strict=True)]
    return shaped(found, [var.aval for var in equation.outvars])


# ---- random keys ----------------------------------------------------------------------------------------------------


def _of_keys(function: Callable[..., Any]) -> Callable[..., Value]:
    """Returns the rule of a primitive of random keys; `function`: (implementation, parameters, words, ...) -> words."""

    def rule(trace, equation, keys, *operands, **params):
        implementation, out = equation.invars[0].aval.dtype._impl, equation.outvars[0].aval
        words = jax.ShapeDtypeStruct((2,), np.uint32)
        forms = [jax.ShapeDtypeStruct((), var.aval.dtype) for var in equation.invars[1:]]
        closed = jax.make_jaxpr(functools.partial(function, implementation, params))(words, *forms)
        found = []
        for number, key in enumerate(items_of(keys)):
            rest = [make(form, [items_of(each)[number]]) for form, each in zip(forms, operands, strict=True)]
            found += items_of(trace.call(closed, [make(words, key), *rest])[0])
        return shaped(found, [out])[0]

    return rule


def _wrap(trace, equation, words, **_):
    return shaped(items_of(words), [equation.outvars[0].aval])[0]


def _unwrap(trace, equation, keys):
    return make(equation.outvars[0].aval, flat([keys]))


RULES: dict[str, Callable[..., Any]] = {
    **{name: _move(change) for name, change in MOVES.items()},
    "bitcast_convert_type": _bitcast,
    "while": _while,
    "scan": _scan,
    "call_hi_primitive": _expanded,
    "cond": _cond,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "scatter": _scatter(None),
    "scatter-add": _scatter(lax.add_p),
    "argmax": _best(lax.gt_p),
    "argmin": _best(lax.lt_p),
    "cumsum": _cumulative(lax.add_p),
    "cummax": _cumulative(lax.max_p),
    "cummin": _cumulative(lax.min_p),
    "reduce": _reduce_by,
    "reduce_sum": _reduce(lax.add_p),
    "reduce_max": _reduce(lax.max_p),
    "reduce_min": _reduce(lax.min_p),
    "reduce_and": _reduce(lax.and_p),
    "reduce_or": _reduce(lax.or_p),
    "reduce_prod": _reduce(lax.mul_p),
    "random_bits": _of_keys(lambda impl, p, words: impl.random_bits(words, p["bit_width"], p["shape"])),
    "random_split": _of_keys(lambda impl, p, words: impl.split(words, p["shape"])),
    "random_fold_in": _of_keys(lambda impl, p, words, data: impl.fold_in(words, data)),
    "random_wrap": _wrap,
    "random_unwrap": _unwrap,
}
