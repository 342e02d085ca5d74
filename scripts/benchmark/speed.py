"""`python -m scripts.benchmark.speed`: environment steps and training steps per second of a configuration, apart.

    taskset -c 0 python -m scripts.benchmark.speed --config skull_king_cpu      # on one core; without taskset on all
    python -m scripts.benchmark.speed --config battle_speed --quick

The first table is the game alone: random play by games at once (lean: nothing observed; observed: observation and mask
written in every step; endless: lean without the reset), then each bot on all seats. A game on the host is played
through the bridge, always observed, by one thread and by all cores. The second table is the training, in whole
iterations.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import jax

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import Config, command_line
from jaxrl.diagnose import play
from jaxrl.diagnose.host_play import through_bridge
from jaxrl.diagnose.timing import Contestant, Speed, safe_ratio
from jaxrl.diagnose.training import MeasuredTraining, playing
from jaxrl.games import make_games
from jaxrl.runs.config import device_count
from jaxrl_envs.contract.env import Env
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark.report import compare

CPU_BATCHES, ACCELERATOR_BATCHES = (1024, 4096, 16384), (8192, 65536, 524288)  # games at once
HOST_BATCH = 512
EFFORT = {False: (7, 0.5), True: (3, 0.2)}  # by --quick: rounds, and seconds of a turn


def compiled(env: Env, devices: int, quick: bool) -> list[Contestant]:
    """Returns random play of a compiled game by batch (`quick`: one) and view, and other bots on all seats."""
    batches = [batch // devices * devices for batch in (CPU_BATCHES if xla.on_cpu() else ACCELERATOR_BATCHES)]
    middle = batches[1]
    entries = [("random", batch, view) for view in ("lean", "observed") for batch in ([middle] if quick else batches)]
    entries += [("random", middle, "endless")]
    entries += [(bot, middle, "lean") for bot in env.bots if bot != "random"]
    return [
        play.contestant(
            env, batch=batch, view=view, devices=devices, player=bot, name=f"{bot} bot, {view}, {batch:,} games"
        )
        for bot, batch, view in entries
    ]


def reset_share(speeds: Sequence[Speed]) -> float:
    """Returns the share of a lean step that the reset takes, from the pair at the batch where it is left out."""
    [endless] = [each for each in speeds if each.info["view"] == "endless"]
    lean = next(e for e in speeds if e.info["view"] == "lean" and e.info["batch"] == endless.info["batch"])
    return 1.0 - safe_ratio(lean.rate, endless.rate)


def measure_compiled(config: Config, env: Env, training: MeasuredTraining, quick: bool) -> None:
    """Prints both tables of a compiled game, and where the time of its training goes."""
    devices, train = device_count(config, jax.local_device_count()), config.train
    rounds, seconds = EFFORT[quick]
    speeds = compare(f"{env.id}, environment steps", compiled(env, devices, quick), rounds=rounds, seconds=seconds)
    print(f"reset: {reset_share(speeds):.0%} of a lean step; {play.program_size(env):,} equations in a step")
    same: dict[str, Any] = {"batch": train.num_envs, "steps": train.num_steps, "devices": devices}
    parts = [training.contestant("training"), play.contestant(env, view="observed", name="the game alone", **same)]
    alone = playing(training.program)
    parts += [alone._replace(name="the game and the network")] if alone else []
    whole, game, *rollout = compare(f"{env.id}, training steps", parts, rounds=rounds, seconds=2 * seconds)
    print(f"of the training's time: environment {safe_ratio(whole.rate, game.rate):.1%}", end="")
    print("".join(f", environment and inference {safe_ratio(whole.rate, each.rate):.1%}" for each in rollout))
    print("of its steps: " + ", ".join(f"{name} {share:.1%}" for name, share in training.decisions().items()))


def measure_host(env: HostEnv, training: MeasuredTraining, quick: bool) -> None:
    """Prints both tables of a game on the host, and how busy its engine is."""
    rounds, seconds = EFFORT[quick]
    with contextlib.ExitStack() as stack:
        bots, threads = range(len(env.game.bots)), sorted({1, xla.cores()})
        ours = [through_bridge(stack, env.game, HOST_BATCH, count, bot) for bot in bots for count in threads]
        compare(f"{env.id}, environment steps", ours, rounds=rounds, seconds=seconds)
    compare(f"{env.id}, training steps", [training.contestant("training")], rounds=rounds, seconds=2 * seconds)
    busy = training.facts()["figures"]["engine_busy"]
    print(f"the engine's threads work for {busy:.1%} of the training's time")


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the program's options."""
    parser = cli.Parser(prog="python -m scripts.benchmark.speed", description=__doc__.partition("\n")[0])
    command_line.config(parser, "what is trained (default: the defaults of every key)", metavar="FILE")
    command_line.overrides(parser)
    command_line.allow(parser)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter turns and one batch: a first impression")
    return parser


def run(args: argparse.Namespace) -> int:
    """Measures and prints. Raises UserError if the engine is another program, of which hundreds of games would be as
    many processes."""
    config = configs.load(args.config, args.overrides, args.allow)
    xla.prepare_training(config)
    env = make_games(config).training
    if isinstance(env, HostEnv) and env.game.remote:
        raise UserError(f"the engine of {env.id} is another program: use `python -m scripts.benchmark.{env.id}`.")
    with contextlib.closing(MeasuredTraining(config, env)) as training:
        if isinstance(env, HostEnv):
            measure_host(env, training, args.quick)
        else:
            measure_compiled(config, env, training, args.quick)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    return cli.guarded(lambda: run(arguments().parse_intermixed_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
