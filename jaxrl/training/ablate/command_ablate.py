"""`jaxrl ablate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "train without each part of a reward: what it is worth"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl ablate`."""
    arguments.devices(parser)
    arguments.config(
        parser, "a YAML file or the name of a shipped configuration (default: the defaults, for env.id=GAME)"
    )
    arguments.allow(parser)
    parser.add_argument("--name", help="name of the run (default: run.name, else that of the configuration or game)")
    arguments.overrides(parser)
    parser.add_argument(
        "--over",
        required=True,
        metavar="PATH",
        help="the option of the game that is a mapping of weights, e.g. env.options.rewards: each of them is left out",
    )
    parser.add_argument("--only", metavar="A,B", help="leave out these alone (default: all weights that are not 0)")
    parser.add_argument(
        "--seeds",
        type=arguments.whole,
        help="of each training, in one program (default: run.seeds, at least 3)",
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl ablate`."""
    from jaxrl.training.ablate import ablation

    return ablation.main(args)
