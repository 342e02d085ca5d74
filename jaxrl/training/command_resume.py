"""`jaxrl resume`: an existing run, exactly where its newest checkpoint left it."""

from __future__ import annotations

import argparse

from jaxrl import config as configs
from jaxrl.runs.directory import find_run
from jaxrl.runs.folder import next_command
from jaxrl.training.command_train import prepare
from jaxrl.training.run import run_training
from jaxrl_envs.shared.errors import UserError


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl resume`."""
    run = find_run(args.run)
    if run.imitation_file.exists():
        raise UserError(
            f"run {run.name!r} was taught by jaxrl imitate and plays no games yet: begin a training with "
            f"`{next_command('train', run.path)}`."
        )
    overrides = [*args.overrides, *([f"train.total_steps={args.steps}"] if args.steps is not None else [])]
    config = configs.load(run.config_file, overrides, args.allow)
    prepare(args, config)
    return run_training(config, run, resume=True)
