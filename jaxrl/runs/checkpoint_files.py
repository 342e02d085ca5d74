"""The files of one checkpoint, of which every byte is covered:

    state/         the arrays, compressed, by orbax
    share-N.npz    what is spread over several processes, if there are: `checkpoint_shares`
    record.json    its own SHA-256 in the first line, then JSON: format, step, game (id, version, options), a digest of
                   the config, a hash of the parameters, shape, dtype and CRC-32 of every leaf, what the host remembers,
                   and the SHA-256 of every file in state/: no library ever opens a damaged one

The checksums of leaves are taken in memory and compared after reading: they cover the way through the library too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from jaxrl import processes
from jaxrl.envs import files
from jaxrl.envs.errors import UserError
from jaxrl.runs.checkpoint_shares import SHARES, read_shares
from jaxrl.runs.leaves import Arrays, Damaged, checksum

FORMAT, ALONE = 3, 2  # 3 has shares of several processes; 1 has its record in meta/metadata, without checksums
_STATE, _RECORD, _RECORD_1 = "state", "record.json", "meta/metadata"
_FIELDS = {"format": int, "step": int, "game": dict, "params_hash": str, "leaves": dict, "host": dict}


def write_files(place: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Fills the directory of a checkpoint.

    Args:
      place: the directory.
      arrays: leaf path -> array; those of shares are left out.
      meta: the record; `format` and `files` are added.
    """
    state, leaves = place / _STATE, meta["leaves"]
    _no_echo()
    with _orbax() as writer:  # it refuses empty ones
        writer.save(state, {name: each for name, each in arrays.items() if each.size and "axis" not in leaves[name]})
    format = FORMAT if SHARES in meta else ALONE
    text = json.dumps(meta | {"format": format, "files": _digests(state)}).encode()
    files.write(place / _RECORD, _digest(text) + b"\n" + text)


def _orbax() -> ocp.PyTreeCheckpointer:
    """Orbax by itself in this process: what the others write is none of its business."""
    if processes.count() == 1:
        return ocp.PyTreeCheckpointer()
    rank = processes.rank()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=rank, active_processes={rank}, barrier_sync_key_prefix=f"process_{rank}"
    )
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=alone)
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


def read_record(place: Path, step: int) -> dict[str, Any]:
    """The record of a checkpoint, of which only `files` is still to be checked.

    Raises:
      Damaged: it is not as it was written, or not that of this step.
      UserError: a newer jaxrl has written it.
    """
    with _unreadable_is_damaged():
        return _checked_record(place, step)


def _checked_record(place: Path, step: int) -> dict[str, Any]:
    if (place / _RECORD).is_file():
        digest, _, text = (place / _RECORD).read_bytes().partition(b"\n")
        if digest != _digest(text):
            raise Damaged("the checksum of its record is wrong")
    else:
        text = (place / _RECORD_1).read_bytes()
    record = json.loads(text)
    if record["format"] > FORMAT:
        raise UserError(
            f"checkpoint {place} has the format {record['format']}, this jaxrl reads up to {FORMAT}: use the newer "
            "version that has written it."
        )
    wrong = [field for field, kind in _FIELDS.items() if not isinstance(record.get(field), kind)]
    if wrong or record["step"] != step or not {"id", "version", "options"} <= record["game"].keys():
        raise Damaged("its record is of another one" if record.get("step") != step else "its record lacks something")
    return record


def read_arrays(place: Path, meta: dict[str, Any], *, whole: bool = True) -> Arrays:
    """The arrays of a checkpoint, leaf path -> array, as its record describes them; not `whole`: of shares only what
    this process needs. Raises Damaged."""
    with _unreadable_is_damaged():
        return _checked_arrays(place / _STATE, meta) | read_shares(place, meta, whole=whole)


def _checked_arrays(state: Path, meta: dict[str, Any]) -> Arrays:
    changed = meta.get("files", {}).items() - _digests(state).items()
    if changed:
        raise Damaged(f"the checksum of {_STATE}/{min(changed)[0]} is wrong")
    _no_echo()
    with _orbax() as reader:
        stored = reader.restore(state)
    arrays = {}
    for name, record in meta["leaves"].items():
        if "axis" in record:
            continue
        empty = 0 in record["shape"]
        array = np.zeros(record["shape"], record["dtype"]) if empty else stored.get(name)
        if array is None or [list(array.shape), array.dtype.name] != [record["shape"], record["dtype"]]:
            raise Damaged(f"{name} is missing or has another shape")
        if checksum(array) != record["crc32"]:
            raise Damaged(f"the checksum of {name} is wrong")
        arrays[name] = array
    return arrays


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _no_echo() -> None:
    """Where orbax fails (a full disk), the writes that it has still under way end later, each with a traceback on
    stderr because the event loop of the first error is closed. That error reaches the caller."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax logs the tracebacks of its threads besides
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unless_closed


def _unless_closed(found: Any) -> None:
    if str(found.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(found)


@contextlib.contextmanager
def _unreadable_is_damaged() -> Iterator[None]:
    try:
        yield
    except (Damaged, UserError, MemoryError, PermissionError):  # the last two say nothing about the files
        raise
    except Exception as error:  # tensorstore, JSON and records of a wrong shape raise many types
        raise Damaged(f"{type(error).__name__} while reading it") from error


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
