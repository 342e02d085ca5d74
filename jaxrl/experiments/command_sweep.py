"""`jaxrl sweep`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.config import command_line as arguments

DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl sweep`."""
    arguments.training(parser)
    parser.add_argument(
        "--over",
        required=True,
        action="append",
        metavar="KEY=VALUES",
        help="a key to search: LOW..HIGH (whole numbers if both are written so), LOW..HIGH:log, or choices A,B,C; "
        "repeatable",
    )
    help = "trials of the whole sweep, those of earlier starts included (default: 20)"
    parser.add_argument("--trials", type=arguments.whole, default=20, metavar="N", help=help)
    help = "trials in one program, where the keys are numbers of the algorithm; they are pruned together (default: 4)"
    parser.add_argument("--side-by-side", type=arguments.whole, default=4, metavar="N", help=help)
    help = "prune no trial (otherwise those that are below the median of the others at an evaluation in training)"
    parser.add_argument("--no-pruning", action="store_false", dest="pruning", help=help)


def main(args: Namespace) -> int:
    """Runs `jaxrl sweep`."""
    from jaxrl.experiments.sweep import sweep

    def load(more: Sequence[str], name: str | None) -> Config:
        return configs.for_training(args.config, [*args.overrides, *more], args.allow, name or args.name)

    return sweep(load, args.over, trials=args.trials, side_by_side=args.side_by_side, pruning=args.pruning)
