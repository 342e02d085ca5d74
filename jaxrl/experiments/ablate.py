"""`jaxrl bench --without`: what every part of a game's reward is worth, by trainings without it.

One training is of the whole, and one is without each weight of an option of the game that is a mapping of weights, such
as `env.options.rewards`: that weight is 0 in it. All of them have the same seeds, side by side in one program, and all
are evaluated in the game of the whole, so that their scores are of one kind. What a part is worth is the mean over
seeds of the score of the whole less that without the part, of the same seed, with Student's 95 % interval.

    RUNS/NAME-ablation/whole, without-touch, ...      runs like any other: nothing in them is trained twice
    RUNS/NAME-ablation/ablation.json, table.md, ...   the report
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, presets
from jaxrl.experiments import contenders, report
from jaxrl.experiments.results import Trained, curves_of, final
from jaxrl.games import make_stages
from jaxrl.runs.directory import RunDirectory, find_run
from jaxrl.statistics import Interval, student_interval
from jaxrl_envs.shared.errors import UserError, nearest

WHOLE, WITHOUT = "whole", "without-"  # names of runs
OPTIONS = "env.options."
FEWEST_SEEDS = 3  # if the number is not given


def ablate(config: Config, over: str, *, only: Sequence[str] = (), seeds: int | None = None) -> int:
    """Trains what is not trained yet, then writes the report; returns the exit code.

    Args:
      config: configuration of the training of the whole.
      over: the dotted path of the mapping of weights.
      only: the weights that are left out; empty: all that are not 0.
      seeds: seeds of each training; None: `run.seeds`, at least `FEWEST_SEEDS`.

    Raises:
      UserError: there are no such weights, or a training was begun with other settings.
    """
    seeds = seeds if seeds is not None else max(config.run.seeds, FEWEST_SEEDS)
    if seeds < 2:
        raise UserError(f"--seeds must be at least 2, got {seeds}: the interval is over seeds.")
    parts = chosen(weights_of(configs.to_dict(config), over), over, only)
    folder = Path(config.run.directory) / f"{config.run.name}-ablation"
    if config.train.from_run and not config.train.from_policy:  # a name in the folder that the configuration names
        path = find_run(config.train.from_name, config.run.directory).path.resolve()
        at = config.train.from_run.removeprefix(config.train.from_name)
        config = dataclasses.replace(config, train=dataclasses.replace(config.train, from_run=f"{path}{at}"))
    wanted = [without(config, over, name, folder, seeds) for name in (None, *parts)]
    xla.prepare_training(wanted[0])
    for each in wanted:  # before anything is trained
        make_stages(each)
    for number, each in enumerate(wanted, start=1):
        print(f"{number} of {len(wanted)}: {each.run.name}", flush=True)
        if code := contenders.train(each):
            return code
    runs = [RunDirectory(each.run.path) for each in wanted]
    trained = [[Trained(run, number, seeds) for number in range(seeds)] for run in runs]
    whole, *scores = [np.array([final(each, config.evaluate.best_by) for each in of]) for of in trained]
    found = [
        {"name": name, "weight": weight, "scores": score.tolist(), "worth": student_interval(whole - score)._asdict()}
        for (name, weight), score in zip(parts.items(), scores, strict=True)
    ]
    record = {"over": over, "score": config.evaluate.best_by, "whole": whole.tolist(), "parts": found}
    curves = {run.name: [curves_of(each) for each in of] for run, of in zip(runs, trained, strict=True)}
    report.write(folder.expanduser(), "ablation", text_of(config, whole, found), record, curves)
    return 0


def text_of(config: Config, whole: np.ndarray, found: Sequence[dict[str, Any]]) -> str:
    """Returns the table, what is worth most first."""
    parts = sorted(found, key=lambda part: -part["worth"]["value"])
    worth = [report.interval(Interval(**part["worth"]), "{:+.3f}".format) for part in parts]
    scores = [f"{np.mean(each):.3f}" for each in (whole, *(part["scores"] for part in parts))]
    columns = {"left out": ["(nothing)", *(part["name"] for part in parts)], "score": scores, "worth": ["", *worth]}
    steps = f"{config.train.total_steps:,} steps each"
    return (
        f"{config.run.name}: {config.evaluate.best_by}, {len(whole)} seeds, {steps}\n\n{report.columns(columns)}\n\n"
        "worth: the score of the whole less that without the part; one interval of twenty misses 0 by chance."
    )


# ---- what is trained ------------------------------------------------------------------------------------------------


def weights_of(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the weights at the dotted path of a configuration's tree. Raises UserError if the path gives no weights,
    or all are 0."""
    if not path.startswith(OPTIONS):
        raise UserError(f"--without {path} is no option of the game: it must begin with {OPTIONS[:-1]}.")
    node: Any = tree
    for key in path.split("."):
        if not isinstance(node, dict):
            break
        if key not in node:
            known = f": {nearest(key, list(node))}" if node else ", which is empty"
            raise UserError(f"--without {path}: the configuration gives no {key!r}{known}")
        node = node[key]
    if not isinstance(node, dict) or not all(map(_is_weight, node.values())):
        raise UserError(f"--without {path} must be a mapping from names to weights, but it is {node!r}.")
    if not any(map(_counts, node.values())):
        raise UserError(f"--without {path} has no weight but 0: there is nothing to leave out.")
    return node


def chosen(weights: dict[str, Any], path: str, only: Sequence[str]) -> dict[str, Any]:
    """Returns the weights that are left out in turn: those named in `only`, else all that are not 0. Raises UserError
    for a name that has no weight, or 0."""
    names = only or [name for name, weight in weights.items() if _counts(weight)]
    for name in names:
        if name not in weights:
            raise UserError(f"--only: {path} has no weight {name!r}: {nearest(name, list(weights))}")
        if not _counts(weights[name]):
            raise UserError(f"--only: the weight of {name!r} in {path} is 0 already.")
    return {name: weights[name] for name in names}


def _is_weight(value: Any) -> bool:
    """Returns whether a value is a number, or several that it goes through."""
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(map(_is_weight, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _counts(weight: Any) -> bool:
    return any(weight) if isinstance(weight, (list, tuple)) else bool(weight)


def without(config: Config, path: str, part: str | None, folder: Path, seeds: int) -> Config:
    """Returns the configuration of the training without one part, or of the whole for None. Raises UserError if a stage
    of its curriculum has a weight of its own for the part."""
    option = path.split(".")[2]  # what evaluations have is the whole, whatever the training has
    name = WHOLE if part is None else f"{WITHOUT}{part}"
    changes = {
        "evaluate": {"options": {option: config.env.options[option]} | config.evaluate.options},
        "run": {"directory": str(folder), "name": name, "seeds": seeds},
    }
    if part is not None:
        changes = presets.changed(changes, [*path.split("."), part], 0.0)
    own = configs.changed(config, changes)
    for stage in configs.stages(own):
        if part is not None and _counts(weights_of(configs.to_dict(stage.config), path)[part]):
            raise UserError(
                f"--without {path}: {stage} has a weight of its own for {part!r}; leave it out of the stage."
            )
    return own
