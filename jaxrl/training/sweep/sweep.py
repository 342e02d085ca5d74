"""`jaxrl sweep`: trainings with values that Optuna chooses (Akiba et al. 2019, https://arxiv.org/abs/1907.10902).

Each trial is a run like any other. Its evaluations during training are told to Optuna, which ends the trial if it is
below the median of the others after as many steps; a trial that comes to its end scores what `evaluate.best_by` makes
of its final evaluation. The values of a trial follow from `run.seed`, its number and the trials before it.

    RUNS/NAME-sweep/study.db              Optuna's storage: `optuna-dashboard sqlite:///study.db` shows it
    RUNS/NAME-sweep/trial000, ...         the runs
    RUNS/NAME-sweep/sweep.json, table.md  what came of it

The same command goes on with a sweep that was stopped or killed; the trial that it was in is resumed exactly. Several
processes, each with its own devices, may work on one sweep: a trial belongs to the process that holds its lock.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import numpy as np
import yaml

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.games import make_stages
from jaxrl.runs.directory import write_json
from jaxrl.text_tables import flat, table
from jaxrl.training.ablate.ablation import scores_of, trained
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching.start import without_deployment
from jaxrl_envs.adapters import require
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

STARTUP = 3  # trials that end before any is pruned
PATIENCE = 60.0  # seconds for which another process may choose its trial


class Base(NamedTuple):
    """The training that is varied, as the command line says it."""

    config: str | None
    overrides: tuple[str, ...]
    allow: tuple[str, ...]
    name: str | None

    def load(self, more: Sequence[str] = (), name: str | None = None) -> Config:
        """Its configuration with further overrides.

        Raises:
          UserError: a value is wrong.
        """
        return configs.for_training(self.config, [*self.overrides, *more], self.allow, name or self.name)


class Pruning(Callback):
    """Reports a training's evaluations to its trial, and ends one that should be pruned by raising."""

    def __init__(self, trial: Any, best_by: str):
        self.trial, self.best_by, self.pruned = trial, best_by, False

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Raises RuntimeError if the trial should be pruned; the training is saved."""
        value = progress(metrics, self.best_by)
        if value is not None:
            with warnings.catch_warnings():  # a trial that is resumed reports some evaluations again
                warnings.simplefilter("ignore")
                self.trial.report(value, step)
            self.pruned = self.trial.should_prune()
            if self.pruned:
                raise RuntimeError("this trial is below the median of the others")


def sweep(base: Base, over: Sequence[str], *, trials: int, pruning: bool = True) -> int:
    """Runs what is missing of a number of trials, then prints and writes the table; returns the exit code.

    Args:
      base: configuration of every trial.
      over: the keys to search, see `distribution`.
      trials: number of trials of the whole sweep.
      pruning: end trials that are below the median.

    Raises:
      UserError: Optuna is missing, a key or a value is wrong, the sweep was begun with others, or no trial came to its
        end.
    """
    optuna = require("optuna", "jaxrl sweep", "jaxrl[sweep]")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = dict(distribution(optuna, text) for text in over)
    config = base.load()
    make_stages(base.load([f"{key}={_least(each)}" for key, each in space.items()]))  # before there is a folder
    xla.prepare_training(config)
    folder = Path(config.run.directory).expanduser() / f"{config.run.name}-sweep"
    folder.mkdir(parents=True, exist_ok=True)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP) if pruning else optuna.pruners.NopPruner()
    with _locked(folder / "lock", PATIENCE):
        study = optuna.create_study(
            study_name=folder.name,
            storage=f"sqlite:///{folder / 'study.db'}",
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
        _check_begun(study, config, sorted(over), folder)
    failure = ""
    while (code := _next_trial(optuna, study, base, config, space, folder, trials)) is not None:
        if isinstance(code, int):
            print(f"stopped; the same command goes on with {folder}")
            return code
        failure = code or failure
        jax.clear_caches()  # the next trial is another program
    if not [each for each in study.trials if each.state.name == "COMPLETE"]:
        raise UserError(f"no trial of {folder} came to its end: {failure or 'other processes still work on them'}")
    text = report(study, config)
    print(f"\n{text}")
    best = study.best_trial
    write_json(folder / "sweep.json", {"over": list(over), "score": config.evaluate.best_by, "trials": _record(study)})
    (folder / "table.md").write_text(f"```\n{text}\n```\n", encoding="utf-8")
    values = shlex.join(f"{key}={value}" for key, value in best.params.items())
    print(f"written to {folder}: sweep.json, table.md\nbest: {trial_name(best.number)} with {values}")
    return 0


def distribution(optuna: Any, text: str) -> tuple[str, Any]:
    """A key and Optuna's distribution of its values, from ``KEY=LOW..HIGH``, ``KEY=LOW..HIGH:log`` or ``KEY=A,B,C``.

    A range is one of whole numbers if both ends are written so. Choices are separated by commas outside brackets.

    Raises:
      UserError: the text has another form.
    """
    key, equals, values = text.partition("=")
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
        choices = yaml.safe_load(f"[{values}]")
        if not equals or not key or len(choices) < 2:
            raise ValueError
        return key, kinds.CategoricalDistribution([json.dumps(each) for each in choices])
    except (ValueError, TypeError, yaml.YAMLError):
        known = "KEY=LOW..HIGH, KEY=LOW..HIGH:log (LOW above 0) or at least two choices KEY=A,B"
        raise UserError(f"--over {text!r} must be {known}.") from None


def progress(metrics: Mapping[str, float], best_by: str) -> float | None:
    """Returns the score by `evaluate.best_by` of the evaluation in a line of metrics; None for a line without one."""
    returns = [tag for tag in metrics if tag.startswith("eval/") and tag.endswith("/return")]
    found = [metrics[tag] for tag in (returns if best_by == "return" else [f"eval/{best_by}"]) if tag in metrics]
    return float(np.mean(found)) if found else None


def trial_name(number: int) -> str:
    """The name of a trial's run."""
    return f"trial{number:03}"


# ---- one trial ------------------------------------------------------------------------------------------------------


def _next_trial(
    optuna: Any, study: Any, base: Base, config: Config, space: dict[str, Any], folder: Path, trials: int
) -> int | str | None:
    """Runs one trial. Returns the exit code of a training that was stopped, or why the trial failed ("" if it did not);
    None after the last trial."""
    with contextlib.ExitStack() as held:
        with _locked(folder / "lock", PATIENCE):
            trial = _taken_over(optuna, study, folder, held)
            if trial is None:
                if len(study.trials) >= trials:
                    return None
                seed = (config.run.seed + len(study.trials)) % 2**32
                study.sampler = optuna.samplers.TPESampler(seed=seed)
                trial = study.ask(fixed_distributions=space)
                held.enter_context(_locked(folder / f"{trial_name(trial.number)}.lock"))
        values = [f"{key}={value}" for key, value in trial.params.items()]
        print(f"{trial_name(trial.number)} of {trials}: {', '.join(values)}", flush=True)
        pruning = Pruning(trial, config.evaluate.best_by)
        try:
            each = base.load([*values, f"run.directory={json.dumps(str(folder))}"], trial_name(trial.number))
            if code := trained(each, [pruning]):
                return code
            score = float(np.mean(scores_of(each)))
        except UserError as error:
            state = optuna.trial.TrialState.PRUNED if pruning.pruned else optuna.trial.TrialState.FAIL
            study.tell(trial.number, state=state)
            print("  pruned" if pruning.pruned else f"  failed: {error}", flush=True)
            return "" if pruning.pruned else str(error)
        study.tell(trial.number, score)
        print(f"  {config.evaluate.best_by} {score:.4g}", flush=True)
    return ""


def _taken_over(optuna: Any, study: Any, folder: Path, held: contextlib.ExitStack) -> Any:
    """Takes over a trial that the storage calls running but whose process is gone, or None."""
    for each in study.trials:
        if each.state == optuna.trial.TrialState.RUNNING:
            with contextlib.suppress(BlockingIOError):
                held.enter_context(_locked(folder / f"{trial_name(each.number)}.lock"))
                return optuna.trial.Trial(study, each._trial_id)  # Optuna offers no public way back to a trial
    return None


@contextlib.contextmanager
def _locked(path: Path, seconds: float = 0.2) -> Iterator[IO[bytes]]:
    """Holds a lock file; BlockingIOError if another process holds it for longer than `seconds`."""
    with files.open_lock(path) as handle:
        files.lock(handle, seconds)
        yield handle


def _check_begun(study: Any, config: Config, over: list[str], folder: Path) -> None:
    """Notes what the sweep varies, or raises UserError if it was begun with something else."""
    asked = flat(configs.to_dict(without_deployment(config))) | {"--over": over}
    asked = json.loads(json.dumps(asked))
    begun = study.user_attrs.get("asked")
    if begun is None:
        study.set_user_attr("asked", asked)
    elif other := [key for key in {**begun, **asked} if begun.get(key) != asked.get(key)]:
        told = f"{folder} was begun with {other[0]} {begun.get(other[0])!r}, not {asked.get(other[0])!r}"
        raise UserError(f"{told}: give this sweep a --name of its own.")


# ---- what came of it ------------------------------------------------------------------------------------------------


def report(study: Any, config: Config) -> str:
    """Returns the table, the best trial first; trials without a score stand at its end."""

    def rank(each: Any) -> tuple[bool, float]:
        return each.state.name == "COMPLETE", -np.inf if each.value is None else each.value

    rows = [
        [
            trial_name(each.number),
            f"{each.value:.4g}" if each.state.name == "COMPLETE" else each.state.name.lower(),
            *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in each.params.values()),
        ]
        for each in sorted(study.trials, key=rank, reverse=True)
    ]
    head = f"{config.run.name}: {config.evaluate.best_by}, {config.train.total_steps:,} steps each"
    return f"{head}\n\n{table(['trial', 'score', *study.trials[0].params], rows)}"


def _record(study: Any) -> list[dict[str, Any]]:
    return [
        {"run": trial_name(each.number), "state": each.state.name.lower(), "score": each.value, "values": each.params}
        for each in study.trials
    ]


def _least(distribution: Any) -> Any:
    return distribution.choices[0] if hasattr(distribution, "choices") else distribution.low
