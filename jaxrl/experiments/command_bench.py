"""`jaxrl bench`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jaxrl import config as configs
from jaxrl.config import command_line as arguments
from jaxrl_envs.shared.errors import UserError

DEVICES = "own"  # see `jaxrl.cli`; but for --without every training is a process of its own
MINUTES, SEEDS, NAME = 10.0, 3, "bench"


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
    help = "train CONFIG, and once without each weight of this option of the game, e.g. env.options.rewards"
    parser.add_argument("--without", metavar="PATH", help=help)
    help = "of --without: leave out these alone (default: all weights that are not 0)"
    parser.add_argument("--only", type=arguments.names, default=(), metavar="A,B", help=help)
    parser.add_argument("--minutes", type=arguments.real, help="of the CPU for each training (10)")
    help = "environment steps of each training, instead of minutes (of --without: train.total_steps)"
    parser.add_argument("--steps", type=arguments.whole, help=help)
    help = "trainings of each configuration (default: 3); of --without in one program"
    parser.add_argument("--seeds", type=arguments.whole, help=help)
    help = "of the folder in --directory (default: bench, or CONFIG-ablation)"
    parser.add_argument("--name", type=arguments.run_name, help=help)
    parser.add_argument("--directory", help="where the folder is (default: runs)")


def main(args: Namespace) -> int:
    """Runs `jaxrl bench`."""
    if args.without is not None:
        return _ablate(args)
    if args.only:
        raise UserError("--only names what --without leaves out: give its PATH too.")
    from jaxrl.experiments.bench import bench
    from jaxrl.experiments.contenders import parse

    folder = Path(args.directory or "runs").expanduser() / (args.name or NAME)
    seeds, minutes = SEEDS if args.seeds is None else args.seeds, MINUTES if args.minutes is None else args.minutes
    return bench(
        parse(args.entries, args.vary, args.allow), minutes=minutes, steps=args.steps, seeds=seeds, folder=folder
    )


def _ablate(args: Namespace) -> int:
    """Trains a configuration without each weight of an option."""
    if args.vary or args.minutes is not None:
        raise UserError("--without trains one configuration for its train.total_steps: leave --vary and --minutes out.")
    given = {"run.directory": args.directory, "train.total_steps": args.steps}
    overrides = [*args.entries, *(f"{key}={value}" for key, value in given.items() if value is not None)]
    config = configs.for_training(None, overrides, args.allow, args.name)
    from jaxrl.experiments.ablate import ablate

    return ablate(config, args.without, only=args.only, seeds=args.seeds)
