"""Whole-state checkpoints: asynchronous, atomic, verified byte by byte (`jaxrl/runs/checkpoint_files.py`).

A checkpoint is a directory `<step>/` that is written under another name and renamed when complete, so that a killed
process leaves the previous one usable; older ones go when it has been read back.

Leaves are stored flat by their path in the tree (`params.params.Dense_0.kernel`), so nothing depends on the classes of
optimizer or state; typed PRNG keys are stored as their data plus the name of their implementation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import unflatten_dict

from jaxrl.envs.errors import UserError
from jaxrl.runs.checkpoint_files import (
    Arrays,
    Damaged,
    checksum,
    hash_arrays,
    is_no_space,
    read_arrays,
    read_record,
    write_files,
)
from jaxrl.runs.command import next_command

PyTree = Any

LEARNER = "learner."
PARAMS = f"{LEARNER}params."  # where a training state has its parameters
HYPER = f"{LEARNER}hyper."  # its hyper-parameters
COPIES = f"{LEARNER}copies."  # and others of the same network, each under its name
BELIEF = f"{LEARNER}belief."  # a learnt belief
_PART = ".part"  # ends the name of what is being written or removed
_log = logging.getLogger("jaxrl")


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
    """What a checkpoint belongs to. All but the digest, which is informative, must match to load it."""

    env_id: str
    env_version: str
    env_options: dict[str, Any]
    config_digest: str = ""
    seeds: int = 1


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
      UserError: structure, shape, dtype or key type differ; nothing is ever silently dropped or kept random, but of
        hyper-parameters, which the configuration gives, an older checkpoint may have others.
    """
    flat, treedef = jax.tree_util.tree_flatten_with_path(template)
    wanted = {_name(path): leaf for path, leaf in flat}
    for name in sorted(name for name in set(wanted) ^ set(leaves) if not name.startswith(HYPER)):
        where = "in the checkpoint but not in this training" if name in leaves else "not in the checkpoint"
        raise UserError(f"the checkpoint does not fit: {name} is {where}; use the config it was trained with.")
    for name, leaf in wanted.items():
        have, want = _signature(leaves.get(name) or _describe(leaf)), _signature(_describe(leaf))
        if have != want:
            differs = f"{name} is {have} there but {want} here"
            raise UserError(f"the checkpoint does not fit: {differs}; use the config it was trained with.")
    arrays = arrays | {n: np.zeros(leaf.shape, leaf.dtype) for n, leaf in wanted.items() if n not in arrays}
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


def params_of(arrays: Arrays, *, average: bool = False) -> PyTree:
    """The parameters in a training state as a nested dict, or their average over time if that is wanted and kept."""
    averages = f"{COPIES}average."
    return part_of(arrays, averages if average and any(name.startswith(averages) for name in arrays) else PARAMS)


def part_of(arrays: Arrays, place: str) -> dict[str, Any]:
    """The arrays whose names begin with `place` as a nested dict."""
    here = (name for name in arrays if name.startswith(place))
    return unflatten_dict({tuple(name.removeprefix(place).split(".")): arrays[name] for name in here})


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
    record = {"shape": list(array.shape), "dtype": str(array.dtype), "crc32": checksum(array)}
    return record | {"key": str(impl)} if impl else record


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
        self._mark = self.directory.with_name(f".{self.directory.name}-saved")  # is there after the first one
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    # ---- writing ----

    def save(self, snapshot: Snapshot) -> None:
        """Starts writing `snapshot`.

        Raises:
          UserError: the disk is full, in the write that was under way; earlier checkpoints are intact.
        """
        self.wait()
        self._writing = self._thread.submit(self._write, [snapshot])

    def check(self) -> None:
        """Raises what the write under way has run into so far, without waiting for it."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Waits for the write under way. Raises UserError if the disk is full."""
        writing, self._writing = self._writing, None
        if writing is not None:
            with no_space_is_user_error(self.directory.parent):
                writing.result()

    def close(self) -> None:
        """Waits for the write under way and ends the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def saved(self) -> bool:
        """Whether there ever was a checkpoint here, be it gone by now."""
        return bool(self.steps()) or self._mark.exists()

    def quarantine(self, step: int, folder: str = "damaged") -> Path:
        """Moves a checkpoint out of the way, so that training can write that step again."""
        place = self.directory.parent / folder / f"{self.directory.name}-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        (self.directory / str(step)).rename(place)
        return place

    def _write(self, snapshots: list[Snapshot]) -> None:
        """Writes the only snapshot of a list; it is taken from there, so that its memory is free for reading back."""
        snapshot = snapshots.pop()
        place, part = (self.directory / f"{snapshot.step}{end}" for end in ("", _PART))
        self._clear()
        try:
            write_files(part, snapshot.arrays, snapshot.meta)
        except BaseException:
            self._clear()  # a full disk needs the space
            raise
        del snapshot
        if place.exists():
            self._drop(place)
        part.rename(place)
        self._mark.touch()
        try:
            self.read(int(place.name))
        except Damaged as error:
            raise UserError(
                f"checkpoint {place} cannot be read back as it was written ({error}): the disk may be failing; older "
                "checkpoints are kept."
            ) from error
        for old in self.steps()[: -self._keep]:
            if not self._keep_every or old % self._keep_every:
                self._drop(self.directory / str(old))
        self._clear()

    def _drop(self, place: Path) -> None:
        """Takes a checkpoint's name from it, so that it is there as a whole or not at all; `_clear` removes it."""
        place.rename(place.with_name(f"{place.name}.old{_PART}"))

    def _clear(self) -> None:
        """Removes what has lost its name or never got one, also in a process that was killed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.glob(f"*{_PART}"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()

    # ---- reading ----

    def steps(self) -> list[int]:
        """The steps with a completely written checkpoint, oldest first."""
        if not self.directory.is_dir():
            return []
        return sorted(int(path.name) for path in self.directory.iterdir() if path.name.isdecimal())

    def record(self, step: int) -> dict[str, Any]:
        """The record of a checkpoint, without its arrays. Errors as of `read`."""
        return read_record(self.directory / str(step), step)

    def read(self, step: int) -> Snapshot:
        """One checkpoint, every byte checked against its checksum.

        Raises:
          Damaged: it is not as it was written.
          UserError: a newer jaxrl has written it.
        """
        place = self.directory / str(step)
        meta = read_record(place, step)
        return Snapshot(step, read_arrays(place, meta), meta)

    def newest(self, *, quarantine: bool = False) -> Snapshot:
        """The newest checkpoint that is intact; warns about every damaged one it passes over.

        Args:
          quarantine: move damaged ones aside; only for the process that is going to write here.

        Raises:
          UserError: there is none, or a newer jaxrl has written it.
        """
        steps = self.steps()
        for index, step in reversed(list(enumerate(steps))):
            place = self.directory / str(step)
            try:
                found = self.read(step)
            except Damaged as error:
                if not place.exists():  # newer ones have taken its place meanwhile
                    return self.newest(quarantine=quarantine)
                then = "falling back to the one before" if index else "and there is no older one"
                _log.warning("checkpoint %s is damaged (%s): %s.", place, error, then)
                continue
            for damaged in steps[index + 1 :] if quarantine else []:
                self.quarantine(damaged)
            return found
        if steps:
            raise UserError(f"every checkpoint in {self.directory} is damaged: restore them from a backup.")
        if self.saved():
            raise UserError(f"the checkpoints in {self.directory} are gone: restore them from a backup.")
        raise UserError(f"there is no checkpoint in {self.directory}: the run stopped before its first one.")


def check_stamp(meta: dict[str, Any], stamp: Stamp, *, options: bool = True) -> None:
    """Raises UserError unless a checkpoint's record belongs to the same game, `options` of which may be left out, and
    the same number of seeds."""
    game = meta["game"]
    wanted: dict[str, Any] = {"id": stamp.env_id, "version": stamp.env_version}
    if options:
        wanted["options"] = stamp.env_options
    for field, want in wanted.items():
        have = game[field]
        if json.loads(json.dumps(want)) != have:
            raise UserError(
                f"the checkpoint is of another game: its {field} is {have!r}, this config has {want!r}; "
                "use the game that it was trained on."
            )
    seeds = math.prod(meta["leaves"].get("update", {}).get("shape", [stamp.seeds]))
    if seeds != stamp.seeds:
        raise UserError(
            f"the checkpoint does not fit: it is of {seeds} seed(s), but run.seeds is {stamp.seeds}: set it to {seeds}."
        )


# ---- a full disk --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_space_is_user_error(run: Path) -> Iterator[None]:
    """Turns "no space left" in the directory `run`, from any depth, into one sentence; other errors pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or not is_no_space(error):
            raise
        steps = CheckpointStore(run / "checkpoints").steps()
        again = next_command("resume", run)
        then = f"continue with `{again}`; checkpoint {steps[-1]} is intact" if steps else "start again"
        raise UserError(f"no space left on the disk of {run}: free some and {then}.") from error
