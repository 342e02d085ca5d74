"""Evaluation beside a training (`evaluate.beside`): a process of its own plays, and the training goes on meanwhile.

    RUN/beside/states/U/   the training state after U updates, a checkpoint, until a later one does without it
    RUN/beside/U.json      what the evaluation of it has found
    RUN/beside/log.txt     what the process has said

The training stores the state of an evaluation point and writes its number to the process, which stores the result. All
points are evaluated, in order. The training waits where more than LAG of them are pending, so that what looks at
evaluations (`train.stop`) can act also where cores are short. A checkpoint of the training names those whose results it
has not taken in yet, so a resumed training takes them from the files, or has them made again. The process ends with its
input, so also when the training is killed. If the process dies, the training makes the pending evaluations and all
later ones itself.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, presets
from jaxrl.games import make_stages
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Damaged, Snapshot, params_of
from jaxrl.runs.directory import RunDirectory, enable_compilation_cache, write_json
from jaxrl.runs.logs.run_log import LOG
from jaxrl.runs.presence import how_ended
from jaxrl.training.stages.stage_setup import make_evaluation, policies
from jaxrl.training.strength.evaluation import Evaluated
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FOLDER, STATES = "beside", "states"
ALL = 1 << 30  # checkpoints to keep: we remove them
LAG = 2  # evaluations that may be pending while the training goes on: one is played, one waits for it
NICENESS = 10  # the training comes first where cores are short
WAIT = 0.05  # seconds between two looks at a folder


class Evaluator:
    """The process and its files, as the training sees them."""

    def __init__(self, run: RunDirectory, update: int):
        """Starts nothing; removes what belongs to updates after `update`, which will be made again."""
        self._run, self._folder = run, run.path / FOLDER
        self._store = CheckpointStore(self._folder / STATES, keep=ALL)
        self._process: subprocess.Popen[str] | None = None
        self._done: set[int] = set()  # states that the checkpoint under way does without
        for path in self._folder.glob("*.json"):
            if path.stem.isdecimal() and int(path.stem) > update:
                path.unlink()
        self._remove(step for step in self._store.steps() if step > update)

    def start(self, config: Config, pending: Iterable[int]) -> None:
        """Starts the process, and tells it of evaluations that are `pending` from before."""
        self._folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", __name__, str(self._run.path)]
        with (self._folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=os.environ | environment(config),
                start_new_session=True,  # Ctrl-C is for the training alone
            )
        for update in pending:
            self._tell(update)

    @property
    def alive(self) -> bool:
        """Whether the process evaluates; says so once if it has died."""
        if self._process is None:
            return False
        if (code := self._process.poll()) is None:
            return True
        self._process = None
        how = how_ended(code)
        log = self._folder / "log.txt"
        LOG.warning("the process that evaluates beside the training %s (see %s): the training does it now", how, log)
        return False

    def submit(self, state: Snapshot) -> None:
        """Has a state evaluated."""
        self._store.save(state)
        self._tell(state.step)

    def found(self, update: int) -> Evaluated | None:
        """Returns the result of the evaluation after `update` updates; None before it is made."""
        with contextlib.suppress(UserError, ValueError, LookupError, TypeError):
            record = files.read(self._folder / f"{update}.json")
            return Evaluated(dict(record["row"]), float(record["score"]), str(record["text"]), {}, 0)
        return None

    def keeps(self, update: int) -> bool:
        """Returns whether an evaluation is made, or can be made."""
        return self.found(update) is not None or update in self._store.steps()

    def state(self, update: int) -> Snapshot | None:
        """Returns the state after `update` updates; None where a later checkpoint did without it."""
        self._store.wait()
        try:
            return self._store.read(update) if update in self._store.steps() else None
        except Damaged as error:
            LOG.warning("the state after update %d in %s is damaged: %s", update, self._folder / STATES, error)
            return None

    def settle(self, pending: Collection[int]) -> None:
        """Prepares for a checkpoint that names the `pending` evaluations, after the one before it is complete: their
        states are written, and those removed that neither of the two needs."""
        self._store.wait()
        self._remove(self._done)
        self._done = set(self._store.steps()) - set(pending)

    def forget(self, pending: Collection[int]) -> None:
        """Removes the states of all others than the `pending` evaluations; no write is under way."""
        self._remove(set(self._store.steps()) - set(pending))

    def close(self) -> None:
        """Ends the process."""
        self._store.close()
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # what it has begun is made again
            process.communicate()

    def _tell(self, update: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it is dead: see `alive`
                self._process.stdin.write(f"{update}\n")
                self._process.stdin.flush()

    def _remove(self, updates: Iterable[int]) -> None:
        for update in updates:
            shutil.rmtree(self._folder / STATES / str(update), ignore_errors=True)


def environment(config: Config) -> dict[str, str]:
    """Returns variables that give the process its own device: an accelerator that the training leaves, else the CPU."""
    count = "--xla_force_host_platform_device_count"
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(count)]
    more = {"XLA_FLAGS": " ".join([*flags, f"{count}=1"])}
    more["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # the user's own code
    if xla.on_cpu():
        return more
    used, visible = config.run.devices, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not 0 < used < jax.local_device_count():
        return more | {"JAX_PLATFORMS": "cpu"}
    return more | {"CUDA_VISIBLE_DEVICES": visible.split(",")[used] if visible else str(used)}


# ---- the process ----------------------------------------------------------------------------------------------------


def main(path: str) -> None:
    """Evaluates the states of a run whose updates come on standard input, until that ends."""
    os.nice(NICENESS)
    orders: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    run = RunDirectory(Path(path))
    config = configs.from_dict(presets.read(run.config_file))  # the training has checked what it names
    enable_compilation_cache(config.run.cache_dir)
    [(_, games)] = make_stages(config)
    player, evaluation = make_evaluation(config, games.evaluation)
    store = CheckpointStore(run.path / FOLDER / STATES, keep=ALL)
    best = _best(run)
    while True:
        update = orders.get()
        while update not in store.steps():  # it is being written
            time.sleep(WAIT)
        params = params_of(store.read(update).arrays, average=config.evaluate.average)
        players = policies(player, run.name, params, config.run.seeds)
        verdict = evaluation(players)
        if best is None or verdict.score > best[1]:
            best = update, verdict.score
        evaluation.keep_replays(run.replays, verdict, players, update, best[0])
        found: dict[str, Any] = {"row": verdict.row, "score": verdict.score, "text": verdict.text}
        write_json(run.path / FOLDER / f"{update}.json", found)


def _listen(orders: queue.SimpleQueue[int]) -> None:
    for line in sys.stdin:
        orders.put(int(line))
    os._exit(0)  # the training has ended, or was killed


def _best(run: RunDirectory) -> tuple[int, float] | None:
    """Returns the update and the score of the best evaluation so far."""
    with contextlib.suppress(UserError, ValueError, LookupError, TypeError):
        record = files.read(run.best_file)
        return int(record["update"]), float(record["score"])
    return None


if __name__ == "__main__":
    main(sys.argv[1])
