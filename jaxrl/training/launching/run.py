"""A training from its first update, or its newest checkpoint, to its last evaluation: what a command calls."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Sequence

from jaxrl.config import Config
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory, enable_compilation_cache
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs import run_log
from jaxrl.runs.logs.run_log import LOG
from jaxrl.runs.presence import Here, present
from jaxrl.training.callbacks import Callback
from jaxrl.training.stages.stage_setup import Stages
from jaxrl.training.trainer import Trainer


def run_training(
    config: Config,
    run: RunDirectory,
    *,
    resume: bool,
    stages: Stages | None = None,
    callbacks: Sequence[Callback] = (),
) -> int:
    """Trains, saves and evaluates in `run`; the work of both commands. Callbacks are told besides those of `config`."""
    log = run_log.to_run(config.run.log_level, run.path, config.run.log_format)
    full = checkpoint.no_space_is_user_error(run.path)
    with distributed.on_rank0(run.lock), _present(config, run) as here, full, log:
        count = distributed.count()
        LOG.info("process %d of %d: pid %d on %s", distributed.rank(), count, os.getpid(), platform.node())
        enable_compilation_cache(config.run.cache_dir)
        with contextlib.closing(Trainer(config, run, resume=resume, stages=stages)) as trainer:
            trainer.callbacks.add(callbacks)
            if resume and trainer.finished:
                steps = trainer.steps
                print(
                    f"run {run.name!r} is finished: all {steps:,} steps ({trainer.update:,} updates) are done and "
                    f"evaluated; go further with: {next_command('resume', run.path, f'--steps {2 * steps}')}"
                )
            elif trainer.train():
                trainer.final_evaluation()
            else:
                then = next_command("resume", run.path)
                if here is not None:
                    here.stopped = True
                distributed.stopped_together()
                print(f"stopped after {trainer.update} updates and saved; continue with: {then}")
                return 128 + trainer.stopped  # as a shell calls what a signal has ended: 130 is Ctrl-C
    return 0


@contextlib.contextmanager
def _present(config: Config, run: RunDirectory) -> Iterator[Here | None]:
    """Says in the run's folder who trains, and how it has ended; the other processes leave that to the first."""
    if not distributed.is_rank0():
        yield None
        return
    with present(run.path, distributed.count()) as here:

        def farewell(why: str) -> None:
            here.lost(why)
            with contextlib.suppress(OSError):  # the disk may be what is gone
                run_log.last_word(f"{why}, so all of them end", run.path, config.run.log_format)

        distributed.on_peer_lost(farewell)  # also after the block, where a process may fail because another is gone
        yield here
