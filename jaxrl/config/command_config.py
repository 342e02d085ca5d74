"""`jaxrl config`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "explain every configuration key, or print a resolved configuration"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl config`."""
    help = "print this configuration, complete, with the origin of each value"
    arguments.config(parser, help, "preset", metavar="PRESET", nargs="?")
    arguments.config(parser, "the same", metavar="PRESET")
    arguments.allow(parser)
    parser.add_argument("--env", metavar="ID", help="print the options and settings of this game instead")
    arguments.overrides(parser, "changes to the configuration", "key.key=value")


def main(args: Namespace) -> int:
    """Runs `jaxrl config`."""
    from jaxrl.config import describe

    return describe.main(args)
