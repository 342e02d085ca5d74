"""`jaxrl plan`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl import xla
from jaxrl.config import command_line as arguments
from jaxrl.config import presets
from jaxrl_envs.shared.errors import UserError

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
    parser.add_argument(
        "--card", nargs="+", metavar="GPU", help="compile for GPUs instead: h100, a100, rtx4080s, rtx4090"
    )
    parser.add_argument("--all", action="store_true", help="with --card: all shipped configurations")


def main(args: Namespace) -> int:
    """Runs `jaxrl plan`."""
    if args.card:
        xla.prepare_gpu_compiler()
    from jaxrl.diagnose.estimates.estimate import PlanOptions, estimate, estimate_on_cards, first_stage

    if args.all and (args.config or not args.card):
        raise UserError("--all is for --card, without --config.")
    options = PlanOptions(args.machines, args.cores, args.workers, args.gbit, args.seconds, args.price)
    overrides = list(args.overrides)
    overrides += [f"train.num_envs={args.num_envs}"] if args.num_envs is not None else []
    overrides += [f"train.total_steps={args.steps}"] if args.steps is not None else []
    if not args.card:
        estimate(first_stage(args.config, overrides, args.allow), options)
        return 0
    for name in ("machines", "cores", "workers"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name} is for a fleet and does not go with --card.")
    names = [*presets.shipped()] if args.all else [args.config]
    estimate_on_cards(names, args.card, overrides, args.allow, price=args.price, brief=args.all)
    return 0
