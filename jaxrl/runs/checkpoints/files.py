"""The files of one checkpoint, of which every byte is covered by a checksum.

    state/         the arrays, compressed, by orbax
    share-N.npz    with several processes, the leaves that are sharded over them (`shares`)
    record.json    what they are, and their checksums (`record`)

The checksums of leaves are taken in memory and compared after reading: they cover the way through the library too.

`orbax.checkpoint.CheckpointManager` writes in the background, renames a checkpoint when it is complete, and decides
which older ones to remove. Three of its behaviours leave the rest to us (orbax 0.11.25 to 0.12.8):

- It verifies nothing. Our `seal` runs as its `post_finalization_callback`: it adds the checksums and reads everything
  back before the checkpoint gets its name and before an older one goes.
- A process that fails does not reach the barrier of a save, and the others wait there until a timeout, without a word
  of what failed. So process 0 alone uses the manager, and the others write files of their own (`shares`).
- It removes a checkpoint file by file, so that a kill would leave half of one: ours are renamed first (`REMOVED`). And
  after `seal` it adds files that no checksum can cover (`UNREAD`); nothing reads them, and they are deleted.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policy

from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.leaves import Arrays, Leaves, checksum
from jaxrl.runs.checkpoints.record import STATE, Damaged, unreadable_is_damaged
from jaxrl.runs.checkpoints.shares import read_shares
from jaxrl.runs.checkpoints.state import check_memory, check_state, open_leaves

UNFINISHED = ".orbax-checkpoint-tmp"  # in the name of a checkpoint that is being written
REMOVED = ".removed"  # the folder of checkpoints that are being removed
CheckRecord = Callable[[dict[str, Any]], None]  # raises Damaged or UserError for a record that is not wanted
UNREAD = ("_CHECKPOINT_METADATA", "commit_success.txt", "metrics")  # of orbax, in a checkpoint


def open_manager(directory: Path, seal: Callable[[], None], *, keep: int, keep_every: int) -> ocp.CheckpointManager:
    """Opens orbax's manager of a directory of checkpoints; for the one process that writes there.

    Args:
      directory: folder in which there may be checkpoints already.
      seal: called in orbax's thread when all its files are written, before the checkpoint gets its name; if it raises,
        the checkpoint gets none, and no older one is removed.
      keep: number of newest checkpoints to keep.
      keep_every: interval of further ones to keep, those of steps that are a multiple of this; 0 = none.
    """
    _no_echo()
    handlers = ocp.handlers.DefaultCheckpointHandlerRegistry()
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False, multiprocessing_options=_alone())
    handlers.add(STATE, ocp.args.PyTreeSave, handler)  # which writes what `state.open_leaves` reads
    policies: list[Any] = [policy.LatestN(keep)] + ([policy.EveryNSteps(keep_every)] if keep_every else [])
    options = ocp.CheckpointManagerOptions(
        preservation_policy=policy.AnyPreservationPolicy(policies),
        todelete_subdir=REMOVED,
        create=False,
        save_root_metadata=False,
        multiprocessing_options=_alone(),
        async_options=ocp.AsyncOptions(
            timeout_secs=distributed.LONG // 1000,
            post_finalization_callback=seal,
            create_directories_asynchronously=False,
        ),
    )
    return ocp.CheckpointManager(directory, options=options, handler_registry=handlers)


def start_save(manager: ocp.CheckpointManager, step: int, arrays: Arrays, leaves: Leaves) -> None:
    """Starts writing the arrays of a checkpoint, but for those of shares. Orbax refuses empty ones."""
    stored = {name: each for name, each in arrays.items() if each.size and "axis" not in leaves[name]}
    manager.reload()  # after a failed save it has forgotten the checkpoints that it did not come to remove
    if step in manager.all_steps():
        manager.delete(step)
    manager.save(step, args=ocp.args.Composite(**{STATE: ocp.args.PyTreeSave(stored)}), force=True)


def _alone() -> ocp.options.MultiprocessingOptions:
    """Returns options by which orbax runs in this process by itself, see the module."""
    if distributed.count() == 1:
        return ocp.options.MultiprocessingOptions()
    rank = distributed.rank()
    return ocp.options.MultiprocessingOptions(
        primary_host=rank, active_processes={rank}, barrier_sync_key_prefix=f"process_{rank}"
    )


def read_arrays(place: Path, meta: dict[str, Any], *, whole: bool = True, check: CheckRecord | None = None) -> Arrays:
    """Returns the arrays of a checkpoint, leaf path -> array, as its record describes them.

    Args:
      place: its directory.
      meta: its record.
      whole: all of the shares; else only what this process needs.
      check: called with the record when the files are as it says, before an array is read.

    Raises:
      Damaged: something is missing or has been changed.
      Exception: what `check` raises.
    """
    with unreadable_is_damaged():
        check_state(place, meta)
        opened = open_leaves(place, meta["leaves"])
    if check is not None:
        check(meta)
    with unreadable_is_damaged():
        check_memory(place, meta["leaves"])
        return _checked_arrays(opened, meta["leaves"]) | read_shares(place, meta, whole=whole)


def _checked_arrays(opened: dict[str, Any], leaves: Leaves) -> Arrays:
    read = {name: array.read() for name, array in opened.items()}
    arrays = {}
    for name, record in leaves.items():
        if "axis" in record:
            continue
        array = read[name].result() if name in read else np.zeros(record["shape"], record["dtype"])
        if checksum(array) != record["crc32"]:
            raise Damaged(f"the checksum of {name} is wrong")
        arrays[name] = array
    return arrays


def _no_echo() -> None:
    """Silences the echo of an orbax failure (a full disk): writes still under way end later, each with a traceback on
    stderr because the event loop of the first error is closed. That error reaches the caller."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax logs the tracebacks of its threads besides
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unless_closed


def _unless_closed(found: Any) -> None:
    if str(found.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(found)


def is_no_space(error: BaseException | None) -> bool:
    """Returns whether an exception, or one that led to it, says that the disk (or the quota) is full."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(error) or "Disk quota exceeded" in str(error):  # tensorstore's ValueError
            return True
        error = error.__cause__ or error.__context__
    return False
