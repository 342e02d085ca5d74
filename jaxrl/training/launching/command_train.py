"""`jaxrl train`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl import config as configs
from jaxrl.config import command_line as arguments

DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl train`."""
    arguments.training(parser)
    help = "go on with the run of that name if it is saved already; refuses other settings than it was begun with"
    parser.add_argument("--continue", action="store_true", dest="goes_on", help=help)
    arguments.distributed(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl train`."""
    if arguments.starts_processes(args):
        from jaxrl.training.launching.launch import launch

        return launch(args.words, args.processes, args.restarts)
    config = configs.for_training(args.config, args.overrides, args.allow, args.name)
    from jaxrl.training.launching.start import prepare, train

    prepare(config, args.distributed, args.coordinator, args.processes, args.rank)
    return train(config, goes_on=args.goes_on)
