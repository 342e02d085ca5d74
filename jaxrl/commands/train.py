"""`jaxrl train`: a new run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jaxrl import config as configs
from jaxrl import processes, xla
from jaxrl.config import Config, presets
from jaxrl.envs.errors import UserError
from jaxrl.runs.directory import RunDirectory, begun_run
from jaxrl.runs.games import make_stages
from jaxrl.training.run import run_training


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl train`."""
    config = described(args)
    prepare(args, config)
    if args.goes_on and processes.agreed(lambda: RunDirectory(config.run.path).checkpoints().saved()):
        run = RunDirectory(config.run.path)
        return run_training(configs.load(run.config_file, (), args.allow), run, resume=True)
    stages = make_stages(config)  # before there is a directory: a mistake leaves nothing behind
    with begun_run(config) as run:
        return run_training(config, run, resume=False, stages=stages)


def prepare(args: argparse.Namespace, config: Config) -> None:
    """Joins the other processes, with --distributed, and tells XLA what the training needs; before it computes.

    Raises:
      UserError: they cannot be joined, or cannot share the training.
    """
    if args.distributed:
        processes.join(args.coordinator, args.processes, args.rank)
    elif any(each is not None for each in (args.coordinator, args.processes, args.rank)):
        raise UserError("--coordinator, --processes and --rank go with --distributed.")
    xla.prepare_training(config, processes.count())


def described(args: argparse.Namespace) -> Config:
    """The configuration of the training that the command line describes, with its name.

    Raises:
      UserError: it describes none, or a wrong one.
    """
    if not args.config and not any(text.startswith("env.id=") for text in args.overrides):
        known = ", ".join(presets.shipped())
        raise UserError(f"say what to train: --config with a YAML file or one of {known}, or a game as env.id=GAME.")
    config = configs.load(args.config, args.overrides, args.allow)
    default = default_name(args.config, config.env.id, args.overrides)
    return configs.named(config, args.name or config.run.name or default)


def default_name(file: str | None, game: str, overrides: Sequence[str]) -> str:
    """That of the configuration file, or of the game if the command line names another one than the file."""
    if file:
        path, said = presets.find(file), presets.game_of(presets.apply_overrides({}, overrides))
        if said is None or {presets.game_of(layer.tree) for layer in presets.layers(path)} <= {None, said}:
            return path.stem
    return game.rpartition(":")[2]
