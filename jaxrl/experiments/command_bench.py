"""`jaxrl bench`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jaxrl.config import command_line as arguments

HELP = "compare configurations at equal CPU time: speed, time to strength, strength"
DEVICES = "none"  # see `jaxrl.cli`; every training is a process of its own


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl bench`."""
    arguments.allow(parser)
    parser.add_argument(
        "entries",
        nargs="+",
        metavar="CONFIG",
        help="a YAML file or a shipped configuration, with keys to change behind it: 'skull_king_cpu ppo.epochs=3'; "
        "a.b=v alone is for all of them",
    )
    help = "values of a grid; numbers of the algorithm train side by side in one program"
    parser.add_argument("--vary", nargs="+", default=[], metavar="a.b=V,W", help=help)
    parser.add_argument("--minutes", type=arguments.real, default=10.0, help="of the CPU for each training (10)")
    parser.add_argument("--steps", type=arguments.whole, help="environment steps of each training, instead of minutes")
    parser.add_argument("--seeds", type=arguments.whole, default=3, help="trainings of each configuration (default: 3)")
    help = "of the folder in --directory (default: bench)"
    parser.add_argument("--name", type=arguments.run_name, default="bench", help=help)
    parser.add_argument("--directory", default="runs", help="where the folder is (default: runs)")


def main(args: Namespace) -> int:
    """Runs `jaxrl bench`."""
    from jaxrl.experiments.bench import bench
    from jaxrl.experiments.contenders import parse

    folder = Path(args.directory).expanduser() / args.name
    wanted = parse(args.entries, args.vary, args.allow)
    return bench(wanted, minutes=args.minutes, steps=args.steps, seeds=args.seeds, folder=folder)
