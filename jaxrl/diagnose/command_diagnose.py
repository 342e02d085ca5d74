"""`jaxrl diagnose`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments
from jaxrl_envs.contract import registry

HELP = "report where the time goes on this machine"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl diagnose`."""
    arguments.devices(parser)
    engines = ", ".join(registry.games_with("diagnosis"))
    help = "diagnose the configuration of this run, or what a game needs whose engine is another program: "
    arguments.run(parser, help + engines, nargs="?")
    arguments.overrides(parser, "changes to the configuration", "a.b=value")
    arguments.config(parser, "diagnose this configuration (default: the defaults)", metavar="FILE")
    arguments.allow(parser)
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="lower all that it would compile for a GPU, also on a machine without one; with one, compare the CPU and "
        "measure rates by batch",
    )
    parser.add_argument("--into", metavar="FILE", help="put the rates by batch there (--gpu; docs/results/measured.md)")
    parser.add_argument("--save", metavar="FILE", help="write the report there, for --compare")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two saved reports")
    parser.add_argument(
        "--seconds", type=arguments.real, default=2.0, help="how long each measurement takes (default: 2)"
    )


def main(args: Namespace) -> int:
    """Runs `jaxrl diagnose`."""
    from jaxrl.diagnose import machine_report

    return machine_report.main(args)
