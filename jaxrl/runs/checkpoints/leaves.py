"""Trees of arrays as flat host arrays, leaf path -> array, and back.

A leaf that is sharded over processes is stored as this process's part: its record has the whole shape, and as `axis`
the axis that is divided.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import unflatten_dict

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.state import bytes_of
from jaxrl_envs.shared.errors import UserError

PyTree = Any
Arrays = dict[str, np.ndarray]
Leaves = dict[str, dict[str, Any]]  # leaf path -> its record

LEARNER = "learner."
PARAMS = f"{LEARNER}params."  # where a training state has its parameters
HYPER = f"{LEARNER}hyper."  # its hyper-parameters
TARGET_PARAMS = f"{LEARNER}target_params."  # and target parameters, each under its name
BELIEF = f"{LEARNER}belief."  # of belief learning
_HYPER_BYTES = 1 << 16  # of a hyper-parameter of all seeds, at most


def pack(tree: PyTree) -> tuple[Arrays, Leaves]:
    """Flattens a pytree of arrays to (arrays by leaf path, record by leaf path: shape, dtype, crc32, key impl)."""
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [_name(path) for path, _ in flat]
    if len(set(names)) != len(names):
        raise ValueError("two leaves of the state share one path")
    impls = [_key_impl(leaf) for _, leaf in flat]
    data = [jax.random.key_data(leaf) if impl else leaf for (_, leaf), impl in zip(flat, impls, strict=True)]
    # What is fetched may be a view of the device buffer on CPU, and that buffer is donated next: copy.
    fetched = jax.device_get([distributed.local_part(leaf) for leaf in data])
    arrays = {name: np.array(array, copy=True) for name, array in zip(names, fetched, strict=True)}
    each = zip(names, data, impls, strict=True)
    return arrays, {name: _record(arrays[name], leaf, impl) for name, leaf, impl in each}


def unpack(arrays: Arrays, leaves: Leaves, template: PyTree) -> PyTree:
    """Puts stored arrays into the structure, devices and key types of `template`.

    Args:
      arrays, leaves: results of `pack`.
      template: a tree of arrays, or of their shapes (`jax.ShapeDtypeStruct` with shardings).

    Raises:
      UserError: as `check_fits`; nothing is ever silently dropped or kept random.
    """
    check_fits(leaves, template)
    flat, treedef = jax.tree_util.tree_flatten_with_path(template)
    wanted = {_name(path): leaf for path, leaf in flat}
    arrays = arrays | {n: np.zeros(leaf.shape, leaf.dtype) for n, leaf in wanted.items() if n not in arrays}
    return jax.tree_util.tree_unflatten(treedef, [_place(arrays[name], leaf) for name, leaf in wanted.items()])


def check_fits(leaves: Leaves, template: PyTree) -> None:
    """Checks the records of stored arrays, which need not have been read, against `template`. Raises UserError if
    structure, shape, dtype or key type differ; but of hyper-parameters, which the configuration gives, an older
    checkpoint may have others."""
    wanted = {_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(template)[0]}
    for name in sorted(set(wanted) ^ set(leaves)):
        if name.startswith(HYPER) and (name in wanted or bytes_of(leaves[name]) <= _HYPER_BYTES):
            continue
        where = "in the checkpoint but not in this training" if name in leaves else "not in the checkpoint"
        raise UserError(f"the checkpoint does not fit: {name} is {where}; use the config it was trained with.")
    for name, leaf in wanted.items():
        have, want = _signature(leaves.get(name) or _describe(leaf)), _signature(_describe(leaf))
        if have != want:
            differs = f"{name} is {have} there but {want} here"
            raise UserError(f"the checkpoint does not fit: {differs}; use the config it was trained with.")


def params_of(arrays: Arrays, *, average: bool = False) -> PyTree:
    """Returns the parameters of a training state as a nested dict, or their average over time if wanted and kept."""
    averages = f"{TARGET_PARAMS}average."
    return part_of(arrays, averages if average and any(name.startswith(averages) for name in arrays) else PARAMS)


def part_of(arrays: Arrays, place: str) -> dict[str, Any]:
    """Returns the arrays whose names begin with `place` as a nested dict."""
    here = (name for name in arrays if name.startswith(place))
    return unflatten_dict({tuple(name.removeprefix(place).split(".")): arrays[name] for name in here})


def params_hash(params: PyTree) -> str:
    """Returns the `params_hash` of a checkpoint, for parameters in memory."""
    return hash_arrays(pack({"params": params})[0])


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _key_impl(leaf: Any) -> Any:
    """Returns the implementation of a typed PRNG key (an array or its shape), None for anything else."""
    if not jax.dtypes.issubdtype(getattr(leaf, "dtype", np.int32), jax.dtypes.prng_key):
        return None
    return jax.random.key_impl(leaf if isinstance(leaf, jax.Array) else jnp.empty((), leaf.dtype))


def _record(array: np.ndarray, leaf: Any, impl: Any) -> dict[str, Any]:
    axis = distributed.sharded_axis(leaf)
    record: dict[str, Any] = {"shape": list(np.shape(leaf)), "dtype": str(array.dtype)}
    record |= {"crc32": checksum(array)} if axis is None else {"axis": axis}
    return record | ({"key": str(impl)} if impl else {})


def _describe(leaf: Any) -> dict[str, Any]:
    impl = _key_impl(leaf)
    data = jax.eval_shape(jax.random.key_data, leaf) if impl else leaf
    record = {"shape": list(np.shape(data)), "dtype": str(jnp.result_type(data))}
    return record | {"key": str(impl)} if impl else record


def _signature(record: dict[str, Any]) -> str:
    key = f" key:{record['key']}" if "key" in record else ""
    return f"{record['dtype']}{record['shape']}{key}"


def _place(array: np.ndarray, like: Any) -> Any:
    impl, sharding = _key_impl(like), getattr(like, "sharding", None)
    if impl:
        return distributed.place(jax.random.wrap_key_data(jnp.asarray(array), impl=impl), sharding)
    return array if sharding is None else distributed.place(array, sharding)


def checksum(array: np.ndarray) -> int:
    """Returns CRC-32 of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0


def hash_arrays(arrays: Arrays) -> str:
    """Returns a short hash of named arrays, for logs: equal hashes mean equal parameters."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()[:16]
