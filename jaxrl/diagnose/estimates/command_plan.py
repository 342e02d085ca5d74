"""`jaxrl plan`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments

HELP = "predict hours and cost, of a fleet of workers or on a GPU"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl plan`."""
    arguments.config(parser, "what would be trained (default: the defaults, for env.id=GAME)")
    arguments.allow(parser)
    arguments.overrides(parser)
    parser.add_argument("--steps", help="decisions of the training (default: train.total_steps)")
    parser.add_argument("--num-envs", help="games side by side (default: train.num_envs)")
    parser.add_argument("--machines", type=arguments.whole, help="of the fleet (default: as many as its workers need)")
    parser.add_argument("--cores", type=arguments.whole, help="of each machine (default: those of this one)")
    parser.add_argument("--workers", type=arguments.whole, help="of the largest fleet (default: one for each core)")
    parser.add_argument("--price", type=arguments.real, help="of a machine (with --card: of the GPU) for an hour")
    parser.add_argument("--gbit", type=arguments.real, default=10.0, help="Gbit/s between machines (default: 10)")
    parser.add_argument(
        "--seconds", type=arguments.real, default=2.0, help="how long each measurement takes (default: 2)"
    )
    parser.add_argument("--card", nargs="+", metavar="GPU", help="estimate for GPUs instead: h100, rtx16")
    parser.add_argument("--all", action="store_true", help="with --card: all shipped configurations")


def main(args: Namespace) -> int:
    """Runs `jaxrl plan`."""
    from jaxrl.diagnose.estimates import estimate

    return estimate.main(args)
