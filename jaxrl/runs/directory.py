"""The directory of a run, and reading a trained policy back from it.

runs/<name>/config.yaml        the resolved configuration
            checkpoints/<u>/   whole training states after u updates, the newest few
            best/<u>/          the state with the best evaluation during training; best.json says which
            metrics.jsonl      one row per log line; tensorboard/ holds the same
            log.txt            the log of process 0; log.1.txt that of process 1, ...: `logs.files`
            process.json       the process that trains it, or did last, and how that ended: `presence`
            evaluation.json    every evaluation table made of this run
            replays/<u>/       games of the newest evaluations during training, of the best one and of the final one
            milestones.json    when evaluations during training first reached `train.milestones`
            beside/            of evaluations in a process of their own: `training.strength.beside`
            exploitability.json   what best responses win against it: `jaxrl exploit`
            imitation.json     how well `jaxrl imitate` has taught the first parameters
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage, presets
from jaxrl.games import make_env as make_env
from jaxrl.games import make_evaluation_env
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import leaves
from jaxrl.runs.checkpoints.checkpoint import (
    CheckpointStore,
    Damaged,
    Snapshot,
    Stamp,
    check_stamp,
    params_hash,
    params_of,
    stage_name,
)
from jaxrl.runs.config import RunConfig
from jaxrl.runs.folder import find_folder, next_command
from jaxrl.runs.logs.run_log import LOG
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import to_tree

CHECKPOINTS, BEST = "checkpoints", "best"  # folders of a run
LOCK = ".lock"  # in every run that a command has begun


class RunFile:
    """A file or folder of a run; what is in it says the module."""

    def __init__(self, name: str):
        """Names it."""
        self._name = name

    def __get__(self, run: RunDirectory, owner: type) -> Path:
        """Returns its path."""
        return run.path / self._name


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """The files of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    config_file = RunFile("config.yaml")
    metrics_file = RunFile("metrics.jsonl")
    evaluation_file = RunFile("evaluation.json")
    replays = RunFile("replays")
    exploitability_file = RunFile("exploitability.json")
    imitation_file = RunFile("imitation.json")
    best_file = RunFile("best.json")
    milestones_file = RunFile("milestones.json")

    def checkpoints(self, keep: int = 3, keep_every: int = 0) -> CheckpointStore:
        """Returns the newest training states, and those at multiples of `keep_every` updates."""
        return CheckpointStore(self.path / CHECKPOINTS, keep=keep, keep_every=keep_every)

    def best(self) -> CheckpointStore:
        """Returns the training state with the best evaluation during training."""
        return CheckpointStore(self.path / BEST, keep=1)

    def undo_best(self, update: int, digest: str) -> None:
        """Moves the best state aside if training will not reach it again.

        After a kill it may be of a later update than `update`, from which the training resumes. The same configuration,
        known by its digest, reaches the same state again, bit by bit, so it stays; another one does not.
        """
        for step in self.best().steps():
            with contextlib.suppress(Damaged):  # reported when it is read
                if step > update and self.best().record(step).get("config_digest") != digest:
                    place = self.best().quarantine(step, "undone")
                    self.best_file.unlink(missing_ok=True)
                    LOG.warning("the best state so far, of update %d, comes from other settings: see %s", step, place)

    def config(self, allow: Collection[str] = (), overrides: Sequence[str] = ()) -> Config:
        """Returns the configuration that the run was started with, for using its policy: see `jaxrl.config.trained`."""
        return configs.trained(presets.read(self.config_file), str(self.config_file), overrides, allow)

    def lock(self) -> IO[bytes]:
        """Makes this process the only one that writes here, until the returned file is closed or the process ends.
        Raises UserError if another process is training this run."""
        handle = files.open_lock(self.path / LOCK)
        try:
            files.lock(handle)
            if not os.fstat(handle.fileno()).st_nlink:
                raise BlockingIOError("a start that failed has removed it")
        except OSError as error:
            handle.close()
            raise UserError(
                f"run {self.name!r} is being trained by another process: wait for it or stop it."
            ) from error
        return handle


def new_run(config: Config) -> RunDirectory:
    """Makes the directory of a new run; its configuration is not written yet.

    A directory without any checkpoint, left by a start that failed, is used again: there is nothing in it to lose.

    Raises:
      UserError: there is a run of that name, or something else, or the directory cannot be made.
    """
    run = RunDirectory(config.run.path)
    if run.checkpoints().saved():
        raise UserError(
            f"run {str(run.path)!r} exists already: continue it with `{next_command('resume', run.path)}`, "
            "or choose another name with --name."
        )
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in run.path.iterdir()}
    except OSError as error:
        raise UserError(f"cannot create the run directory {run.path}: {error.strerror}.") from error
    if run.config_file.name in names and not names & {LOCK, run.metrics_file.name}:
        raise UserError(
            f"{run.config_file} is of another program: choose another name with --name, or another run.directory."
        )
    return run


@contextlib.contextmanager
def begun_run(config: Config) -> Iterator[RunDirectory]:
    """Makes a `new_run` for a block; if the block fails before its first metrics or checkpoint, the folder goes.

    If two begin at the same time, the one whose `mkdir` made the folder removes it, unless the other trains in it.
    """
    path = config.run.path
    above = [folder for folder in path.parents if not folder.exists()]
    made = False
    with contextlib.suppress(OSError):  # it is there, or `new_run` says what is wrong
        if distributed.is_rank0():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
            made = True
    distributed.broadcast(lambda: new_run(config).name)
    run = RunDirectory(path)
    try:
        yield run
    except BaseException:
        if made:
            with contextlib.suppress(UserError, OSError):
                _remove_unused(run, above)
        raise


def _remove_unused(run: RunDirectory, above: list[Path]) -> None:
    """Removes the folder of a run that holds nothing yet, and the folders above it that are then empty.

    Raises:
      UserError: another process trains in it.
      OSError: another run is in one of the folders above by now.
    """
    with run.lock():
        if run.checkpoints().steps() or (run.metrics_file.exists() and run.metrics_file.stat().st_size):
            return
        shutil.rmtree(run.path, ignore_errors=True)
    for folder in above:
        folder.rmdir()


def find_run(name: str | os.PathLike, directory: str = "runs") -> RunDirectory:
    """Returns the run at a path, or the run with that name in `directory`. Raises UserError if there is no such run;
    the message has the nearest name."""
    return RunDirectory(find_folder(name, directory))


def cache_folder(directory: str) -> Path | None:
    """Returns the folder of compiled programs for a `run.cache_dir`, in place of the default one that which
    JAX_COMPILATION_CACHE_DIR names; None if `directory` is empty."""
    if directory == RunConfig.cache_dir:
        directory = os.environ.get("JAX_COMPILATION_CACHE_DIR") or directory
    return Path(directory).expanduser() if directory else None


def enable_compilation_cache(directory: str) -> None:
    """Keeps compiled programs in their `cache_folder`, so that a second start takes seconds; nowhere without one."""
    if path := cache_folder(directory):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"run.cache_dir {str(path)!r} cannot be created ({error.strerror}): choose another."
            ) from error
        _drop_damaged(path)
        warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry")  # two lines a program
        if shutil.disk_usage(path).free < 10e6:
            LOG.warning("the disk of run.cache_dir %s is full: the next start compiles everything again.", path)
        jax.config.update("jax_compilation_cache_dir", str(path))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _drop_damaged(cache: Path) -> None:
    """Removes the entries of the compilation cache that a killed process or a full disk has cut short.

    jax warns of such an entry at every start and compiles the program again, but never writes it again. Those that were
    there and whole at an earlier start are not looked at.
    """
    try:
        from jax._src.compilation_cache import decompress_executable  # there is no public name for it
    except ImportError:
        return
    checked, begun = cache / ".checked", time.time() - 1.0  # what file systems write of it is coarse
    with contextlib.suppress(OSError):  # another user's folder, or a full disk
        since = checked.stat().st_mtime if checked.exists() else 0.0
        since = since if since < time.time() else 0.0  # the clock was set back
        for entry in cache.glob("*-cache"):
            with contextlib.suppress(OSError):  # as above, or gone
                data = files.contents(entry, 1 << 28) if entry.stat().st_mtime >= since else None
                if data is not None and not _decompresses(data, decompress_executable):
                    entry.unlink()
        checked.touch()  # only now: a start that is killed has not looked at all of them
        os.utime(checked, (begun, begun))


def _decompresses(data: bytes, decompress: Callable[[bytes], object]) -> bool:
    try:
        decompress(data)
    except Exception:  # zlib or zstd, whichever jax has found, has errors of its own
        return False
    return True


# ---- what a run is about ------------------------------------------------------------------------------------------


def make_stamp(config: Config, env: Env, whole: Config | None = None) -> Stamp:
    """Makes the stamp of checkpoints; `whole` is the configuration of the curriculum if `config` is a stage of one."""
    text = json.dumps(to_tree(whole or config), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Stamp(config.env.id, env.version, dict(config.env.options), digest, config.run.seeds)


def stage_number(stages: Sequence[Stage], host: Mapping[str, Any]) -> int:
    """Returns the stage of its training that a checkpoint is in, from the host's part of its record. Raises UserError
    if there is no stage with that name."""
    names = [stage.name for stage in stages]
    name = stage_name(host) or names[0]  # a training begins in the first
    if name not in names:
        raise UserError(
            f"the checkpoint is in stage {name!r} of a curriculum, but the stages of this configuration are "
            f"{', '.join(map(repr, names)) if names[0] else 'none'}: give that one its name."
        )
    return names.index(name)


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run read back for use: no optimizer state, no games in progress.

    Attributes:
      name, config: the run; with a curriculum the configuration of the stage that the checkpoint is in.
      env: the game as it is evaluated and played.
      update: the checkpoint, in updates.
      params: the parameters of each seed; their average over time where `evaluate.average` wants it and it is kept.
      params_hash: their hash; as logged in training.
      beliefs: each seed's learned beliefs about hidden cards (`Algorithm.believe`); empty mappings without that.
      stage: the name of the stage; empty without a curriculum.
      made: conditions of its training, as the checkpoint has them: versions, the hash of the rules, `xla.conditions`.
    """

    name: str
    config: Config
    env: Env
    update: int
    params: list[PyTree]
    params_hash: str
    stage: str = ""
    beliefs: list[PyTree] = dataclasses.field(default_factory=list)
    made: dict[str, Any] = dataclasses.field(default_factory=dict)


def each_seed(tree: PyTree, seeds: int) -> list[PyTree]:
    """Returns the part of every seed in a tree of a training: with several seeds its leaves have a leading axis [S]."""
    return [tree] if seeds == 1 else [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(seeds)]


def seed_names(name: str, seeds: int) -> list[str]:
    """Returns the names of a run's policies in tables."""
    return [name] if seeds == 1 else [f"{name}/seed_{i}" for i in range(seeds)]


def load_run(
    name: str | os.PathLike, checkpoint: str = "newest", allow: Collection[str] = (), overrides: Sequence[str] = ()
) -> TrainedRun:
    """Reads a run's parameters.

    Args:
      name: a run.
      checkpoint: "newest", "best", or a number of updates.
      allow: modules and paths that its configuration may name, see `jaxrl.config.trust`.
      overrides: changes of its configuration, see `jaxrl.config.trained`.

    Raises:
      UserError: no such run or checkpoint, every copy of it damaged, a checkpoint of another game, an override of what
        is fixed, or code that is not allowed.
    """
    run = find_run(name)
    whole = run.config(allow, overrides)
    configs.tell_shadowed(whole, overrides)
    xla.prepare_game(whole.env.id)  # reading a checkpoint starts jax, and then it is too late
    stages, snapshot = configs.stages(whole), read_checkpoint(run, checkpoint)
    stage = stages[stage_number(stages, snapshot.meta["host"])]
    config, env = stage.config, make_evaluation_env(stage.config)
    check_stamp(snapshot.meta, make_stamp(config, env))
    stacked = params_of(snapshot.arrays, average=config.evaluate.average)
    params = each_seed(stacked, config.run.seeds)
    belief = leaves.part_of(snapshot.arrays, leaves.BELIEF)
    belief.pop("opt_state", None)
    beliefs = each_seed(belief, config.run.seeds)
    made, hashed = snapshot.meta.get("made"), params_hash(stacked)
    return TrainedRun(
        run.name,
        config,
        env,
        snapshot.step,
        params,
        hashed,
        stage.name,
        beliefs,
        made if isinstance(made, dict) else {},
    )


def read_checkpoint(run: RunDirectory, checkpoint: str) -> Snapshot:
    """Reads a checkpoint of a run: "newest", "best", or a number of updates. Raises UserError if there is no such
    checkpoint (the message lists those there are), or it is damaged."""
    stores = [CheckpointStore(run.path / folder) for folder in (CHECKPOINTS, BEST)]
    if checkpoint in ("newest", "best"):
        return stores[checkpoint == "best"].newest()
    step = files.number(checkpoint)
    found = [store for store in stores if step in store.steps()]
    if step is None or not found:
        known = sorted({step for store in stores for step in store.steps()})
        raise UserError(
            f"run {run.name!r} has no checkpoint {checkpoint!r}: use newest, best, or one of "
            f"{', '.join(map(str, known)) or '(none yet)'}."
        )
    try:
        return found[0].read(step)
    except Damaged as error:
        raise UserError(f"checkpoint {checkpoint} of run {run.name!r} is damaged ({error}): choose another.") from error


def append_json(path: Path, record: dict[str, Any]) -> int:
    """Appends a record to a JSON list on disk atomically; returns the new length."""
    records = [*read_json_list(path), record]
    write_json(path, records)
    return len(records)


def read_json_list(path: Path) -> list[dict[str, Any]]:
    """Returns records from a JSON list on disk, or `[]` if there is no such file. Raises UserError if it holds
    something else."""
    try:
        records = files.read(path) if path.exists() else []
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise UserError(f"cannot read {path}: it is no list of records")
    except UserError as error:
        raise UserError(f"{str(error).rstrip('.')}: move it out of the way.") from None
    return records


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    files.write(path, (json.dumps(content, indent=2) + "\n").encode())


def for_json(value: Any) -> Any:
    """Returns a tree of figures for JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: for_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
