"""`jaxrl diagnose`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.text_tables import machine
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

DEVICES = "own"  # see `jaxrl.cli`
PROGRAMS = ("training", "evaluation", "search", "best response")


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl diagnose`."""
    arguments.devices(parser)
    engines = ", ".join(registry.games_with("diagnosis"))
    help = "diagnose the configuration of this run, or what a game needs whose engine is another program: "
    arguments.run(parser, help + engines, type=_run_or_engine, nargs="?")
    arguments.overrides(parser, "changes to the configuration", "a.b=value")
    arguments.config(parser, "diagnose this configuration (default: the defaults)", metavar="FILE")
    arguments.allow(parser)
    parser.add_argument(
        "--gpu",
        nargs="?",
        const="",
        metavar="CARD",
        help="compile for h100, h200, a100, rtx4080s, rtx4090 or a file with XLA's description of a GPU, on a machine "
        "without one, and count kernels and waits; without CARD lower everything and, on a GPU, compare the CPU",
    )
    parser.add_argument(
        "--programs",
        nargs="+",
        choices=PROGRAMS,
        default=PROGRAMS[:1],
        help="what to compile for CARD (default: training)",
    )
    parser.add_argument(
        "--budget",
        metavar="FILE",
        help="fail with exit code 1 where the training exceeds this budget of kernels and waits",
    )
    parser.add_argument("--save", type=arguments.new_file, metavar="FILE", help="write the report there too, as JSON")
    parser.add_argument("--plan", action="store_true", help="hours of the training, and its cost, instead")
    help = "with --plan: steps/s of the machines that would train: time/fps of a short run there (default: measured)"
    parser.add_argument("--rate", type=arguments.real, help=help)
    help = "with --plan: of all these machines for an hour"
    parser.add_argument("--price", type=arguments.real, help=help)
    parser.add_argument(
        "--seconds", type=arguments.real, default=2.0, help="how long each measurement takes (default: 2)"
    )


def _run_or_engine(text: str) -> str:
    """Returns the type of the argument RUN; a.b=value may stand in its place."""
    return text if "=" in text or text in registry.games_with("diagnosis") else names.run(text)


def main(args: Namespace) -> int:
    """Runs `jaxrl diagnose`."""
    if args.gpu:  # a card
        xla.prepare_gpu_compiler()
    from jaxrl.diagnose import hardware
    from jaxrl.diagnose import machine_report as report
    from jaxrl.games import deployment

    _check(args)
    if args.run in registry.games_with("diagnosis"):
        config = configs.load(args.config, [f"env.id={args.run}", *args.overrides], args.allow)
        print(machine(hardware.describe()))
        return 0 if registry.game_module(config.env.id, "diagnosis").diagnose(**deployment(config)) else 2
    if args.run is not None and "=" not in args.run:
        stage = report.reached_stage(args.run, args.overrides, args.allow)
    else:  # a.b=value may stand where a run could
        overrides = [args.run, *args.overrides] if args.run else args.overrides
        stage = configs.stages(configs.load(args.config, overrides, args.allow))[0]
    config = stage.config
    if args.plan:
        from jaxrl.diagnose.plan import print_plan

        print_plan(stage, args.rate, args.price, args.seconds)
        return 0
    if args.gpu:
        budget, name = Path(args.budget) if args.budget else None, Path(args.config or config.env.id).stem
        return 0 if report.compile_for_card(config, args.gpu, args.programs, budget, name) else 1
    xla.prepare_training(config)
    if stage.name:
        print(str(stage))
    if args.gpu == "":  # no card was named
        return 0 if report.ready_for_gpu(config) else 1
    report.report_machine(config, args.seconds, args.save)
    return 0


def _check(args: Namespace) -> None:
    """Raises UserError for options that are out of range, or do not go together."""
    if args.budget and not args.gpu:
        raise UserError("--budget is for a training that is compiled for a card: --gpu CARD.")
    if args.save and args.gpu is not None:
        raise UserError("--gpu has no report to --save.")
    for name in ("rate", "seconds"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise UserError(f"--{name} must be above 0, got {value:g}.")
    if args.price is not None and not args.price >= 0:
        raise UserError(f"--price must be at least 0, got {args.price:g}.")
    if args.plan and (args.save or args.gpu is not None):
        raise UserError("--plan goes without --save and --gpu.")
    if not args.plan and (args.rate or args.price is not None):
        raise UserError("--rate and --price are of a training's hours and cost: add --plan.")
    engine = args.run in registry.games_with("diagnosis")
    if args.config and args.run and not engine and "=" not in args.run:
        raise UserError("give either a run or --config, not both.")
