"""`jaxrl resume`: an existing run, exactly where its newest checkpoint left it."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentParser

from jaxrl import config as configs
from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.text_tables import flat
from jaxrl_envs.shared.errors import UserError

DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl resume`."""
    arguments.run(parser, type=names.run)
    arguments.allow(parser)
    parser.add_argument("--steps", help="train to this many environment steps (train.total_steps)")
    arguments.distributed(parser)
    arguments.overrides(parser, "configuration keys to change from here on")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl resume`."""
    if arguments.starts_processes(args):
        from jaxrl.training.launching.launch import launch

        return launch(args.words, args.processes, args.restarts)
    from jaxrl.runs.directory import find_run
    from jaxrl.runs.folder import next_command
    from jaxrl.training.launching.start import prepare, run_training
    from jaxrl.training.plan import make_plan

    run = find_run(args.run)
    if run.imitation_file.exists():
        raise UserError(
            f"run {run.name!r} was taught by jaxrl imitate and plays no games yet: begin a training with "
            f"`{next_command('train', run.path)}`."
        )
    overrides = [*args.overrides, *([f"train.total_steps={args.steps}"] if args.steps is not None else [])]
    config = configs.load(run.config_file, overrides, args.allow)
    before, now = (flat(configs.to_dict(each)) for each in (configs.load(run.config_file, [], args.allow), config))
    changed = [f"{key} {before.get(key)} -> {value}" for key, value in now.items() if value != before.get(key)]
    if changed:
        print(f"changed from here on: {'; '.join(changed)}", file=sys.stderr)
    prepare(config, args.distributed, args.coordinator, args.processes, args.rank)
    return run_training(make_plan(config), run, resume=True)
