"""`jaxrl plan`."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.config import command_line as arguments
from jaxrl.text_tables import machine, table
from jaxrl_envs.shared.errors import UserError

HELP = "estimate hours and cost of a training from its measured speed"
DEVICES = "own"  # see `jaxrl.cli`


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl plan`."""
    arguments.config(parser, "what would be trained (default: the defaults, for env.id=GAME)")
    arguments.allow(parser)
    arguments.overrides(parser)
    parser.add_argument("--steps", help="decisions of the training (default: train.total_steps)")
    help = "steps/s of the machines that would train: time/fps of a short run there (default: measured here)"
    parser.add_argument("--rate", type=arguments.real, help=help)
    parser.add_argument("--price", type=arguments.real, help="of all these machines for an hour")
    parser.add_argument("--seconds", type=arguments.real, default=2.0, help="how long to measure (default: 2)")


def main(args: Namespace) -> int:
    """Runs `jaxrl plan`."""
    for name in ("rate", "seconds"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise UserError(f"--{name} must be above 0, got {value:g}.")
    if args.price is not None and not args.price >= 0:
        raise UserError(f"--price must be at least 0, got {args.price:g}.")
    overrides = [*args.overrides, *([f"train.total_steps={args.steps}"] if args.steps is not None else [])]
    stage = configs.stages(configs.load(args.config, overrides, args.allow))[0]
    rate, row = (args.rate, {}) if args.rate else _measured(stage.config, args.seconds)
    hours = stage.config.run.seeds * stage.config.train.total_steps / rate / 3600
    row = {"steps/s": f"{rate:,.0f}", **row, "hours": f"{hours:.3g}"}
    row |= {"cost": f"{hours * args.price:,.2f}"} if args.price is not None else {}
    print(table([*row], [[*row.values()]]))
    if stage.name:
        print(f"{stage}, alone: hours assume that all of the training is like it.")
    print("Evaluations, checkpoints and compilation are left out; several seeds count one after the other.")
    return 0


def _measured(config: Config, seconds: float) -> tuple[float, dict[str, str]]:
    """Measures (steps/s, other cells of the table) of whole updates, with an untrained policy, here or on the fleet."""
    xla.prepare_training(config)
    from jaxrl.diagnose import hardware  # here, because they import jax
    from jaxrl.diagnose.timing import race
    from jaxrl.diagnose.training import Training
    from jaxrl.games import make_games
    from jaxrl.runs.logs.console import waiting

    print(machine(hardware.describe()))
    told = waiting(f"compiling the training step, then measuring it for {seconds:g} s ...", again=True)
    with told, contextlib.closing(Training(config, make_games(config).training)) as training:
        [speed] = race([training.contestant("training")], rounds=3, seconds=seconds)
        return speed.rate, {"games/s": f"{speed.rate * training.games_per_step():,.1f}"}
