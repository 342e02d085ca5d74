"""`jaxrl train`: a new run."""

from __future__ import annotations

import argparse
from pathlib import Path

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import presets
from jaxrl.envs.errors import UserError
from jaxrl.runs.directory import begun_run
from jaxrl.runs.games import make_games
from jaxrl.training.run import run_training


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl train`."""
    if not args.config and not any(text.startswith("env.id=") for text in args.overrides):
        known = ", ".join(presets.shipped())
        raise UserError(f"say what to train: --config with a YAML file or one of {known}, or a game as env.id=GAME.")
    config = configs.load(args.config, args.overrides, args.allow)
    default = Path(args.config).stem if args.config else config.env.id.rpartition(":")[2]
    config = configs.named(config, args.name or config.run.name or default)
    xla.prepare_training(config)
    games = make_games(config)  # before there is a directory: a mistake leaves nothing behind
    with begun_run(config) as run:
        return run_training(config, run, resume=False, games=games)
