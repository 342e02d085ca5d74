"""`jaxrl bench A B C --minutes 10 --seeds 3`: configurations at equal CPU time.

Each training is a process of its own. A short pilot of each configuration measures its steps per second of the CPU; its
trainings then have as many steps as fit into the minutes, so that schedules of learning rates and the like reach their
end when the time does, as they would in a run of that length. A stop rule of CPU minutes would cut them off instead.
Seeds alternate, so that a machine that slows down slows all configurations.

    RUNS/NAME/a-0, a-1, b-0, ...    runs like any other: nothing in them is trained twice
    RUNS/NAME/a-pilot               the pilot
    RUNS/NAME/bench.json, table.md  what came of it
"""

from __future__ import annotations

import math
import re
import string
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.games import make_stages
from jaxrl.runs.directory import RunDirectory, for_json, read_json_list, write_json
from jaxrl.runs.metric_log import read_rows
from jaxrl.statistics import Interval, student_interval, welch_interval
from jaxrl.text_tables import count, duration, mark, table
from jaxrl.training.health import GPU
from jaxrl_envs.shared.errors import UserError

PILOT = 0.25  # CPU minutes of a pilot
EVALUATIONS = 10  # during a training
NAMES = string.ascii_lowercase


class Contender(NamedTuple):
    """One configuration of a benchmark."""

    name: str  # a, b, ...
    text: str  # as it was written
    words: tuple[str, ...]  # path, overrides
    folder: Path  # of the runs
    allow: Collection[str]  # what the file may name

    def load(self, *more: str) -> Config:
        """Returns the configuration with further overrides; raises UserError where it is wrong."""
        return configs.load(self.words[0], [*self.words[1:], *more], self.allow)

    def train(self, name: str, *more: str) -> RunDirectory:
        """Trains what is not trained yet, in a process of its own.

        Raises:
          UserError: it has failed, and has said why; or it was stopped.
        """
        allowed = [word for each in self.allow for word in ("--allow", each)]
        where = [f"run.directory={self.folder}", "run.seeds=1"]
        command = ["train", "--continue", "--config", self.words[0], "--name", name, *allowed]
        print(f"{name}: {self.text}", flush=True)
        command = [sys.executable, "-m", "jaxrl", *command, *self.words[1:], *where, *more]
        if code := subprocess.run(command, check=False).returncode:
            raise UserError(f"the training {name} ({self.text}) has ended with exit code {code}: see above.")
        return RunDirectory(self.folder / name)


class Result(NamedTuple):
    """Figures of one training; NaN where there is no such figure."""

    steps_per_s: float  # of training, on the clock
    steps_per_cpu_s: float
    cores: float  # that were busy
    gpu: float  # share of the time in which kernels ran
    cpu_minutes: float
    gained: float  # win rate per hour of the CPU, between the first and the last evaluation during training
    win_rate: float  # of the final evaluation, mean over the opponents
    returned: float  # return of the final evaluation, mean over the opponents
    milestones: dict[str, float]  # seconds of the CPU to "50% hard"


def bench(texts: Sequence[str], minutes: float, seeds: int, folder: str, allow: Collection[str]) -> int:
    """Trains what is not trained yet, then prints and writes the table; returns the exit code.

    Args:
      texts: configurations with keys to change, "PATH a.b=v ...", and keys for all of them, "a.b=v".
      minutes: CPU minutes of each training.
      seeds: trainings of each configuration.
      folder: folder of the runs.
      allow: modules and paths that files may name, see `jaxrl.config.trust`.

    Raises:
      UserError: a configuration is wrong, or a training has failed.
    """
    if minutes <= 0 or seeds < 1:
        raise UserError(f"--minutes must be above 0 and --seeds at least 1, got {minutes:g} and {seeds}.")
    contenders = parse(texts, Path(folder).expanduser(), allow)
    jax.config.update("jax_platforms", "cpu")  # of this process: accelerators are for the trainings
    for contender in contenders:  # mistakes before anything is trained
        steps = contender.load().train.total_steps
        for more in (_of_pilot(steps), _settings(contender, steps)):
            make_stages(contender.load(*more))
    settings = [_settings(contender, fitting(contender, minutes)) for contender in contenders]
    found: list[list[Result]] = [[] for _ in contenders]
    for seed in range(seeds):
        for number, contender in enumerate(contenders):
            run = contender.train(f"{contender.name}-{seed}", *settings[number], f"run.seed={seed}")
            found[number].append(read(run))
    text = report(contenders, found, minutes)
    print(f"\n{text}")
    record = {
        contender.text: [each._asdict() for each in results]
        for contender, results in zip(contenders, found, strict=True)
    }
    write_json(contenders[0].folder / "bench.json", {"minutes": minutes, "results": for_json(record)})
    (contenders[0].folder / "table.md").write_text(f"```\n{text}\n```\n", encoding="utf-8")
    print(f"written to {contenders[0].folder}: bench.json, table.md")
    return 0


def parse(texts: Sequence[str], folder: Path, allow: Collection[str]) -> list[Contender]:
    """Returns the configurations of the command line.

    Raises:
      UserError: they are not 1 to 26.
    """
    each = [tuple(re.split(r"\s+(?=[\w.]+=)", text.strip())) for text in texts]  # values may have spaces
    common = [word for words in each for word in words if "=" in words[0]]
    own = [(text, words) for text, words in zip(texts, each, strict=True) if words[0] and "=" not in words[0]]
    if not 0 < len(own) <= len(NAMES):
        raise UserError(f"give 1 to {len(NAMES)} configurations to compare, got {len(own)}.")
    return [
        Contender(name, text, (*words, *common), folder, allow) for name, (text, words) in zip(NAMES, own, strict=False)
    ]


# ---- training -------------------------------------------------------------------------------------------------------


def fitting(contender: Contender, minutes: float) -> int:
    """Environment steps that a training makes in this time of the CPU, by a pilot; by a second one if what follows
    the length of a run makes other rollouts."""
    steps = contender.load().train.total_steps
    for name in ("pilot", "pilot-2"):
        few = _of_pilot(steps)
        size = contender.load(*few).batch_size
        rows = read_rows(contender.train(f"{contender.name}-{name}", *few).metrics_file)
        steps = int(rows[-1]["steps"] / rows[-1]["time/cpu_seconds"] * 60 * minutes)
        if contender.load(*_of_pilot(steps)).batch_size == size:
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


def read(run: RunDirectory) -> Result:
    """Returns the figures of a finished training."""
    rows = read_rows(run.metrics_file)
    last = [row for row in rows if "time/fps" in row][-1]
    seconds, cpu = last["time/time_elapsed"], last["time/cpu_seconds"]
    clock = {row["update"]: row["time/cpu_seconds"] for row in rows if "time/cpu_seconds" in row}
    rates = [(clock[row["update"]], row["eval/mean_win_rate"]) for row in rows if "eval/mean_win_rate" in row]
    hours = (rates[-1][0] - rates[0][0]) / 3600 if rates else 0.0
    record = read_json_list(run.evaluation_file)[-1]
    reached = read_json_list(run.milestones_file)
    return Result(
        steps_per_s=last["steps"] / seconds,
        steps_per_cpu_s=last["steps"] / cpu,
        cores=cpu / seconds,
        gpu=float(np.mean([row[GPU] for row in rows if row.get(GPU) is not None] or [math.nan])),
        cpu_minutes=cpu / 60,
        gained=(rates[-1][1] - rates[0][1]) / hours if hours else math.nan,
        win_rate=record["overall"].get(run.name, {}).get("mean_win_rate", math.nan),
        returned=float(np.mean([row["figures"]["return"]["mean"] for row in record["rows"]])),
        milestones={mark(each): each["cpu_seconds"] for each in reached},
    )


# ---- what came of it ------------------------------------------------------------------------------------------------

FIGURES: dict[str, Callable[[Result], float]] = {  # columns, means over seeds; without those that no run has
    "steps/s": lambda each: each.steps_per_s,
    "steps/CPU s": lambda each: each.steps_per_cpu_s,
    "cores": lambda each: each.cores,
    "GPU %": lambda each: 100 * each.gpu,
    "CPU min": lambda each: each.cpu_minutes,
    "points/CPU h": lambda each: 100 * each.gained,
}


def report(contenders: Sequence[Contender], found: Sequence[Sequence[Result]], minutes: float) -> str:
    """Returns the table: means over seeds, with Student's 95 % intervals of strength."""
    wins = not any(math.isnan(each.win_rate) for results in found for each in results)
    scores = [np.array([100 * each.win_rate if wins else each.returned for each in results]) for results in found]
    columns = {"": [contender.name for contender in contenders]} | {
        title: [_mean([form(each) for each in results]) for results in found] for title, form in FIGURES.items()
    }
    columns = {title: cells for title, cells in columns.items() if set(cells) != {"-"}}
    for name in dict.fromkeys(name for results in found for each in results for name in each.milestones):
        columns[f"to {name}"] = [_reached([each.milestones.get(name) for each in results]) for results in found]
    columns["win rate %" if wins else "return"] = [_interval(student_interval, score) for score in scores]
    changes = [_interval(welch_interval, scores[0], score) for score in scores[1:]]
    columns[f"change to {contenders[0].name}"] = ["", *changes]
    return "\n".join(
        [
            f"{len(found[0])} seed(s) of {minutes:g} CPU minutes each; times are of the CPU, intervals over seeds",
            "",
            table(list(columns), list(zip(*columns.values(), strict=True))),
            "",
            *(f"{contender.name}: {contender.text}" for contender in contenders),
        ]
    )


def _mean(values: Sequence[float]) -> str:
    mean = float(np.mean(values))
    return "-" if math.isnan(mean) else count(mean)


def _interval(make: Callable[..., Interval], *samples: np.ndarray) -> str:
    """Returns a mean, or a difference of means, with its interval if there are several seeds."""
    if len(samples[0]) < 2:
        return f"{float(samples[-1][0] - (samples[0][0] if len(samples) > 1 else 0.0)):.1f}"
    found, sign = make(*samples), "+" if len(samples) > 1 else ""
    return f"{found.value:{sign}.1f} ({found.low:{sign}.1f} to {found.high:{sign}.1f})"


def _reached(seconds: Sequence[float | None]) -> str:
    """Returns the mean CPU time to a milestone, and how many seeds reached it if not all did."""
    known = [each for each in seconds if each is not None]
    share = f" ({len(known)} of {len(seconds)})" if len(known) < len(seconds) else ""
    return f"{duration(float(np.mean(known)))}{share}" if known else "-"
