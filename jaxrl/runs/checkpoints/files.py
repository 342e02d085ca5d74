"""The files of one checkpoint, of which every byte is covered:

    state/         the arrays, compressed, by orbax
    share-N.npz    what is spread over several processes, if there are: `checkpoint_shares`
    record.json    what they are, and their checksums: `checkpoint_record`

The checksums of leaves are taken in memory and compared after reading: they cover the way through the library too.
"""

from __future__ import annotations

import errno
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.leaves import Arrays, checksum
from jaxrl.runs.checkpoints.record import STATE, Damaged, check_state, unreadable_is_damaged, write_record
from jaxrl.runs.checkpoints.shares import read_shares


def write_files(place: Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Fills the directory of a checkpoint.

    Args:
      place: the directory.
      arrays: leaf path -> array; those of shares are left out.
      meta: the record; `format` and `files` are added.
    """
    state, leaves = place / STATE, meta["leaves"]
    _no_echo()
    with _orbax() as writer:  # it refuses empty ones
        writer.save(state, {name: each for name, each in arrays.items() if each.size and "axis" not in leaves[name]})
    write_record(place, meta)


def _orbax() -> ocp.PyTreeCheckpointer:
    """Orbax by itself in this process: what the others write is none of its business."""
    if distributed.count() == 1:
        return ocp.PyTreeCheckpointer()
    rank = distributed.rank()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=rank, active_processes={rank}, barrier_sync_key_prefix=f"process_{rank}"
    )
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=alone)
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


def read_arrays(place: Path, meta: dict[str, Any], *, whole: bool = True) -> Arrays:
    """The arrays of a checkpoint, leaf path -> array, as its record describes them; not `whole`: of shares only what
    this process needs. Raises Damaged."""
    with unreadable_is_damaged():
        return _checked_arrays(place, meta) | read_shares(place, meta, whole=whole)


def _checked_arrays(place: Path, meta: dict[str, Any]) -> Arrays:
    check_state(place, meta)
    _no_echo()
    with _orbax() as reader:
        stored = reader.restore(place / STATE)
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


def _no_echo() -> None:
    """Where orbax fails (a full disk), the writes that it has still under way end later, each with a traceback on
    stderr because the event loop of the first error is closed. That error reaches the caller."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax logs the tracebacks of its threads besides
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unless_closed


def _unless_closed(found: Any) -> None:
    if str(found.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(found)


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
