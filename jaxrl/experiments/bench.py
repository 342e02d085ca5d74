"""`jaxrl bench A B C --minutes 10 --seeds 3`: configurations at equal CPU time, or of equally many steps.

Contenders that differ in traced numbers alone train side by side in one program (`run.vary`), all others one after the
other, each training in a process of its own. A short pilot measures the steps per second of the CPU; the trainings then
have as many steps as fit into the minutes, so that schedules of learning rates and the like reach their end when the
time does, as they would in a run of that length. A stop rule of CPU minutes would cut them off instead.

    RUNS/NAME/a-0, a-1, b-0, ...              runs like any other: nothing in them is trained twice
    RUNS/NAME/cdef                            the trainings of c to f side by side, seeds of c first
    RUNS/NAME/a-pilot                         the pilot
    RUNS/NAME/bench.json, table.md, plot.svg  the report
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from jaxrl.experiments import report
from jaxrl.experiments.contenders import Contender, Population, grouped
from jaxrl.experiments.results import MEAN, RETURN, LearningCurve, Trained, curves_of, final, level
from jaxrl.games import make_stages
from jaxrl.runs.metric_log import read_rows
from jaxrl.statistics import welch_interval
from jaxrl.text_tables import count, duration
from jaxrl.training.health import GPU
from jaxrl_envs.shared.errors import UserError

PILOT = 0.25  # CPU minutes of a pilot
EVALUATIONS = 10  # during a training
Level = tuple[str, float]  # name of a curve, value to reach


def bench(contenders: Sequence[Contender], *, minutes: float, steps: int | None, seeds: int, folder: Path) -> int:
    """Trains what is not trained yet, then writes the report; returns the exit code.

    Args:
      contenders: configurations to compare.
      minutes: CPU minutes of each training.
      steps: environment steps of each training, instead of minutes.
      seeds: trainings of each contender.
      folder: folder of the runs.

    Raises:
      UserError: a configuration is wrong, or a training has failed.
    """
    if minutes <= 0 or seeds < 1:
        raise UserError(f"--minutes must be above 0 and --seeds at least 1, got {minutes:g} and {seeds}.")
    jax.config.update("jax_platforms", "cpu")  # of this process: accelerators are for the trainings
    for contender in contenders:  # mistakes before anything is trained
        length = contender.load().train.total_steps
        for more in (_of_pilot(length), _settings(contender, length)):
            make_stages(contender.load(*more))
    groups = grouped(contenders, seeds, folder)
    words = [group.words(*_settings(group.contenders[0], steps or fitting(group, minutes))) for group in groups]
    trained: dict[str, list[Trained]] = {contender.name: [] for contender in contenders}
    runs = [group.trainings(own) for group, own in zip(groups, words, strict=True)]
    for done in itertools.zip_longest(*runs):  # seeds alternate: a machine that slows down slows all contenders
        for name, one in itertools.chain.from_iterable(filter(None, done)):
            trained[name].append(one)
    curves = {name: [curves_of(one) for one in of] for name, of in trained.items()}
    levels = _levels(contenders, curves)
    found = {
        name: [figures(one, own, levels) for one, own in zip(of, curves[name], strict=True)]
        for name, of in trained.items()
    }
    each = f"{steps:,} steps" if steps else f"{minutes:g} CPU minutes"
    side_by_side = [group.name for group in groups if group.members > 1]
    results = {contender.text: found[contender.name] for contender in contenders}
    record = {"minutes": minutes, "steps": steps, "side_by_side": side_by_side, "results": results}
    text = text_of(contenders, found, f"{seeds} seed(s) of {each} each")
    report.write(folder, "bench", text, record, curves)
    return 0


def _levels(contenders: Sequence[Contender], curves: report.LearningCurves) -> list[Level]:
    """Returns the milestones of all contenders; without any what the median contender's evaluations end with."""
    each = itertools.chain.from_iterable(contender.load().train.milestones.items() for contender in contenders)
    if wanted := list(dict.fromkeys((name, value) for name, values in each for value in sorted(values))):
        return wanted
    names = [name for name in report.TITLES if all(name in own for of in curves.values() for own in of)]
    ends = {name: [np.mean([own[name].value[-1] for own in of]) for of in curves.values()] for name in names}
    return [(name, float(np.median(of))) for name, of in ends.items()]


# ---- length ---------------------------------------------------------------------------------------------------------


def fitting(group: Population, minutes: float) -> int:
    """Returns the environment steps that each training makes in this time of the CPU, by a pilot; by a second one if
    what follows the length of a run makes other rollouts."""
    first = group.contenders[0]
    steps = first.load().train.total_steps
    for name in ("pilot", "pilot-2"):
        few = _of_pilot(steps)
        size = first.load(*few).batch_size
        rows = read_rows(group.train(f"{group.name}-{name}", group.words(*few)).metrics_file)
        steps = int(rows[-1]["steps"] / rows[-1]["time/cpu_seconds"] * 60 * minutes * group.members)
        if first.load(*_of_pilot(steps)).batch_size == size:
            break
    return steps


def _of_pilot(steps: int) -> tuple[str, ...]:
    """Returns the overrides of the pilot of a training of this length."""
    return (
        "train.stop=",
        f"train.stop.cpu_minutes={PILOT}",
        "train.milestones={}",
        "train.evaluate_every=0",
        "dqn.learning_starts=1",  # random play before the first optimizer step would pass for training
        f"train.total_steps={steps}",
        "evaluate.deals=2",
    )


def _settings(contender: Contender, steps: int) -> list[str]:
    """Returns the overrides of a training of this length."""
    length = ["train.stop=", f"train.total_steps={steps}"]
    config = contender.load(*length, "train.evaluate_every=1")  # by itself it may be 0, with which milestones do not go
    per_call = config.train.updates_per_call
    return [*length, f"train.evaluate_every={max(1, config.num_updates // EVALUATIONS // per_call) * per_call}"]


# ---- figures --------------------------------------------------------------------------------------------------------

PLAIN = ("steps/s", "steps/CPU s", "cores", "GPU %", "CPU min")  # means without intervals
ENDS = {MEAN: "win rate %", RETURN: "return"}  # of the final evaluation


def figures(trained: Trained, curves: Mapping[str, LearningCurve], levels: Sequence[Level]) -> dict[str, float]:
    """Returns the figures of a finished training by title; NaN where it has none."""
    rows = read_rows(trained.run.metrics_file)
    last = [row for row in rows if "time/fps" in row][-1]
    seconds, cpu = last["time/time_elapsed"], last["time/cpu_seconds"]
    gpu = [row[GPU] for row in rows if row.get(GPU) is not None]
    speed = (last["steps"] * trained.of / seconds, last["steps"] * trained.of / cpu, cpu / seconds)
    found = dict(zip(PLAIN, (*speed, 100 * float(np.mean(gpu or [math.nan])), cpu / 60 / trained.of), strict=True))
    for name, unit, scale in ((MEAN, "points", 100), (RETURN, "return", 1)):
        if name in curves:
            found[f"{unit}/CPU h"] = scale * 3600 * curves[name].gained("cpu")
            found[f"{unit}/M steps"] = scale * 1e6 * curves[name].gained("steps")
    for name, value in levels:
        for axis, unit in (("cpu", "CPU s"), ("steps", "steps")):
            at = curves[name].reached(value, axis) if name in curves else math.nan
            found[f"{unit} to {level(name, value)}"] = at
    return found | {ENDS[MEAN]: 100 * final(trained, "mean_win_rate"), ENDS[RETURN]: final(trained, "return")}


def text_of(contenders: Sequence[Contender], found: Mapping[str, Sequence[Mapping[str, float]]], head: str) -> str:
    """Returns the table: means over seeds, with Student's 95 % intervals, and Welch's of the change of strength."""
    each = {contender.name: found[contender.name] for contender in contenders}
    titles = list(dict.fromkeys(title for of in each.values() for one in of for title in one))
    columns: dict[str, list[str]] = {"": list(each)}
    for title in titles:
        samples = [np.array([one.get(title, math.nan) for one in of]) for of in each.values()]
        if title in PLAIN:
            columns[title] = [report.plain(values) for values in samples]
            continue
        columns[title] = [report.cell(values, _form(title)) for values in samples]
        if title in ENDS.values():
            form = _form(title, "+")
            changes = [report.interval(welch_interval(samples[0], values), form) for values in samples[1:]]
            columns[f"{title}, change"] = ["", *changes]
    told = f"{head}; times are of the CPU, intervals over seeds, changes against {contenders[0].name}"
    names = (f"{contender.name}: {contender.text}" for contender in contenders)
    return "\n".join([told, "", report.columns(columns), "", *names])


def _form(title: str, sign: str = "") -> Callable[[float], str]:
    """Returns how numbers of a column are written; times are not negative, which ends of intervals may be."""
    if " to " in title:
        return lambda value: (duration if title.startswith("CPU s") else count)(max(value, 0.0))
    return (f"{{:{sign}.1f}}" if title == ENDS[MEAN] else f"{{:{sign}.3g}}").format if title in ENDS.values() else count
