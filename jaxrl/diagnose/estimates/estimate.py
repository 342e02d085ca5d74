"""`jaxrl plan`: estimates games per second, hours and cost of a training from short measurements on this machine, or,
with `--card`, for a GPU that is not here."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Iterator, Sequence

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage, presets
from jaxrl.diagnose import hardware
from jaxrl.diagnose.estimates.fleet import PARTS, SimulatedFleet, predict
from jaxrl.text_tables import count, machine, table
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

LARGEST = 10_000  # workers
MULTIPLES = (1, 4, 16)  # of the configured games, in the table of one configuration


def main(args: argparse.Namespace) -> int:
    """Prints an estimate."""
    from jaxrl.games import make_games

    _check(args)
    if args.card:
        return _gpus(args, [*presets.shipped()] if args.all else [args.config])
    stage = _stage(args, args.config)
    config = stage.config
    xla.prepare_training(config)
    games = make_games(config)
    print(machine(hardware.describe()))
    if stage.name:
        print(f"{stage}, measured alone: hours assume that all of the training is like it.")
    if games.training.host:
        _fleets(args, config, games.training)
    else:
        _here(args, config, games.training)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UserError for options that are out of range, or do not go together."""
    if args.all and (args.config or not args.card):
        raise UserError("--all is for --card, without --config.")
    for name in ("machines", "cores", "workers", "gbit", "seconds"):
        value = getattr(args, name)
        if value is not None and not value > 0:
            raise UserError(f"--{name} must be above 0, got {value:g}.")
        if args.card and name in ("machines", "cores", "workers") and value is not None:
            raise UserError(f"--{name} is for a fleet and does not go with --card.")
    if args.price is not None and not args.price >= 0:
        raise UserError(f"--price must be at least 0, got {args.price:g}.")


def _stage(args: argparse.Namespace, name: str | None) -> Stage:
    """The stage that would be trained: of a curriculum the first one."""
    overrides = list(args.overrides)
    if args.num_envs is not None:
        overrides.append(f"train.num_envs={args.num_envs}")
    if args.steps is not None:
        overrides.append(f"train.total_steps={args.steps}")
    return configs.stages(configs.load(name, overrides, args.allow))[0]


def _costs(args: argparse.Namespace, config: Config, rate: float, machines: int = 1) -> list[str]:
    """Table cells: hours of the whole training with all seeds and, if a price is given, their cost."""
    hours = config.run.seeds * config.train.total_steps / rate / 3600
    return [f"{hours:.3g}", *([f"{hours * machines * args.price:,.2f}"] if args.price is not None else [])]


def _cost_heads(args: argparse.Namespace) -> list[str]:
    return ["hours", *(["cost"] if args.price is not None else [])]


# ---- games on the host --------------------------------------------------------------------------------------------


def _fleets(args: argparse.Namespace, config: Config, env: Env) -> None:
    """Prints estimates for fleets of 1, 2, 4, ... workers, simulated from measured times."""
    from jaxrl.diagnose.estimates.microbenchmarks import measure  # here, because it imports every part of a training

    cores = args.cores or xla.cores()
    most = args.workers or max(1, int((args.machines or 1) * cores / config.fleet.cpus))
    if most > LARGEST:
        raise UserError(f"a fleet of {most:,} workers is beyond what is simulated: {LARGEST:,} at most (--workers).")
    first = _fleet(args, config, most, cores)
    block = first.workers // first.actors * first.part
    found = measure(config, env, first.part, block, gbit=args.gbit, seconds=args.seconds)
    times = found.times
    print(
        f"a decision in the engine {_ms(times.engine)}, {_ms(times.engine_cpu)} of it computing: "
        f"{count(1 / times.engine)} decisions/s on a core\n"
        f"answers of the policy for a block of {block} games {_ms(times.answers.at(block))}; "
        f"learning {_ms(1e3 * times.update)} for 1,000 decisions\n"
        f"a call to a worker {_ms(times.transport.fixed + times.remote.fixed)} and "
        f"{_ms(times.transport.each + times.remote.each)} for each observation ({found.transport})"
    )
    if times.engine < times.transport.each + times.remote.each + times.transport.fixed / max(1, first.part):
        print("This engine is faster than the way of its observations: it is better played beside the learner.")
    rows = []
    for workers in sorted({*(2**i for i in range(most.bit_length())), most}):
        fleet = _fleet(args, config, workers, cores)
        one = predict(times, fleet)
        games = "" if found.decisions_per_game is None else f"{one.rate / found.decisions_per_game:,.1f}"
        rate = [f"{one.rate:,.0f}", games, *_costs(args, config, one.rate, fleet.machines)]
        shares = [f"{100 * one.engines:.0f}", f"{100 * one.learner:.0f}", f"{one.limit} (+{100 * one.gain:.0f} %)"]
        rows.append([str(workers), str(fleet.actors), str(fleet.machines), str(fleet.games), *rate, *shares])
    head = ["workers", "actors", "machines", "games", "decisions/s", "games/s", *_cost_heads(args)]
    print(table([*head, "engines busy %", "learner busy %", "limit (gain if twice as fast)"], rows))
    print(
        f"Simulated, with these assumptions: the parts ({', '.join(PARTS)}) take as long there as here, with whatever "
        "else ran here; decisions are as in random play; workers beyond the cores share them; between machines "
        f"{args.gbit:g} Gbit/s; policy and learner are on the first machine and share its cores; each worker plays "
        f"{first.part * first.groups} games, so a larger fleet means more games and larger rollouts; no update stops "
        "early; several seeds are trained one after the other. Evaluations, checkpoints and the start are left out. "
        "Parameters stay with the learner: no broadcast."
    )


def _fleet(args: argparse.Namespace, config: Config, workers: int, cores: int) -> SimulatedFleet:
    """A fleet of `workers`, each with the games of a configured worker, or of an actor if no workers are configured."""
    sebulba, fleet = config.sebulba, config.fleet
    share = config.train.num_envs // (fleet.workers or sebulba.actors)
    return SimulatedFleet(
        workers=workers,
        part=max(1, share // sebulba.groups),
        actors=max(each for each in range(1, min(sebulba.actors, workers) + 1) if workers % each == 0),
        groups=min(sebulba.groups, share),
        steps=config.train.num_steps,
        lag=sebulba.lag,
        threads=max(1, int(fleet.cpus)),
        machines=args.machines or math.ceil(workers * fleet.cpus / cores),
        cores=cores,
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


# ---- compiled games -----------------------------------------------------------------------------------------------


def _here(args: argparse.Namespace, config: Config, env: Env) -> None:
    """Prints the estimate for a compiled game from whole updates on this machine."""
    from jaxrl.diagnose.timing import race
    from jaxrl.diagnose.training import Training

    if args.machines or args.workers:
        raise UserError(
            "compiled games have no workers: leave --machines and --workers out, or choose a GPU with --card."
        )
    with contextlib.closing(Training(config, env)) as training:
        [speed] = race([training.contestant("training")], rounds=3, seconds=args.seconds)
        games = speed.rate * training.games_per_step()
    head = ["steps/s", "games/s", *_cost_heads(args), "limit"]
    cells = [f"{speed.rate:,.0f}", f"{games:,.1f}", *_costs(args, config, speed.rate), "one compiled program"]
    print(table(head, [cells]))
    print(
        "Measured: whole updates on this machine. Evaluations, checkpoints and compilation "
        f"({speed.first_seconds:.0f} s) are left out; game lengths are those of an untrained policy."
    )


# ---- GPUs ---------------------------------------------------------------------------------------------------------


def _gpus(args: argparse.Namespace, names: Sequence[str | None]) -> int:
    """Prints the table of some configurations for each GPU."""
    from jaxrl.diagnose.estimates.roofline import GPUS, LAUNCH, SATURATED, UPDATES, USABLE

    for name in args.card:
        if name not in GPUS:
            raise UserError(f"unknown GPU {name!r}; known: {', '.join(GPUS)}.")
    rows: dict[str, list[list[str]]] = {name: [] for name in args.card}  # each once
    for name in names:
        try:
            for gpu, row in _of_gpus(args, name):
                rows[gpu].append(row)
        except UserError as error:
            if not args.all:
                raise
            print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
    head = ["configuration", "games", "updates", "kernels/update", "FLOPs/step", "bytes/step", "memory GiB"]
    head += ["steps/s at most", "saturated %", "saturates at", *(f"{each} at least" for each in _cost_heads(args))]
    for name, cells in rows.items():
        facts = GPUS[name]
        room = f"{facts.memory / 1e9:g} GB, {facts.bandwidth / 1e9:,.0f} GB/s"
        peaks = f"{facts.peak32 / 1e12:g} TFLOP/s in float32, {facts.peak16 / 1e12:g} in bfloat16"
        print(f"\n{facts.name}: {room}, {peaks} ({facts.source})\n")
        print(table(head, cells))
    print(
        "\nEstimates, not measured on a GPU: operations and bytes of the traced program, fused by rule; an update "
        "takes its arithmetic or its memory traffic at the data sheet's peak, the longer one, and "
        f"{1e6 * LAUNCH:g} us for each kernel. Saturated: the share that is not launches; a GPU saturates at "
        f"{100 * SATURATED:.0f} %. *: train.num_envs for this GPU, where it saturates or the largest that fits in "
        f"{100 * USABLE:.0f} % of the memory and leaves {UPDATES} updates. h: games on the host, the network's part "
        "alone. 1: of a curriculum, as if all of it were its first stage."
    )
    return 0


def _of_gpus(args: argparse.Namespace, name: str | None) -> Iterator[tuple[str, list[str]]]:
    """Yields (gpu, row) for some numbers of games, among them the one that suits the GPU."""
    from jaxrl.diagnose.estimates import roofline
    from jaxrl.games import make_games

    stage = _stage(args, name)
    config = stage.config
    xla.prepare_training(config)
    games = make_games(config)
    marks = (" h" if games.training.host else "") + (" 1" if stage.name else "")
    work, title = roofline.work(config, games), f"{name or 'defaults'}{marks}"
    for gpu in dict.fromkeys(args.card):
        spec = roofline.GPUS[gpu]
        chosen, saturating = roofline.choose(spec, work), roofline.saturating(spec, work)
        multiples = MULTIPLES[:1] if args.all else MULTIPLES
        for number in sorted({*(work.games * each for each in multiples), *([chosen.games] if chosen else [])}):
            row = roofline.row(spec, work, number)
            one, steps = row.footprint, number * work.steps
            yield (
                gpu,
                [
                    title,
                    f"{number:,}" + ("*" if chosen and number == chosen.games else ""),
                    f"{config.train.total_steps / steps:,.0f}",
                    f"{one.kernels:,.0f}",
                    count((one.flops32 + one.flops16) / steps),
                    count(one.bytes / steps),
                    f"{one.peak / 2**30:.2f}" + ("" if row.fits else " (too much)"),
                    count(row.steps_per_second),
                    f"{100 * row.share:.0f}",
                    f"{saturating.games:,}" if saturating else "",
                    *_costs(args, config, row.steps_per_second),
                ],
            )
