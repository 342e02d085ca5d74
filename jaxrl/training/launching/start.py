"""How a training starts: it joins the other processes, begins or finds its run, and trains and evaluates it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import jaxrl
from jaxrl import config as configs
from jaxrl import xla
from jaxrl.algorithms.registry import find_algorithm
from jaxrl.config import Config, presets
from jaxrl.runs import distributed
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory, begun_run, enable_compilation_cache
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs import run_log
from jaxrl.runs.logs.run_log import LOG
from jaxrl.runs.metric_log import read_rows
from jaxrl.runs.presence import Here, present
from jaxrl.text_tables import flat, sparkline
from jaxrl.training.callbacks import Callback
from jaxrl.training.loop import Training
from jaxrl.training.plan import Plan, make_plan, with_origin
from jaxrl.training.stages.curriculum import Course
from jaxrl.training.stages.stage_setup import check_learners
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import divides


def train(config: Config, *, goes_on: bool = False, callbacks: Sequence[Callback] = ()) -> int:
    """Trains a new run; returns the exit code. Raises UserError: the training cannot start, or the saved run was begun
    with other settings. `goes_on`: continue the run of that name if it is saved already. `callbacks`: callbacks that
    are told besides those of the configuration."""
    run = RunDirectory(config.run.path)
    if not (goes_on and distributed.broadcast(run.checkpoints().saved)):
        plan = make_plan(config)  # before there is a directory: a mistake leaves nothing behind
        with begun_run(config) as run:
            return run_training(plan, run, resume=False, callbacks=callbacks)
    other = f"change it with `{next_command('resume', run.path, 'KEY=VALUE')}`, or give another --name."
    return run_training(make_plan(begun_config(run, config, other)), run, resume=True, callbacks=callbacks)


def prepare(config: Config, join: bool, coordinator: str | None, processes: int | None, rank: int | None) -> None:
    """Joins the other processes, if there are any, and tells XLA what the training needs; before it computes. Raises
    UserError: they cannot be joined, or cannot share the training, or have another configuration or version.
    `coordinator`, `processes`, `rank`: arguments as of `distributed.join`."""
    if join:
        distributed.join(coordinator, processes, rank)
        text = json.dumps(configs.to_dict(config), sort_keys=True)
        versions = {"version of jaxrl": jaxrl.__version__, "version of jax": jax.__version__}
        distributed.check_equal(versions | {"configuration": text})
    elif any(each is not None for each in (coordinator, processes, rank)):
        raise UserError("--coordinator, --processes and --rank go with --distributed.")
    xla.prepare_training(config, distributed.count())


def check_processes(config: Config, env: Env) -> None:
    """Raises UserError for what several processes cannot train together."""
    if distributed.count() == 1:
        return
    alone = ""
    if not find_algorithm(config.train.algorithm).many_devices:
        alone = f"{config.train.algorithm} learns on one device"
    elif config.fleet.workers:
        alone = "fleet.workers plays games on other machines already"
    elif config.evaluate.beside:
        alone = "evaluate.beside evaluates in a process of its own"
    elif env.remote:
        alone = f"{config.env.id} is played by engines of other processes"
    if alone:
        raise UserError(f"{alone} and so trains in one process alone: leave --distributed out.")
    if env.host:
        divides(config.sebulba.actors, distributed.count(), "sebulba.actors", "the number of processes")


def begun_config(run: RunDirectory, config: Config, otherwise: str) -> Config:
    """Returns the saved configuration of a run that goes on, where `config` describes it once more. Raises UserError:
    it was begun with other settings, of those that change what is learnt; and `otherwise`."""
    begun = configs.from_dict(presets.read(run.config_file))
    check_same(run.path, settings_of(begun), settings_of(config), otherwise)
    return dataclasses.replace(config, train=dataclasses.replace(config.train, from_run=begun.train.from_run))


def settings_of(config: Config) -> dict[str, Any]:
    """Returns the keys that change what is learnt, but for what a run has written out itself (`train.from_run`)."""
    section = registry.section_of(config.env.id)  # where an engine runs
    game = {config.env.id: section()} if section is not None else {}
    own = dataclasses.replace(config, **{name: each.without_deployment() for name, each in config.sections()}, **game)
    return flat(configs.to_dict(own))


def check_same(place: Path, begun: Mapping[str, Any], now: Mapping[str, Any], otherwise: str) -> None:
    """Raises UserError, with `otherwise`, if what was begun at `place` has other settings."""
    if other := [key for key in {**begun, **now} if begun.get(key) != now.get(key)]:
        told = f"{place} was begun with {other[0]} {begun.get(other[0])!r}, not {now.get(other[0])!r}"
        raise UserError(f"{told}: {otherwise}")


def make_training(plan: Plan, run: RunDirectory, *, resume: bool) -> Training:
    """Returns a training that goes on from the newest intact checkpoint of its run, or begins, maybe with what
    `train.from_run` names. Raises UserError: every checkpoint is damaged, or one of them, or the origin, is of another
    game or network.

    Args:
      run: its directory, locked by the caller.
      resume: whether to go on, if a checkpoint was ever saved.
    """
    check_learners(plan.stages)
    distributed.connect_devices()
    course, store = Course(plan.stages), run.checkpoints()
    if resume and distributed.broadcast(store.saved):
        return Training(plan, run, course, course.newest_checkpoint(store))
    return Training(with_origin(plan), run)


def run_training(plan: Plan, run: RunDirectory, *, resume: bool, callbacks: Sequence[Callback] = ()) -> int:
    """Trains, saves and evaluates in a run; returns the exit code. Raises UserError: another process trains the run, or
    the training cannot go on. `resume`: continue from the newest intact checkpoint."""
    config = plan.config
    level, full = config.run.log_level, checkpoint.no_space_is_user_error(run.path)
    with distributed.on_rank0(run.lock), _present(run) as here, full, run_log.to_run(level, run.path):
        count = distributed.count()
        LOG.info("process %d of %d: pid %d on %s", distributed.rank(), count, os.getpid(), platform.node())
        enable_compilation_cache(config.run.cache_dir)
        for stage, games in plan.stages:
            check_processes(stage.config, games.training)
        with contextlib.closing(make_training(plan, run, resume=resume)) as training:
            training.reports.callbacks.add(callbacks)
            asked, total = config.train.total_steps, config.num_updates * config.batch_size
            if total != asked and distributed.is_rank0():
                print(f"train.total_steps: {asked:,}, rounded up to whole calls: {total:,}", file=sys.stderr)
            if resume and training.finished:
                print(_ended(training))
            elif training.train():
                training.final_evaluation()
                if distributed.is_rank0():
                    print(_goodbye(run, "film" if plan.stages[-1][1].training.simultaneous else "play"))
            else:
                then = next_command("resume", run.path)
                if here is not None:
                    here.stopped = True
                distributed.stopped_together()
                print(f"stopped after {training.update} updates and saved; continue with: {then}")
                return 128 + training.stopped  # as a shell calls what a signal has ended: 130 is Ctrl-C
    return 0


def _goodbye(run: RunDirectory, command: str) -> str:
    """Returns the learning curve in a line, if there is one, and the command by which one meets the policy."""
    rows = read_rows(run.metrics_file) if run.metrics_file.exists() else []
    rates = [row["eval/mean_win_rate"] for row in rows if row.get("eval/mean_win_rate") is not None]
    curve = (
        f"win rate during training: {sparkline(rates)} {rates[0]:.1%} to {rates[-1]:.1%}\n" if len(rates) > 1 else ""
    )
    return f"{curve}{'watch' if command == 'film' else 'play'} it: {next_command(command, run.path)}"


def _ended(training: Training) -> str:
    """Returns the message of `resume` for a run with nothing left to do."""
    run, steps = training.run, training.steps
    done = f"{steps:,} steps ({training.update:,} updates)"
    if training.update < training.config.num_updates:
        then = next_command("resume", run.path, "train.stop=")
        return f"run {run.name!r} has ended after {done} and is evaluated: {training.over}; go further with: {then}"
    then = next_command("resume", run.path, f"--steps {2 * steps}")
    return f"run {run.name!r} is finished: all {done} are done and evaluated; go further with: {then}"


@contextlib.contextmanager
def _present(run: RunDirectory) -> Iterator[Here | None]:
    """Says in the run's folder who trains, and how it has ended; the other processes leave that to the first."""
    if not distributed.is_rank0():
        yield None
        return
    with present(run.path, distributed.count()) as here:

        def farewell(why: str) -> None:
            here.lost(why)
            with contextlib.suppress(OSError):  # the disk may be what is gone
                run_log.last_word(f"{why}, so all of them end", run.path)

        distributed.on_peer_lost(farewell)  # also after the block, where a process may fail because another is gone
        yield here
