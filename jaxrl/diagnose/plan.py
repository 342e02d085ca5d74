"""Time and cost of a training, by its measured speed: `jaxrl diagnose --plan`."""

from __future__ import annotations

import contextlib

from jaxrl import xla
from jaxrl.config import Config, Stage
from jaxrl.diagnose import hardware
from jaxrl.diagnose.timing import race
from jaxrl.diagnose.training import MeasuredTraining
from jaxrl.games import make_games
from jaxrl.runs.logs.console import waiting
from jaxrl.text_tables import machine, table


def print_plan(stage: Stage, rate: float | None, price: float | None, seconds: float) -> None:
    """Prints hours and cost of a training.

    Args:
      stage: the first of its curriculum, or what stands for a training without one.
      rate: steps/s of the machines that would train; None: measured here for `seconds`.
      price: price of all these machines for an hour.
      seconds: duration of the measurement.
    """
    rate, row = (rate, {}) if rate else _measured(stage.config, seconds)
    hours = stage.config.run.seeds * stage.config.train.total_steps / rate / 3600
    row = {"steps/s": f"{rate:,.0f}", **row, "hours": f"{hours:.3g}"}
    row |= {"cost": f"{hours * price:,.2f}"} if price is not None else {}
    print(table([*row], [[*row.values()]]))
    if stage.name:
        print(f"{stage}, alone: hours assume that all of the training is like it.")
    print("Evaluations, checkpoints and compilation are left out; several seeds count one after the other.")


def _measured(config: Config, seconds: float) -> tuple[float, dict[str, str]]:
    """Measures (steps/s, other cells of the table) of whole updates, with an untrained policy, here or on the fleet."""
    xla.prepare_training(config)
    print(machine(hardware.describe()))
    told = waiting(f"compiling the training step, then measuring it for {seconds:g} s ...", again=True)
    with told, contextlib.closing(MeasuredTraining(config, make_games(config).training)) as training:
        [speed] = race([training.contestant("training")], rounds=3, seconds=seconds)
        return speed.rate, {"games/s": f"{speed.rate * training.games_per_step():,.1f}"}
