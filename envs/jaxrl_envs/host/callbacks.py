"""Calls functions on the host from compiled programs, one call for a whole batch."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from jaxrl_envs.shared.errors import UserError

Outputs = tuple[np.ndarray, ...]


def call_host(function: Callable[..., None], forms: Sequence[jax.ShapeDtypeStruct], *arguments: jax.Array) -> Any:
    """Arrays of the shapes `forms`, written by ``function(outputs, *arguments)`` on the host.

    The function gets NumPy arrays with a leading axis of games, of length 1 outside of a `vmap`. The first argument of
    one game must be a vector.

    On the CPU the function works on the buffers of the program itself. The arguments of `jax.pure_callback` are jax
    arrays instead, and waiting for them inside a callback deadlocks as soon as every thread of the CPU client is
    inside one (two devices on two cores, arrays of 100 kB and more): so it is used on accelerators only.
    """
    forms = tuple(forms)

    def in_place(*arguments: jax.Array) -> Any:
        return buffer_callback(_InPlace(function, forms), forms, vmap_method="broadcast_all")(*arguments)

    def returned(*arguments: jax.Array) -> Any:
        return jax.pure_callback(_Returned(function, forms), forms, *arguments, vmap_method="broadcast_all")

    return jax.lax.platform_dependent(*arguments, cpu=in_place, default=returned)


def callback_failure(error: Exception, id: str) -> UserError | None:
    """Returns one sentence about an engine that failed inside a compiled program (`HostEnv`); None for any other error.

    The error is recognised by its text alone, and games have no numbers there.
    """
    found = re.search(r"EngineError: game -?\d+: (.*)", str(error))
    return UserError(f"the engine of {id} failed: {found[1]}") if found else None


@dataclasses.dataclass(frozen=True)
class _Callback:
    """A host function for batches of any rank; hashable by what it does, so that a program is compiled once."""

    function: Callable[..., None]
    forms: tuple[jax.ShapeDtypeStruct, ...]

    def run(self, outputs: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> None:
        lead = outputs[0].ndim - len(self.forms[0].shape)
        count = math.prod(outputs[0].shape[:lead])

        def flat(array: np.ndarray) -> np.ndarray:
            assert array.flags.c_contiguous  # else this would be a copy, and the outputs would be lost
            return array.reshape(count, *array.shape[lead:])

        self.function(tuple(map(flat, outputs)), *map(flat, arguments))


class _InPlace(_Callback):
    def __call__(self, context: Any, outputs: Any, *arguments: Any) -> None:
        del context
        self.run([np.asarray(output) for output in outputs], [np.asarray(argument) for argument in arguments])


class _Returned(_Callback):
    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        arrays = [np.asarray(argument) for argument in arguments]
        lead = arrays[0].shape[:-1]
        outputs = tuple(np.empty((*lead, *form.shape), form.dtype) for form in self.forms)
        self.run(outputs, arrays)
        return outputs
