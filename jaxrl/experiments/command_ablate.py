"""`jaxrl ablate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl import config as configs
from jaxrl.config import command_line as arguments

HELP = "train without each part of a reward: what it is worth"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl ablate`."""
    arguments.training(parser)
    parser.add_argument(
        "--over",
        required=True,
        metavar="PATH",
        help="the option of the game that is a mapping of weights, e.g. env.options.rewards: each of them is left out",
    )
    help = "leave out these alone (default: all weights that are not 0)"
    parser.add_argument("--only", type=arguments.names, default=(), metavar="A,B", help=help)
    parser.add_argument(
        "--seeds", type=arguments.whole, help="of each training, in one program (default: run.seeds, at least 3)"
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl ablate`."""
    config = configs.for_training(args.config, args.overrides, args.allow, args.name)
    from jaxrl.experiments.ablate import ablate

    return ablate(config, args.over, only=args.only, seeds=args.seeds)
