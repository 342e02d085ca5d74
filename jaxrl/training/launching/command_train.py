"""`jaxrl train`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "train an agent: `jaxrl train --config skull_king_cpu`"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl train`."""
    arguments.devices(parser)
    arguments.config(
        parser, "a YAML file or the name of a shipped configuration (default: the defaults, for env.id=GAME)"
    )
    arguments.allow(parser)
    parser.add_argument("--name", help="name of the run (default: run.name, else that of the configuration or game)")
    arguments.overrides(parser)
    help = "go on with the run of that name if it is saved already; refuses other settings than it was begun with"
    parser.add_argument("--continue", action="store_true", dest="goes_on", help=help)
    arguments.distributed(parser)


def main(args: Namespace) -> int:
    """Runs `jaxrl train`."""
    from jaxrl.training.launching import start

    return start.main(args)
