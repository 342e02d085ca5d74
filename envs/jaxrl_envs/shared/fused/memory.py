"""Loads and stores inside a kernel: of elements of a reference to a flat array, one per lane."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np


class Indexing:
    """As Pallas has them, for kernels that are interpreted."""

    def load(self, ref: Any, index: jax.Array, replaced: bool = False) -> jax.Array:
        return ref[index]

    def store(self, ref: Any, index: jax.Array, value: jax.Array) -> None:
        ref[index] = value


class TritonMemory:
    """As PTX, one element per thread.

    Triton's own loads and stores take part in its search for layouts (the pass Coalesce), which compares each with all
    other operations, in time that grows with the square of the kernel: minutes for a card game, days for car soccer.
    """

    def __init__(self, load: Any, store: Any):
        self._load, self._store = load, store

    def load(self, ref: Any, index: jax.Array, replaced: bool = False) -> jax.Array:
        """`replaced`: whether the kernel may store to that place later, so that the load must come before that."""
        return self._load.bind(ref, index, replaced=replaced)

    def store(self, ref: Any, index: jax.Array, value: jax.Array) -> None:
        """Stores `value`, unless the index is negative."""
        self._store.bind(ref, index, value)


@functools.cache
def triton_memory() -> TritonMemory:
    """Returns the one `TritonMemory`; its primitives are made at the first call, because Pallas is slow to import."""
    from jax._src.lib.mlir import ir  # Pallas has no public way to an address
    from jax._src.lib.triton import dialect
    from jax._src.pallas.triton import lowering
    from jax._src.state.types import WriteEffect
    from jax.extend.core import Primitive

    load, store = Primitive("load_element"), Primitive("store_element")
    store.multiple_results = True
    load.def_abstract_eval(lambda ref, index, replaced: jax.core.ShapedArray(index.shape, ref.dtype))
    store.def_effectful_abstract_eval(lambda ref, index, value: ([], {WriteEffect(0)}))

    def tensor(shape, element):
        return ir.RankedTensorType.get(shape, element)

    def run(aval, ref, rest, body, constraints, pure):
        """Returns one instruction per element: result $0, address $1, index $2; the effective address is in `a`."""
        bits = ir.IntegerType.get_signless(64)
        address = dialect.splat(tensor(aval.shape, bits), dialect.ptr_to_int(bits, ref))
        form = tensor(aval.shape, ir.IntegerType.get_signless(32))
        asm = f"{{ .reg .b64 a; .reg .b16 w; .reg .pred p; mad.wide.s32 a, $2, {aval.dtype.itemsize}, $1; {body} }}"
        operands = [address, *rest]
        found = dialect.elementwise_inline_asm(
            [form], asm, constraints=constraints, pure=pure, packed_element=1, args=operands
        )
        return found if isinstance(found, ir.Value) else found.results[0]  # type: ignore[union-attr]

    @lowering.register_lowering(load)
    def _(context, ref, index, replaced):
        (aval,), width = context.avals_out, context.avals_out[0].dtype.itemsize
        narrow = f"ld.global.u{8 * width} w, [a]; cvt.u32.u16 $0, w;"
        word = run(aval, ref, [index], "ld.global.b32 $0, [a];" if width == 4 else narrow, "=r,l,r", not replaced)
        if aval.dtype == np.float32:
            return dialect.bitcast(tensor(aval.shape, ir.F32Type.get()), word)
        return lowering._cast(word, np.int32, aval.dtype)

    @lowering.register_lowering(store)
    def _(context, ref, index, value):
        aval = context.avals_in[2]
        width, form = aval.dtype.itemsize, tensor(aval.shape, ir.IntegerType.get_signless(32))
        is_float = aval.dtype == np.float32
        word = dialect.bitcast(form, value) if is_float else lowering._cast(value, aval.dtype, np.int32)
        narrow = f"cvt.u16.u32 w, $3; @p st.global.u{8 * width} [a], w;"
        body = "@p st.global.b32 [a], $3;" if width == 4 else narrow
        run(aval, ref, [index, word], f"setp.ge.s32 p, $2, 0; {body} mov.b32 $0, 0;", "=r,l,r,r", False)
        return []

    return TritonMemory(load, store)
