"""Whole-state checkpoints: asynchronous, atomic, verified leaf by leaf.

A checkpoint is a directory `<step>/` written by orbax under a temporary name and renamed when complete, so that a
killed process leaves the previous one usable. It holds the arrays of the training state and a JSON record: the game
(id, version, options), a digest of the config, a hash of the parameters, and shape, dtype and checksum of every leaf.
The checksums are ours, end to end: a flipped byte on disk is noticed even where the array format would not notice.

Leaves are stored flat by their path in the tree (`params.params.Dense_0.kernel`), so nothing depends on the classes of
optimizer or state; typed PRNG keys are stored as their data plus the name of their implementation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import logging
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from jaxrl.envs.errors import UserError

PyTree = Any
Arrays = dict[str, np.ndarray]

FORMAT = 1
LEARNER = "learner."
PARAMS = f"{LEARNER}params."  # where a training state has its parameters
_STATE, _META = "state", "meta"
_log = logging.getLogger("jaxrl")


class Damaged(Exception):
    """A checkpoint cannot be read back as it was written."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A training state copied to host memory, independent of the device buffers it came from.

    Attributes:
      step: the update counter it was taken at.
      arrays: leaf path -> array.
      meta: the JSON record that lies beside the arrays; see `take`.
    """

    step: int
    arrays: Arrays
    meta: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Stamp:
    """What a checkpoint belongs to. Game id, version and options must match to load it; the digest is informative."""

    env_id: str
    env_version: str
    env_options: dict[str, Any]
    config_digest: str = ""


def take(step: int, state: PyTree, stamp: Stamp, host: dict[str, Any] | None = None) -> Snapshot:
    """Copies `state` to the host; safe to call before the state is donated to the next update.

    Args:
      step: the update counter.
      state: the training state, whose `learner.params` are hashed for the record.
      stamp: the game and config it belongs to.
      host: JSON-able counters kept by the host loop (best score, wall-clock time so far).
    """
    arrays, leaves = pack(state)
    params = {name.removeprefix(LEARNER): array for name, array in arrays.items() if name.startswith(PARAMS)}
    meta = {
        "format": FORMAT,
        "step": step,
        "game": {"id": stamp.env_id, "version": stamp.env_version, "options": stamp.env_options},
        "config_digest": stamp.config_digest,
        "params_hash": hash_arrays(params),
        "leaves": leaves,
        "host": host or {},
    }
    return Snapshot(step, arrays, meta)


# ---- trees to flat host arrays and back ---------------------------------------------------------------------------


def pack(tree: PyTree) -> tuple[Arrays, dict[str, dict[str, Any]]]:
    """Flattens a pytree of arrays to (arrays by leaf path, record by leaf path: shape, dtype, crc32, key impl)."""
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [_name(path) for path, _ in flat]
    if len(set(names)) != len(names):
        raise ValueError("two leaves of the state share one path")
    impls = [_key_impl(leaf) for _, leaf in flat]
    data = [jax.random.key_data(leaf) if impl else leaf for (_, leaf), impl in zip(flat, impls, strict=True)]
    # device_get may hand out a view of the device buffer on CPU, and that buffer is donated next: copy.
    arrays = {name: np.array(array, copy=True) for name, array in zip(names, jax.device_get(data), strict=True)}
    leaves = {name: _record(arrays[name], impl) for name, impl in zip(names, impls, strict=True)}
    return arrays, leaves


def unpack(arrays: Arrays, leaves: dict[str, dict[str, Any]], template: PyTree) -> PyTree:
    """Puts stored arrays into the structure, devices and key types of `template`.

    Args:
      arrays, leaves: from `pack`.
      template: a tree of arrays, or of their shapes (`jax.ShapeDtypeStruct` with shardings).

    Raises:
      UserError: structure, shape, dtype or key type differ; nothing is ever silently dropped or kept random.
    """
    flat, treedef = jax.tree_util.tree_flatten_with_path(template)
    wanted = {_name(path): leaf for path, leaf in flat}
    for name in sorted(set(wanted) ^ set(leaves)):
        where = "in the checkpoint but not in this training" if name in leaves else "not in the checkpoint"
        raise UserError(f"the checkpoint does not fit: {name} is {where}; use the config it was trained with.")
    for name, leaf in wanted.items():
        have, want = _signature(leaves[name]), _signature(_describe(leaf))
        if have != want:
            raise UserError(
                f"the checkpoint does not fit: {name} is {have} there but {want} here; "
                "use the config it was trained with."
            )
    return jax.tree_util.tree_unflatten(treedef, [_place(arrays[name], leaf) for name, leaf in wanted.items()])


def unpack_parts(snapshot: Snapshot, template: dict[str, PyTree]) -> dict[str, PyTree]:
    """`unpack` of some parts of a training state, {"learner": ..., "update": ...}, whatever else was stored.

    Raises:
      UserError: as `unpack`.
    """
    wanted = {_name(path).split(".")[0] for path, _ in jax.tree_util.tree_flatten_with_path(template)[0]}
    names = [name for name in snapshot.arrays if name.split(".")[0] in wanted]
    leaves = snapshot.meta["leaves"]
    return unpack({name: snapshot.arrays[name] for name in names}, {name: leaves[name] for name in names}, template)


def params_of(arrays: Arrays) -> PyTree:
    """The parameters in a training state as a nested dict, for readers that do not need the rest of it."""
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        if not name.startswith(PARAMS):
            continue
        *parts, leaf = name.removeprefix(PARAMS).split(".")
        node = tree
        for part in parts:
            node = node.setdefault(part, {})
        node[leaf] = array
    return tree


def hash_arrays(arrays: Arrays) -> str:
    """A short hash of named arrays, for logs: equal hashes mean equal parameters."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()[:16]


def params_hash(params: PyTree) -> str:
    """The `params_hash` of a checkpoint, for parameters in memory."""
    return hash_arrays(pack({"params": params})[0])


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _key_impl(leaf: Any) -> Any:
    """The implementation of a typed PRNG key (an array or its shape), None for anything else."""
    if not jax.dtypes.issubdtype(getattr(leaf, "dtype", np.int32), jax.dtypes.prng_key):
        return None
    return jax.random.key_impl(leaf if isinstance(leaf, jax.Array) else jnp.empty((), leaf.dtype))


def _record(array: np.ndarray, impl: Any) -> dict[str, Any]:
    record = {"shape": list(array.shape), "dtype": str(array.dtype), "crc32": _checksum(array)}
    return record | {"key": str(impl)} if impl else record


def _describe(leaf: Any) -> dict[str, Any]:
    impl = _key_impl(leaf)
    data = jax.eval_shape(jax.random.key_data, leaf) if impl else leaf
    record = {"shape": list(np.shape(data)), "dtype": str(jnp.result_type(data))}
    return record | {"key": str(impl)} if impl else record


def _signature(record: dict[str, Any]) -> str:
    key = f" key:{record['key']}" if "key" in record else ""
    return f"{record['dtype']}{record['shape']}{key}"


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0


def _place(array: np.ndarray, like: Any) -> Any:
    impl, sharding = _key_impl(like), getattr(like, "sharding", None)
    if impl:
        return jax.device_put(jax.random.wrap_key_data(jnp.asarray(array), impl=impl), sharding)
    return array if sharding is None else jax.device_put(array, sharding)


# ---- the directory of checkpoints ---------------------------------------------------------------------------------


class CheckpointStore:
    """The checkpoints of one run: `<directory>/<step>/`, at most `keep` of them.

    One process writes; any number may read meanwhile. Writing is asynchronous: `save` returns once the previous write
    is complete and the new one is under way.
    """

    def __init__(self, directory: Path, *, keep: int = 3, keep_every: int = 0):
        """Touches nothing yet.

        Args:
          directory: created on the first save.
          keep: how many of the newest to keep.
          keep_every: keep those of steps that are a multiple of this besides; 0 = none.
        """
        self.directory = Path(directory).absolute()
        self._keep, self._keep_every = keep, keep_every
        self._manager: ocp.CheckpointManager | None = None
        # orbax prints the tracebacks of its background threads; every error reaches our caller anyway.
        logging.getLogger("absl").setLevel(logging.CRITICAL)

    # ---- writing ----

    def save(self, snapshot: Snapshot) -> None:
        """Starts writing `snapshot`.

        Raises:
          UserError: the disk is full, now or in the write that was under way; earlier checkpoints are intact.
        """
        arrays = {name: array for name, array in snapshot.arrays.items() if array.size}  # orbax refuses empty arrays
        args = ocp.args.Composite(**{_STATE: ocp.args.PyTreeSave(arrays), _META: ocp.args.JsonSave(snapshot.meta)})
        with no_space_is_user_error(self.directory):
            self._writer().save(snapshot.step, args=args)

    def check(self) -> None:
        """Raises what the write under way has run into so far, without waiting for it."""
        if self._manager is not None:
            with no_space_is_user_error(self.directory):
                self._manager.check_for_errors()

    def wait(self) -> None:
        """Waits for the write under way. Raises UserError if the disk is full."""
        if self._manager is not None:
            with no_space_is_user_error(self.directory):
                self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits for the write under way and releases the directory."""
        manager, self._manager = self._manager, None
        if manager is not None:
            with no_space_is_user_error(self.directory):
                manager.close()

    def quarantine(self, step: int) -> Path:
        """Moves a damaged checkpoint out of the way, so that training can write that step again."""
        place = self.directory.parent / "damaged" / f"{self.directory.name}-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        (self.directory / str(step)).rename(place)
        return place

    def _writer(self) -> ocp.CheckpointManager:
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                max_to_keep=self._keep,
                keep_period=self._keep_every or None,
                enable_async_checkpointing=True,
                cleanup_tmp_directories=True,
            )
            self._manager = ocp.CheckpointManager(self.directory, options=options, item_names=(_STATE, _META))
        return self._manager

    # ---- reading ----

    def steps(self) -> list[int]:
        """The steps with a completely written checkpoint, oldest first."""
        if not self.directory.is_dir():
            return []
        return sorted(int(path.name) for path in self.directory.iterdir() if path.name.isdigit())

    def read(self, step: int) -> Snapshot:
        """One checkpoint, every leaf checked against its checksum. Raises Damaged."""
        place = self.directory / str(step)
        try:
            meta = json.loads((place / _META / "metadata").read_text())
            leaves = meta["leaves"]
            with ocp.PyTreeCheckpointer() as reader:
                stored = reader.restore(place / _STATE)
        except Exception as error:  # orbax and tensorstore raise many types for missing and unreadable files
            raise Damaged(f"{type(error).__name__} while reading it") from error
        arrays = {}
        for name, record in leaves.items():
            empty = 0 in record["shape"]
            array = np.zeros(record["shape"], np.dtype(record["dtype"])) if empty else stored.get(name)
            if array is None or _signature(_record(array, record.get("key"))) != _signature(record):
                raise Damaged(f"{name} is missing or has another shape")
            if not empty and _checksum(array) != record["crc32"]:
                raise Damaged(f"the checksum of {name} is wrong")
            arrays[name] = array
        return Snapshot(step, arrays, meta)

    def newest(self, *, quarantine: bool = False) -> Snapshot:
        """The newest checkpoint that is intact; warns about every damaged one it passes over.

        Args:
          quarantine: move damaged ones aside; only for the process that is going to write here.

        Raises:
          UserError: there is none.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self.read(step)
            except Damaged as error:
                older = any(other < step for other in steps)
                then = "falling back to the one before" if older else "and there is no older one"
                _log.warning("checkpoint %s is damaged (%s): %s.", self.directory / str(step), error, then)
                if quarantine:
                    self.quarantine(step)
        if steps:
            raise UserError(f"every checkpoint in {self.directory} is damaged: restore them from a backup.")
        raise UserError(f"there is no checkpoint in {self.directory}: the run stopped before its first one.")


def check_stamp(meta: dict[str, Any], stamp: Stamp) -> None:
    """Raises UserError unless a checkpoint's record belongs to the same game."""
    game = meta["game"]
    wanted = {"id": stamp.env_id, "version": stamp.env_version, "options": stamp.env_options}
    for field, want in wanted.items():
        have = game[field]
        if json.loads(json.dumps(want)) != have:
            raise UserError(
                f"the checkpoint is of another game: its {field} is {have!r}, this config has {want!r}; "
                "use the game that it was trained on."
            )


# ---- a full disk --------------------------------------------------------------------------------------------------


def is_no_space(error: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, says that the disk (or the quota) is full."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(error) or "Disk quota exceeded" in str(error):  # tensorstore's ValueError
            return True
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def no_space_is_user_error(place: Path) -> Iterator[None]:
    """Turns "no space left" from any depth into one sentence; other errors pass through untouched."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or not is_no_space(error):
            raise
        raise UserError(
            f"no space left on the disk of {place}: free some and continue with `jaxrl resume`; "
            "the previous checkpoint is intact."
        ) from error
