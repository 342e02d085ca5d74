"""`jaxrl ablate`: what every part of a game's reward is worth, by trainings without it.

One training is of the whole, and one is without each weight of an option of the game that is a mapping of weights, such
as `env.options.rewards`: that weight is 0 in it. All of them have the same seeds, side by side in one program, and all
are evaluated in the game of the whole, so that their scores are of one kind. What a part is worth is the mean over
seeds of the score of the whole less that without the part, of the same seed, with Student's 95 % interval.

    RUNS/NAME-ablation/whole, without-touch, ...   runs like any other: nothing in them is trained twice
    RUNS/NAME-ablation/ablation.json, table.md     what came of it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config, presets
from jaxrl.games import make_stages
from jaxrl.runs.directory import RunDirectory, begun_run, find_run, read_json_list, seed_names, write_json
from jaxrl.runs.presence import FINISHED, read_presence
from jaxrl.statistics import Interval, student_interval
from jaxrl.text_tables import table
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching.start import begun_config, run_training
from jaxrl.training.plan import make_plan
from jaxrl_envs.shared.errors import UserError, nearest

WHOLE, WITHOUT = "whole", "without-"  # names of runs
OPTIONS = "env.options."
FEWEST_SEEDS = 3  # if the number is not given


class Worth(NamedTuple):
    """Worth of one part."""

    name: str
    weight: Any
    scores: np.ndarray  # f64[S], of the trainings without it
    worth: Interval  # the whole less them


def ablate(config: Config, over: str, *, only: Sequence[str] = (), seeds: int | None = None) -> int:
    """Trains what is not trained yet, then prints and writes the table; returns the exit code.

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
        if code := trained(each):
            return code
    whole, *scores = [scores_of(each) for each in wanted]
    found = [
        Worth(name, weight, score, student_interval(whole - score))
        for (name, weight), score in zip(parts.items(), scores, strict=True)
    ]
    text = report(config, whole, found)
    print(f"\n{text}")
    write(folder.expanduser(), over, config, whole, found, text)
    return 0


# ---- what is trained ------------------------------------------------------------------------------------------------


def weights_of(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the weights at the dotted path of a configuration's tree.

    Raises:
      UserError: the path gives no weights, or all are 0.
    """
    if not path.startswith(OPTIONS):
        raise UserError(f"--over {path} is no option of the game: it must begin with {OPTIONS[:-1]}.")
    node: Any = tree
    for key in path.split("."):
        if not isinstance(node, dict):
            break
        if key not in node:
            known = f": {nearest(key, list(node))}" if node else ", which is empty"
            raise UserError(f"--over {path}: the configuration gives no {key!r}{known}")
        node = node[key]
    if not isinstance(node, dict) or not all(map(_is_weight, node.values())):
        raise UserError(f"--over {path} must be a mapping from names to weights, but it is {node!r}.")
    if not any(map(_counts, node.values())):
        raise UserError(f"--over {path} has no weight but 0: there is nothing to leave out.")
    return node


def chosen(weights: dict[str, Any], path: str, only: Sequence[str]) -> dict[str, Any]:
    """Returns the weights that are left out in turn: those named in `only`, else all that are not 0.

    Raises:
      UserError: a name that has no weight, or 0.
    """
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
    """Returns the configuration of the training without one part, or of the whole for None.

    Raises:
      UserError: a stage of its curriculum has a weight of its own for the part.
    """
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
            raise UserError(f"--over {path}: {stage} has a weight of its own for {part!r}; leave it out of the stage.")
    return own


# ---- training -------------------------------------------------------------------------------------------------------


def trained(config: Config, callbacks: Sequence[Callback] = ()) -> int:
    """Trains a run, or what is left of it, and tells `callbacks`; returns the exit code.

    Raises:
      UserError: it was begun with other settings.
    """
    run = RunDirectory(config.run.path)
    if not run.checkpoints().saved():
        plan = make_plan(config)
        with begun_run(config) as run:
            return run_training(plan, run, resume=False, callbacks=callbacks)
    begun, who = begun_config(run, config, "give these trainings a --name of their own."), read_presence(run.path)
    if who is not None and who.how == FINISHED and _final(run):  # perhaps before its last update, by `train.stop`
        return 0
    return run_training(make_plan(begun), run, resume=True, callbacks=callbacks)


def _final(run: RunDirectory) -> list[dict[str, Any]]:
    """Returns the evaluations of the newest checkpoint: the training's own first, then those of `jaxrl evaluate`."""
    newest = max(run.checkpoints().steps())
    return [each for each in read_json_list(run.evaluation_file) if each.get("update") == newest]


def scores_of(config: Config) -> np.ndarray:
    """Reads what `evaluate.best_by` makes of the final evaluation of every seed of a finished training, f64[S]."""
    run, by = RunDirectory(config.run.path), config.evaluate.best_by
    record, names = _final(run)[0], seed_names(run.name, config.run.seeds)
    if by != "return":
        return np.array([record["overall"][name][by] for name in names])
    own = [[row for row in record["rows"] if row["candidate"] == name] for name in names]
    return np.array([np.mean([row["figures"]["return"]["mean"] for row in rows]) for rows in own])


# ---- what came of it ------------------------------------------------------------------------------------------------


def report(config: Config, whole: np.ndarray, found: Sequence[Worth]) -> str:
    """Returns the table, what is worth most first."""
    rows = [
        [
            each.name,
            f"{np.mean(each.scores):.3f}",
            f"{each.worth.value:+.3f}",
            f"{each.worth.low:+.3f} to {each.worth.high:+.3f}",
        ]
        for each in sorted(found, key=lambda each: -each.worth.value)
    ]
    steps = f"{config.train.total_steps:,} steps each"
    return "\n".join(
        [
            f"{config.run.name}: {config.evaluate.best_by}, {len(whole)} seeds, {steps}",
            "",
            table(["left out", "score", "worth", "95 %"], [["(nothing)", f"{np.mean(whole):.3f}", "", ""], *rows]),
            "",
            "worth: the score of the whole less that without the part; one interval of twenty misses 0 by chance.",
        ]
    )


def write(folder: Path, path: str, config: Config, whole: np.ndarray, found: Sequence[Worth], text: str) -> None:
    """Writes the metrics and the table."""
    parts = [each._asdict() | {"scores": each.scores.tolist(), "worth": each.worth._asdict()} for each in found]
    record = {"over": path, "score": config.evaluate.best_by, "whole": whole.tolist(), "parts": parts}
    write_json(folder / "ablation.json", record)
    (folder / "table.md").write_text(f"```\n{text}\n```\n", encoding="utf-8")
    print(f"written to {folder}: ablation.json, table.md")
