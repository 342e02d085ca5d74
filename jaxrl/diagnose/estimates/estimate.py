"""`jaxrl plan`: estimates games per second, hours and cost of a training from short measurements on this machine, or,
with `--card`, for a GPU that is not here from what its compiler says."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.diagnose import hardware
from jaxrl.diagnose.estimates.fleet import PARTS, SimulatedFleet, predict
from jaxrl.runs.logs.console import waiting
from jaxrl.text_tables import count, machine, table
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl.diagnose.gpu.cards import Card

LARGEST = 10_000  # workers
MULTIPLES = (1, 8, 64)  # of the configured games, in the table of one configuration for cards; others are not compiled


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What is assumed of the machines, and how long to measure.

    Attributes:
      machines: of the fleet; None: as many as its workers need.
      cores: of each machine; None: those of this one.
      workers: of the largest fleet; None: one for each core.
      gbit: Gbit/s between machines.
      seconds: how long each measurement takes.
      price: of a machine for an hour; None: no costs are printed.
    """

    machines: int | None = None
    cores: int | None = None
    workers: int | None = None
    gbit: float = 10.0
    seconds: float = 2.0
    price: float | None = None

    def __post_init__(self) -> None:
        """Raises UserError for an option that is out of range."""
        for name in ("machines", "cores", "workers", "gbit", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"--{name} must be above 0, got {value:g}.")
        if self.price is not None and not self.price >= 0:
            raise UserError(f"--price must be at least 0, got {self.price:g}.")


def estimate(stage: Stage, options: PlanOptions) -> None:
    """Prints the estimate of a training that is like its stage throughout, from measurements on this machine."""
    from jaxrl.games import make_games

    config = stage.config
    xla.prepare_training(config)
    games = make_games(config)
    print(machine(hardware.describe()))
    if stage.name:
        print(f"{stage}, measured alone: hours assume that all of the training is like it.")
    if games.training.host:
        _fleets(options, config, games.training)
    else:
        _here(options, config, games.training)


def _costs(price: float | None, config: Config, rate: float, machines: int = 1) -> list[str]:
    """Table cells: hours of the whole training with all seeds and, if a price is given, their cost."""
    hours = config.run.seeds * config.train.total_steps / rate / 3600
    return [f"{hours:.3g}", *([f"{hours * machines * price:,.2f}"] if price is not None else [])]


def _cost_heads(price: float | None) -> list[str]:
    return ["hours", *(["cost"] if price is not None else [])]


# ---- games on the host --------------------------------------------------------------------------------------------


def _fleets(options: PlanOptions, config: Config, env: Env) -> None:
    """Prints estimates for fleets of 1, 2, 4, ... workers, simulated from measured times."""
    from jaxrl.diagnose.estimates.microbenchmarks import measure  # here, because it imports every part of a training

    cores = options.cores or xla.cores()
    most = options.workers or max(1, int((options.machines or 1) * cores / config.fleet.cpus))
    if most > LARGEST:
        raise UserError(f"a fleet of {most:,} workers is beyond what is simulated: {LARGEST:,} at most (--workers).")
    first = _fleet(options, config, most, cores)
    block = first.workers // first.actors * first.part
    with waiting(f"compiling the learner, then measuring each part for {options.seconds:g} s ...", again=True):
        found = measure(config, env, first.part, block, gbit=options.gbit, seconds=options.seconds)
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
        fleet = _fleet(options, config, workers, cores)
        one = predict(times, fleet)
        games = "" if found.decisions_per_game is None else f"{one.rate / found.decisions_per_game:,.1f}"
        rate = [f"{one.rate:,.0f}", games, *_costs(options.price, config, one.rate, fleet.machines)]
        shares = [f"{100 * one.engines:.0f}", f"{100 * one.learner:.0f}", f"{one.limit} (+{100 * one.gain:.0f} %)"]
        rows.append([str(workers), str(fleet.actors), str(fleet.machines), str(fleet.games), *rate, *shares])
    head = ["workers", "actors", "machines", "games", "decisions/s", "games/s", *_cost_heads(options.price)]
    print(table([*head, "engines busy %", "learner busy %", "limit (gain if twice as fast)"], rows))
    print(
        f"Simulated, with these assumptions: the parts ({', '.join(PARTS)}) take as long there as here, with whatever "
        "else ran here; decisions are as in random play; workers beyond the cores share them; between machines "
        f"{options.gbit:g} Gbit/s; policy and learner are on the first machine and share its cores; each worker plays "
        f"{first.part * first.groups} games, so a larger fleet means more games and larger rollouts; no update stops "
        "early; several seeds are trained one after the other. Evaluations, checkpoints and the start are left out. "
        "Parameters stay with the learner: no broadcast."
    )


def _fleet(options: PlanOptions, config: Config, workers: int, cores: int) -> SimulatedFleet:
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
        machines=options.machines or math.ceil(workers * fleet.cpus / cores),
        cores=cores,
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


# ---- compiled games -----------------------------------------------------------------------------------------------


def _here(options: PlanOptions, config: Config, env: Env) -> None:
    """Prints the estimate for a compiled game from whole updates on this machine."""
    from jaxrl.diagnose.timing import race
    from jaxrl.diagnose.training import Training

    if options.machines or options.workers:
        raise UserError(
            "compiled games have no workers: leave --machines and --workers out, or choose a GPU with --card."
        )
    told = waiting(f"compiling the training step, then measuring it for {options.seconds:g} s ...", again=True)
    with told, contextlib.closing(Training(config, env)) as training:
        [speed] = race([training.contestant("training")], rounds=3, seconds=options.seconds)
        games = speed.rate * training.games_per_step()
    head = ["steps/s", "games/s", *_cost_heads(options.price), "limit"]
    cells = [f"{speed.rate:,.0f}", f"{games:,.1f}", *_costs(options.price, config, speed.rate), "one compiled program"]
    print(table(head, [cells]))
    print(
        "Measured: whole updates on this machine. Evaluations, checkpoints and compilation "
        f"({speed.first_seconds:.0f} s) are left out; game lengths are those of an untrained policy."
    )


# ---- GPUs ---------------------------------------------------------------------------------------------------------


def first_stage(name: str | None, overrides: Sequence[str], allow: Collection[str]) -> Stage:
    """The stage of a configuration that is trained first."""
    return configs.stages(configs.load(name, overrides, allow))[0]


def estimate_on_cards(
    names: Sequence[str | None],
    card_names: Sequence[str],
    overrides: Sequence[str],
    allow: Collection[str],
    *,
    price: float | None,
    brief: bool,
) -> None:
    """Compiles the training of some configurations for each GPU and prints a table.

    Args:
      names, overrides, allow: of the configurations, see `jaxrl.config.load`.
      card_names: of the GPUs, see `find_card`.
      price: of a GPU for an hour.
      brief: one row for each configuration; those that cannot be estimated are left out.

    Raises:
      UserError: a card is unknown, or without `brief` a configuration cannot be estimated.
    """
    from jaxrl.diagnose.gpu.cards import assumptions, find_card

    cards = [find_card(name) for name in dict.fromkeys(card_names)]
    rows: dict[str, list[list[str]]] = {card.name: [] for card in cards}
    for name in names:
        try:
            for made_for, row in _for_cards(name, first_stage(name, overrides, allow), cards, price, brief):
                rows[made_for].append(row)
        except UserError as error:
            if not brief:
                raise
            print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
    head = ["configuration", "games", "compiled in CPU s", "MB", "a step: kernels", "copies", "waits"]
    head += ["a minibatch: kernels", "waits", "an update: kernels", "waits", "steps/s at most", "in CUDA graphs"]
    for card in cards:
        print(f"\n{card.name}\n\n{table([*head, *_cost_heads(price)], rows[card.name])}\n\n{assumptions(card)}")


def _for_cards(
    name: str | None, stage: Stage, cards: Sequence[Card], price: float | None, brief: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields (card, row of the table) for one configuration."""
    from jaxrl.diagnose.gpu import compiler
    from jaxrl.games import make_games

    config = stage.config
    games = make_games(config)
    if games.training.host:
        raise UserError("its games are played on the host, and no GPU would play them: see --machines.")
    for card in cards:
        [found] = compiler.compile_programs(config, games, card, ["training"])
        parts = {part: compiler.limited(counts) for part, counts in compiler.parts(found, config).items()}
        step, minibatch = parts.get("step", {}), parts.get("minibatch", {})
        for scale in MULTIPLES[:1] if brief else MULTIPLES:
            rates = compiler.rates_of(found, config, card, scale)
            row = [
                f"{name or 'defaults'}{' (first stage)' if stage.name else ''}",
                f"{scale * config.train.num_envs:,}",
                f"{found.seconds:.0f}" if scale == 1 else "",
                f"{scale * sum(found.memory.values()) / 1e6:,.0f}",
                *(f"{step[limit]:,}" if step else "" for limit in compiler.LIMITS),
                *(f"{minibatch[limit]:,}" if minibatch else "" for limit in ("kernels", "waits")),
                *(f"{number:,.0f}" for number in compiler.totals(found)),
                *(count(rate) for rate in rates),
                *_costs(price, config, rates[0]),
            ]
            print("  ".join(row), file=sys.stderr, flush=True)
            yield card.name, row
