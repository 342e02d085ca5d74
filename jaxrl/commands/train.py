"""`jaxrl train`: a new run."""

from __future__ import annotations

import argparse
from pathlib import Path

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.runs.directory import begun_run
from jaxrl.runs.games import make_games
from jaxrl.training.trainer import run_training


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl train`."""
    config = configs.load(args.config, args.overrides, args.allow)
    config = configs.named(config, args.name or config.run.name or Path(args.config).stem)
    xla.prepare_training(config)
    games = make_games(config)  # before there is a directory: a mistake leaves nothing behind
    with begun_run(config) as run:
        return run_training(config, run, resume=False, games=games)
