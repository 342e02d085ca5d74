"""`jaxrl sweep`: trainings with values that Optuna chooses (Akiba et al. 2019, https://arxiv.org/abs/1907.10902).

Each trial is a training. Its evaluations on the way are told to Optuna, which prunes the trial if it is below the
median of the others after as many steps; a trial that comes to its end scores what `evaluate.best_by` makes of its
final evaluation. If the keys are numbers of the algorithm, Optuna is asked for several trials at a time, which train
side by side in one program, as one run that ends early if all of them are pruned. The values follow from `run.seed`,
the number of a trial and the trials before it.

    RUNS/NAME-sweep/study.db                       Optuna's storage: `optuna-dashboard sqlite:///study.db` shows it
    RUNS/NAME-sweep/trial000, trial001-004, ...    the runs
    RUNS/NAME-sweep/sweep.json, table.md, plot.svg the report

The same command goes on with a sweep that was stopped or killed; the run that it was in is resumed exactly. Several
processes, each with its own devices, may work on one sweep: a run belongs to the process that holds its lock.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np
import yaml

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.experiments import contenders, report
from jaxrl.experiments.results import Trained, curves_of, final
from jaxrl.games import make_stages
from jaxrl.runs.directory import RunDirectory
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching.start import check_same, settings_of
from jaxrl_envs.adapters import require
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

STARTUP = 3  # trials that end before any is pruned
PATIENCE = 60.0  # seconds for which another process may choose its trials
Load = Callable[[Sequence[str], str | None], Config]
RUN = "run"  # attribute of a trial: the name of its run, by itself or side by side with others


class Pruning(Callback):
    """Reports the evaluations of a run to its trials, and ends it by raising if all of them should be pruned."""

    def __init__(self, trials: Sequence[Any], best_by: str, seeds: int):
        """Tells nothing yet; `seeds` are the trainings of each trial."""
        self.trials, self.best_by, self.seeds = trials, best_by, seeds
        self.pruned = set[int]()  # numbers of trials
        self.over = False  # whether all are pruned

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Raises RuntimeError if all trials should be pruned; the training is saved."""
        for place, trial in enumerate(self.trials):
            own = range(place * self.seeds, (place + 1) * self.seeds)
            prefixes = [f"seed_{member}/" for member in own] if len(self.trials) > 1 else [""]
            values = [progress(metrics, self.best_by, prefix) for prefix in prefixes]
            if None in values or trial.number in self.pruned:
                continue
            with warnings.catch_warnings():  # a trial that is resumed reports some evaluations again
                warnings.simplefilter("ignore")
                trial.report(float(np.mean(values)), step)  # type: ignore[arg-type]
            if trial.should_prune():
                self.pruned.add(trial.number)
        self.over = len(self.pruned) == len(self.trials)
        if self.over:
            raise RuntimeError("below the median of the other trials")


class Sweep(NamedTuple):
    """A sweep that has begun."""

    optuna: Any
    study: Any
    load: Load
    config: Config
    space: dict[str, Any]  # key -> Optuna's distribution
    folder: Path

    def config_of(self, trial: Any) -> Config:
        """Returns the configuration of a trial."""
        values = [f"{key}={value}" for key, value in trial.params.items()]
        return self.load([*values, f"run.directory={json.dumps(str(self.folder))}"], trial_name(trial.number))

    def trained(self, trial: Any) -> list[Trained]:
        """Returns the trainings of a trial, one of each seed; a run "trial001-004" has those of four trials."""
        name, seeds = trial.user_attrs[RUN], self.config.run.seeds
        first, _, last = name.removeprefix("trial").partition("-")
        place, count = (trial.number - int(first), int(last) - int(first) + 1) if last else (0, 1)
        run = RunDirectory(self.folder / name)
        return [Trained(run, place * seeds + seed, count * seeds) for seed in range(seeds)]


def sweep(load: Load, over: Sequence[str], *, trials: int, side_by_side: int, pruning: bool = True) -> int:
    """Runs what is missing of a number of trials, then writes the report; returns the exit code.

    Args:
      load: reads the configuration of every trial, with further overrides and the name of a run.
      over: the keys to search, see `distribution`.
      trials: number of trials of the whole sweep.
      side_by_side: trials that Optuna is asked for at a time.
      pruning: end trials that are below the median.

    Raises:
      UserError: Optuna is missing, a key or a value is wrong, the sweep was begun with others, or no trial came to its
        end.
    """
    optuna = require("optuna", "jaxrl sweep", "jaxrl[sweep]")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = dict(distribution(optuna, text) for text in over)
    config = load((), None)
    least = [f"{key}={_values(each)[0]}" for key, each in space.items()]
    make_stages(load(least, None))  # before there is a folder
    programs = [load([*least, f"{key}={value}"], None) for key, each in space.items() for value in _values(each)]
    if any(configs.program_of(each) != configs.program_of(programs[0]) for each in programs):
        side_by_side = 1
    xla.prepare_training(config)
    folder = Path(config.run.directory).expanduser() / f"{config.run.name}-sweep"
    folder.mkdir(parents=True, exist_ok=True)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP) if pruning else optuna.pruners.NopPruner()
    with _locked(folder / "lock", PATIENCE):
        storage = f"sqlite:///{folder / 'study.db'}"
        named = {"study_name": folder.name, "storage": storage, "load_if_exists": True}
        study = optuna.create_study(**named, pruner=pruner, direction="maximize")
        asked = json.loads(json.dumps(settings_of(config) | {"--over": sorted(over)}))
        check_same(folder, study.user_attrs.get("asked", asked), asked, "give this sweep a --name of its own.")
        study.set_user_attr("asked", asked)
    begun, failure = Sweep(optuna, study, load, config, space, folder), ""
    while (code := _next_trials(begun, trials, max(side_by_side, 1))) is not None:
        if isinstance(code, int):
            print(f"stopped; the same command goes on with {folder}")
            return code
        failure = code or failure
        jax.clear_caches()  # the next trials are another program
    complete = [each for each in study.trials if each.state.name == "COMPLETE"]
    if not complete:
        raise UserError(f"no trial of {folder} came to its end: {failure or 'other processes still work on them'}")
    trials_told = [
        {"run": each.user_attrs[RUN], "state": each.state.name.lower(), "score": each.value, "values": each.params}
        for each in study.trials
    ]
    record = {"over": list(over), "score": config.evaluate.best_by, "trials": trials_told}
    curves = {trial_name(each.number): [curves_of(one) for one in begun.trained(each)] for each in complete}
    report.write(folder, "sweep", text_of(study, config), record, curves)
    values = shlex.join(f"{key}={value}" for key, value in study.best_trial.params.items())
    print(f"best: {trial_name(study.best_trial.number)} with {values}")
    return 0


def distribution(optuna: Any, text: str) -> tuple[str, Any]:
    """Parses ``KEY=LOW..HIGH``, ``KEY=LOW..HIGH:log`` or ``KEY=A,B,C``; returns the key and Optuna's distribution.

    A range is one of whole numbers if both ends are written so. Choices are separated by commas outside brackets.

    Raises:
      UserError: the text has another form.
    """
    key, _, values = text.partition("=")
    kinds = optuna.distributions
    try:
        if ".." in values:
            ends, _, scale = values.partition(":")
            low, high = (yaml.safe_load(end) for end in ends.split(".."))
            whole = isinstance(low, int) and isinstance(high, int)
            if scale not in ("", "log") or not float(low) < float(high) or (scale and float(low) <= 0):
                raise ValueError
            if whole:
                return key, kinds.IntDistribution(low, high, log=bool(scale))
            return key, kinds.FloatDistribution(float(low), float(high), log=bool(scale))
        key, choices = contenders.choices(text)
        if len(choices) < 2:
            raise ValueError
        return key, kinds.CategoricalDistribution(choices)
    except (ValueError, TypeError, yaml.YAMLError, UserError):
        known = "KEY=LOW..HIGH, KEY=LOW..HIGH:log (LOW above 0) or at least two choices KEY=A,B"
        raise UserError(f"--over {text!r} must be {known}.") from None


def progress(metrics: Mapping[str, float], best_by: str, prefix: str = "") -> float | None:
    """Returns the score by `evaluate.best_by` of the evaluation in a line of metrics; None for a line without one."""
    own = {tag.removeprefix(prefix): value for tag, value in metrics.items() if tag.startswith(f"{prefix}eval/")}
    wanted = [tag for tag in own if tag.endswith("/return")] if best_by == "return" else [f"eval/{best_by}"]
    found = [own[tag] for tag in wanted if tag in own]
    return float(np.mean(found)) if found else None


def trial_name(number: int) -> str:
    """Returns the name of a trial's run, if it is alone in it."""
    return f"trial{number:03}"


# ---- some trials ----------------------------------------------------------------------------------------------------


def _next_trials(sweep: Sweep, trials: int, side_by_side: int) -> int | str | None:
    """Runs some trials. Returns the exit code of a training that was stopped, or why a trial failed ("" if none did);
    None after the last one."""
    with contextlib.ExitStack() as held:
        with _locked(sweep.folder / "lock", PATIENCE):
            batch = _taken_over(sweep, held)
            if not batch:
                count = min(side_by_side, trials - len(sweep.study.trials))
                if count <= 0:
                    return None
                seed = (sweep.config.run.seed + len(sweep.study.trials)) % 2**32
                sweep.study.sampler = sweep.optuna.samplers.TPESampler(seed=seed, constant_liar=count > 1)
                batch = [sweep.study.ask(fixed_distributions=sweep.space) for _ in range(count)]
                name = trial_name(batch[0].number) + f"-{batch[-1].number:03}" * (count > 1)
                held.enter_context(_locked(sweep.folder / f"{name}.lock"))
                for trial in batch:
                    trial.set_user_attr(RUN, name)
        for trial in batch:
            values = ", ".join(f"{key}={value}" for key, value in trial.params.items())
            print(f"{trial_name(trial.number)} of {trials}: {values}", flush=True)
        return _run(sweep, batch)


def _run(sweep: Sweep, batch: Sequence[Any]) -> int | str:
    """Trains some trials side by side and tells Optuna their scores; returns as `_next_trials`."""
    by, state = sweep.config.evaluate.best_by, sweep.optuna.trial.TrialState
    pruning = Pruning(batch, by, sweep.config.run.seeds)
    try:
        each = [sweep.config_of(trial) for trial in batch]
        if code := contenders.train(contenders.together(each, batch[0].user_attrs[RUN]), [pruning]):
            return code
        scores = [float(np.mean([final(one, by) for one in sweep.trained(trial)])) for trial in batch]
    except UserError as error:
        if not pruning.over and len(batch) > 1:
            print(f"  {error}\n  each by itself:", flush=True)
            for trial in batch:
                trial.set_user_attr(RUN, trial_name(trial.number))
            # After one that fails or is stopped the others are as if their process had gone: they are taken over.
            return next((end for trial in batch if (end := _run(sweep, [trial]))), "")
        for trial in batch:
            sweep.study.tell(trial.number, state=state.PRUNED if pruning.over else state.FAIL)
        print("  pruned" if pruning.over else f"  failed: {error}", flush=True)
        return "" if pruning.over else str(error)
    for trial, score in zip(batch, scores, strict=True):
        pruned = trial.number in pruning.pruned
        sweep.study.tell(trial.number, **({"state": state.PRUNED} if pruned else {"values": score}))
        print(f"  {trial_name(trial.number)}: {'pruned' if pruned else f'{by} {score:.4g}'}", flush=True)
    return ""


def _taken_over(sweep: Sweep, held: contextlib.ExitStack) -> list[Any]:
    """Takes over the trials of a run that the storage calls running but whose process is gone; [] without any."""
    running: dict[str, list[Any]] = {}
    for each in sweep.study.trials:
        if each.state.name == "RUNNING":
            running.setdefault(each.user_attrs.get(RUN, trial_name(each.number)), []).append(each)
    for name, each in running.items():
        with contextlib.suppress(BlockingIOError):
            held.enter_context(_locked(sweep.folder / f"{name}.lock"))
            batch = [sweep.optuna.trial.Trial(sweep.study, trial._trial_id) for trial in each]  # no public way back
            for trial in batch:
                trial.set_user_attr(RUN, name)
            return batch
    return []


@contextlib.contextmanager
def _locked(path: Path, seconds: float = 0.2) -> Iterator[IO[bytes]]:
    """Holds a lock file; BlockingIOError if another process holds it for longer than `seconds`."""
    with files.open_lock(path) as handle:
        files.lock(handle, seconds)
        yield handle


# ---- the report -----------------------------------------------------------------------------------------------------


def text_of(study: Any, config: Config) -> str:
    """Returns the table, the best trial first; trials without a score stand at its end."""

    def rank(each: Any) -> tuple[bool, float]:
        return each.state.name == "COMPLETE", -np.inf if each.value is None else each.value

    trials = sorted(study.trials, key=rank, reverse=True)
    scores = [f"{each.value:.4g}" if each.state.name == "COMPLETE" else each.state.name.lower() for each in trials]
    columns = {"trial": [trial_name(each.number) for each in trials], "score": scores}
    for key in study.trials[0].params:
        values = [each.params.get(key, "") for each in trials]
        columns[key] = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
    head = f"{config.run.name}: {config.evaluate.best_by}, {config.train.total_steps:,} steps each"
    return f"{head}\n\n{report.columns(columns)}"


def _values(distribution: Any) -> list[Any]:
    """Returns the choices of a distribution, or its ends."""
    return list(getattr(distribution, "choices", ())) or [distribution.low, distribution.high]
