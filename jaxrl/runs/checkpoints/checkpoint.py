"""Checkpoints of whole training states: asynchronous, atomic, every byte verified (`files`).

A checkpoint is a directory `<step>/` that is written under another name, read back, and then renamed, so that a killed
process leaves the previous one usable; only then are older ones removed.

Leaves are stored flat by their path in the tree (`params.params.Dense_0.kernel`), so nothing depends on the classes of
optimizer or state; typed PRNG keys are stored as their data plus the name of their implementation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import math
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl import xla
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints.files import (
    REMOVED,
    UNFINISHED,
    UNREAD,
    CheckRecord,
    is_no_space,
    open_manager,
    read_arrays,
    start_save,
)
from jaxrl.runs.checkpoints.leaves import LEARNER, PARAMS, Arrays, hash_arrays
from jaxrl.runs.checkpoints.leaves import TARGET_PARAMS as TARGET_PARAMS
from jaxrl.runs.checkpoints.leaves import check_fits as check_fits
from jaxrl.runs.checkpoints.leaves import pack as pack
from jaxrl.runs.checkpoints.leaves import params_hash as params_hash
from jaxrl.runs.checkpoints.leaves import params_of as params_of
from jaxrl.runs.checkpoints.leaves import unpack as unpack
from jaxrl.runs.checkpoints.record import SHARES, mark, read_record, write_record
from jaxrl.runs.checkpoints.record import Damaged as Damaged
from jaxrl.runs.checkpoints.record import unreadable_is_damaged as unreadable_is_damaged
from jaxrl.runs.checkpoints.shares import write_share
from jaxrl.runs.folder import next_command
from jaxrl.version import __version__
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.files import numbered

PyTree = Any

_log = logging.getLogger("jaxrl")


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A training state copied to host memory, independent of the device buffers it came from."""

    step: int  # the update counter it was taken at
    arrays: Arrays  # by leaf path
    meta: dict[str, Any]  # the JSON record that lies beside the arrays; see `take`


@dataclasses.dataclass(frozen=True)
class Stamp:
    """Origin of a checkpoint. All but the digest, which is for information, must match to load it."""

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
        "made": {"jaxrl": __version__, "rules": registry.rules_hash(stamp.env_id), **xla.conditions()},
    }
    return Snapshot(step, arrays, meta)


def unpack_parts(snapshot: Snapshot, template: dict[str, PyTree]) -> dict[str, PyTree]:
    """Unpacks some parts of a training state, {"learner": ..., "update": ...}, whatever else was stored. Raises
    UserError as `unpack`."""
    names = [name for name in snapshot.arrays if name.split(".")[0] in template]
    leaves = snapshot.meta["leaves"]
    return unpack({name: snapshot.arrays[name] for name in names}, {name: leaves[name] for name in names}, template)


class _Pending(NamedTuple):
    """A save under way."""

    snapshot: Snapshot  # with the arrays of this process's share alone
    name: str  # under which the processes talk about it


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
          keep: number of the newest to keep.
          keep_every: interval of further ones to keep, those of steps that are a multiple of this; 0 = none.
        """
        self.directory = Path(directory).absolute()
        self._keep, self._keep_every = keep, keep_every
        self._mark = mark(self.directory)
        self._manager: Any = None  # of process 0, from the first save on
        self._pending: _Pending | None = None  # the save under way
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")  # of the other processes
        self._writing: Future[None] | None = None
        self._writes = itertools.count()

    # ---- writing ----

    def save(self, snapshot: Snapshot) -> None:
        """Starts writing `snapshot`. Raises UserError if the disk is full, in the write that was under way; earlier
        checkpoints are intact."""
        self.wait()
        name = f"{self.directory.name}/{next(self._writes)}"
        if distributed.is_rank0():
            self._start(snapshot, name)
        else:
            self._writing = self._thread.submit(self._write_share, [snapshot], name)

    def check(self) -> None:
        """Raises the error of a write that has ended, without waiting for one; several processes raise it together,
        when they wait."""
        if distributed.count() == 1 and self._pending is not None and not self._manager.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Waits for the write under way. Raises UserError if the disk is full."""
        writing, self._writing = self._writing, None
        with no_space_is_user_error(self.directory.parent):
            if self._pending is not None:
                self._end(f"{self._pending.name}/done")
            if writing is not None:
                writing.result()

    def close(self) -> None:
        """Waits for the write under way and ends the threads."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            if self._manager is not None:
                self._manager.close()
                self._manager = None

    def saved(self) -> bool:
        """Returns whether there is, or ever was, a checkpoint here."""
        return bool(self.steps()) or self._mark.exists()

    def quarantine(self, step: int, folder: str = "damaged") -> Path:
        """Moves a checkpoint out of the way, so that training can write that step again."""
        place = self.directory.parent / folder / f"{self.directory.name}-{step}"
        if not distributed.is_rank0():
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        (self.directory / str(step)).rename(place)
        return place

    def _start(self, snapshot: Snapshot, name: str) -> None:
        """Starts a save in process 0; the others hear under `name` when to write their shares, and how it ended."""
        step, leaves = snapshot.step, snapshot.meta["leaves"]
        spread = {leaf: array for leaf, array in snapshot.arrays.items() if "axis" in leaves[leaf]}
        with no_space_is_user_error(self.directory.parent), distributed.broadcast_result(f"{name}/begun"):
            self._clear()
            if self._manager is None:
                self._manager = open_manager(self.directory, self._seal, keep=self._keep, keep_every=self._keep_every)
            self._pending = _Pending(Snapshot(step, spread, snapshot.meta), name)
            try:
                start_save(self._manager, step, snapshot.arrays, leaves)
            except BaseException:
                self._pending = None
                self._clear()
                raise

    def _seal(self) -> None:
        """Completes a checkpoint that has no name yet, and reads it back; runs in orbax's thread."""
        assert self._pending is not None
        snapshot, name = self._pending
        part = _unfinished(self.directory, snapshot.step)
        write_record(part, snapshot.meta | _shares(part, snapshot, name))
        try:
            read_arrays(part, read_record(part, snapshot.step), whole=False)
        except Damaged as error:
            raise UserError(
                f"checkpoint {self.directory / str(snapshot.step)} cannot be read back as it was written ({error}): "
                "the disk may be failing; older checkpoints are kept."
            ) from error

    def _end(self, name: str) -> None:
        """Waits for a save in process 0, cleans up after it, and tells the others under `name`."""
        with distributed.broadcast_result(name):
            try:
                self._manager.wait_until_finished()
                self._mark.touch()
            finally:
                self._pending = None
                self._clear()  # after an error too: a full disk needs the space

    def _write_share(self, snapshots: list[Snapshot], name: str) -> None:
        """Writes the share of a process that is not the first, which does all the rest."""
        snapshot, own = snapshots.pop(), f"{name}/{distributed.rank()}"
        distributed.await_result(f"{name}/begun")
        try:
            part = _unfinished(self.directory, snapshot.step)
            share = write_share(part, snapshot.arrays, snapshot.meta["leaves"])
        except BaseException as error:
            distributed.post(own, json.dumps({"error": str(error) or type(error).__name__}))
            with contextlib.suppress(distributed.PeerFailed):  # process 0 drops the checkpoint first, and ends too
                distributed.await_result(f"{name}/done")
            raise
        distributed.post(own, json.dumps(share))
        distributed.await_result(f"{name}/done")

    def _clear(self) -> None:
        """Removes checkpoints that lost their name or never got one, also in a process that was killed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        unread = (self.directory / str(step) / name for step in self.steps() for name in UNREAD)
        for path in (*self.directory.glob(f"*{UNFINISHED}*"), self.directory / REMOVED, *unread):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    # ---- reading ----

    def steps(self) -> list[int]:
        """Returns the steps with a completely written checkpoint, oldest first."""
        return numbered(self.directory)

    def record(self, step: int) -> dict[str, Any]:
        """Returns the record of a checkpoint, without its arrays. Errors as of `read`."""
        return read_record(self.directory / str(step), step)

    def read(self, step: int, *, whole: bool = True, check: CheckRecord | None = None) -> Snapshot:
        """Returns checkpoint number `step`, every byte checked against its checksum. Arguments as of `read_arrays`.

        Raises:
          Damaged: it is not as it was written.
          UserError: a newer jaxrl has written it.
        """
        place = self.directory / str(step)
        meta = read_record(place, step)
        return Snapshot(step, read_arrays(place, meta, whole=whole, check=check), meta)

    def read_together(self, step: int, *, whole: bool, check: CheckRecord | None = None) -> Snapshot:
        """Reads a checkpoint in all processes: what is damaged for one of them is so for all. Errors as of `read`."""
        found, wrong = None, Damaged("another process has found it so")
        try:
            found = self.read(step, whole=whole, check=check)
        except Damaged as error:
            wrong = error
        if distributed.maximum(found is None) or found is None:
            raise wrong
        return found

    def newest(self, *, quarantine: bool = False, check: CheckRecord | None = None) -> Snapshot:
        """Returns the newest checkpoint that is intact; warns about every damaged one it passes over.

        Args:
          quarantine: move damaged ones aside; only for the process that is going to write here.
          check: flag as of `read`.

        Raises:
          UserError: there is no intact checkpoint, or a newer jaxrl has written it.
        """
        steps = distributed.broadcast(self.steps)
        for index, step in reversed(list(enumerate(steps))):
            place = self.directory / str(step)
            try:
                found = self.read_together(step, whole=not quarantine, check=check)
            except Damaged as error:
                if not distributed.broadcast(functools.partial(os.path.lexists, place)):  # newer ones took its place
                    return self.newest(quarantine=quarantine, check=check)
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


def _unfinished(directory: Path, step: int) -> Path:
    """Returns the folder in which orbax writes a checkpoint before it gets its name."""
    return next(directory.glob(f"{step}{UNFINISHED}*"))


def _shares(part: Path, snapshot: Snapshot, name: str) -> dict[str, Any]:
    """Returns the shares of process 0 and of all others, for the record; empty with one process. Raises UserError if
    another process cannot write its own."""
    if distributed.count() == 1:
        return {}
    shares = [write_share(part, snapshot.arrays, snapshot.meta["leaves"])]
    for rank in range(1, distributed.count()):
        share = json.loads(distributed.wait_for(f"{name}/{rank}"))
        if "error" in share:
            raise UserError(f"process {rank} cannot write its share of checkpoint {snapshot.step}: {share['error']}")
        shares.append(share)
    store, _, number = name.rpartition("/")
    distributed.forget(f"{store}/{int(number) - 1}")  # all have read it: they write the next one
    return {SHARES: shares}


def stage_name(host: Mapping[str, Any]) -> Any:
    """Returns the name of a checkpoint's stage, or whatever its record holds instead; None without a curriculum."""
    record = host.get("curriculum")
    return record.get("stage", record) if isinstance(record, dict) else record


def check_stamp(meta: dict[str, Any], stamp: Stamp, *, free: Collection[str] | None = ()) -> None:
    """Raises UserError unless a checkpoint is of the same game and number of seeds, with the same options except those
    that are `free` (None: all)."""
    game = meta["game"]
    wanted: dict[str, Any] = {"id": stamp.env_id, "version": stamp.env_version}
    if free is not None:
        wanted["options"] = {name: value for name, value in stamp.env_options.items() if name not in free}
        game = game | {"options": {name: value for name, value in game["options"].items() if name not in free}}
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
