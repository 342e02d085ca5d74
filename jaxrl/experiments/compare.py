"""`jaxrl compare A B`: the quality gate. Is run B faster than run A, and does it play as well?

It reads the logs of two runs (throughput, mean reward in training, gains, times to milestones, the counters of
`sebulba.profile`) and their newest evaluations of one kind. Figures stand side by side with 95 % intervals:

- throughput: the median of `time/fps` over the lines of the log except the first, which includes compilation, with the
  interval of its order statistics; the gain is the ratio of the medians, its interval a bootstrap;
- win rates: Wilson's intervals with the design effect of a deal's games, their difference by Newcombe's method 10
  (Statistics in Medicine 17, 1998, 873-890). The same deals serve every opponent, so the interval of
  a mean over opponents is the mean of the intervals;
- means: normal intervals over deals, or over log lines;
- runs with several seeds (`run.seeds`): means over seeds with Student's interval over them, and the difference has
  Welch's: "B plays better than A" needs this, with three seeds or more. With one seed an interval is over deals, of
  these two policies alone.

The verdict follows the point estimates and says whether the interval leaves a doubt. Exit code 0: both tests passed;
1: throughput gained too little or win rate was lost; 2: the runs cannot be compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.config import trust
from jaxrl.experiments.results import MEAN, RETURN, Curve, Trained, curves_of, level
from jaxrl.runs.directory import RunDirectory, find_run, for_json, read_json_list
from jaxrl.runs.metric_log import read_rows
from jaxrl.statistics import (
    Design,
    Interval,
    difference,
    gain_interval,
    mean_interval,
    median_interval,
    student_interval,
    welch_interval,
    wilson,
)
from jaxrl.text_tables import count, flat, table
from jaxrl.training.timers import PREFIX as COUNTERS
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files, user_code
from jaxrl_envs.shared.errors import UserError

LAST_SHARE = 0.2  # of the log lines, the last ones: the mean reward in training is taken over them
_CAVEAT = " (one seed: its interval is over deals, and another training may come out elsewhere)"
EVALUATED = ("policy", "seed", "search")  # fields that are equal in evaluations of one kind
GAINS = {RETURN: "reward", MEAN: "win rate"}  # titles


class RunData(NamedTuple):
    """The data of one run that the comparison reads."""

    name: str
    config: dict[str, Any]  # the tree of config.yaml
    fps: list[float]
    rewards: list[float]  # rollout/ep_rew_mean, the last ones
    counters: dict[str, float]  # ms per 1,000 steps by name, medians
    curves: list[dict[str, Curve]]  # by seed
    evaluation: dict[str, Any]  # the record that is compared, {} without one
    rows: dict[str, list[dict[str, Any]]]  # of `evaluation`: opponent -> one row per seed of this run


class Line(NamedTuple):
    """One line of the comparison; a figure that a run does not have is None."""

    name: str
    left: Interval | None
    right: Interval | None
    change: Interval | None
    unit: str = "number"  # "rate", "percent" (shares of 1), "number"


class Verdict(NamedTuple):
    """One test of the gate."""

    passed: bool
    text: str


def compare(
    before_run: str, after_run: str, *, min_gain: float, max_drop: float, json_file: str | None, allow: Collection[str]
) -> bool:
    """Compares run B with run A, prints the comparison, and returns whether B passes the quality gate.

    Args:
      before_run, after_run: A and B, by name or path.
      min_gain, max_drop: per cent of throughput that B must gain, points of win rate that it may lose.
      json_file: file for the comparison.
      allow: modules and paths that the configurations may name, see `jaxrl.config.trust`.

    Raises:
      UserError: the runs cannot be read or compared.
    """
    runs = find_run(before_run), find_run(after_run)
    try:
        before, after = (read_run(run, found) for run, found in zip(runs, choose_evaluations(*runs), strict=True))
        check_comparable(before, after)
        lines = comparison(before, after, allow)
        verdicts = [_speed(lines[0], min_gain), _strength(before, after, max_drop)]
        print(describe(before, after, lines))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if user_code.fault(error):
            raise
        raise UserError(
            f"{runs[0].path} or {runs[1].path} holds figures that no training writes ({error!r}): "
            "look into their metrics.jsonl and evaluation.json."
        ) from error
    for verdict in verdicts:
        print(f"{'PASS' if verdict.passed else 'FAIL'}  {verdict.text}")
    passed = all(verdict.passed for verdict in verdicts)
    print(f"{after.name} {'passes' if passed else 'does not pass'} the quality gate against {before.name}")
    if json_file:
        told = {
            "lines": [for_json(line._asdict()) for line in lines],
            "verdicts": [each._asdict() for each in verdicts],
        }
        record = {"before": before.name, "after": after.name, **told, "passed": passed}
        Path(json_file).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return passed


# ---- reading ------------------------------------------------------------------------------------------------------


def read_run(run: RunDirectory, evaluation: dict[str, Any]) -> RunData:
    """Reads the data of a run whose record `evaluation` ({}: none) is compared; raises UserError without throughput."""
    logged = read_rows(run.metrics_file) if run.metrics_file.is_file() else []
    timed = [row for row in logged if row.get("time/fps")]
    if not timed:
        raise UserError(f"run {run.name!r} has no throughput in {run.metrics_file}: train it first.")
    steady = timed[1:] if len(timed) > 2 else timed  # the first line includes compilation
    late = timed[-max(2, math.ceil(LAST_SHARE * len(timed))) :]
    rewards = [row["rollout/ep_rew_mean"] for row in late if row.get("rollout/ep_rew_mean") is not None]
    names = sorted({tag for row in steady for tag in row if tag.startswith(COUNTERS)})
    counters = {
        name.removeprefix(COUNTERS): float(np.median([row[name] for row in steady if row.get(name) is not None]))
        for name in names
    }
    config, rows = files.read(run.config_file), own_rows(evaluation, run.name)
    seeds = max(map(len, rows.values()), default=1)
    curves = [curves_of(Trained(run, number, seeds), logged) for number in range(seeds)]
    return RunData(run.name, config, [row["time/fps"] for row in steady], rewards, counters, curves, evaluation, rows)


def own_rows(evaluation: dict[str, Any], name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the run `name` itself, one per seed, by opponent."""
    own: dict[str, list[dict[str, Any]]] = {}
    for row in evaluation.get("rows", []):
        if row["candidate"] == name or row["candidate"].startswith(f"{name}/seed_"):
            own.setdefault(row["opponent"], []).append(row)
    return own


def choose_evaluations(before: RunDirectory, after: RunDirectory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the newest evaluations of two runs by one kind of policy on the same deals, else the newest of each."""
    left, right = _evaluations(before), _evaluations(after)
    for record in reversed(right):
        for other in reversed(left):
            if all(record.get(key) == other.get(key) for key in EVALUATED):
                return other, record
    return (left or [{}])[-1], (right or [{}])[-1]


def _evaluations(run: RunDirectory) -> list[dict[str, Any]]:
    records = read_json_list(run.evaluation_file)
    try:
        return [record for record in records if own_rows(record, run.name)]
    except (LookupError, TypeError) as error:
        raise UserError(
            f"{run.evaluation_file} holds something else than evaluations: evaluate the run again."
        ) from error


def check_comparable(before: RunData, after: RunData) -> None:
    """Raises UserError if the two runs are not of one game, or were not measured against a common opponent."""
    games = [run.config.get("env", {}).get("id") for run in (before, after)]
    if games[0] != games[1]:
        raise UserError(f"run {before.name!r} plays {games[0]} and run {after.name!r} {games[1]}: compare one game.")
    for run in (before, after):
        if not run.rows:
            raise UserError(
                f"run {run.name!r} has no evaluation of its own: measure it with `jaxrl evaluate {run.name}`."
            )
    if not common_opponents(before, after):
        raise UserError(
            f"{before.name} was evaluated against {', '.join(before.rows)} and {after.name} against "
            f"{', '.join(after.rows)}: evaluate both against the same opponents (jaxrl evaluate --opponents)."
        )


def common_opponents(before: RunData, after: RunData) -> list[str]:
    """Opponents that both were evaluated against, in A's order."""
    return [name for name in before.rows if name in after.rows]


# ---- figures ------------------------------------------------------------------------------------------------------


def comparison(before: RunData, after: RunData, allow: Collection[str] = ()) -> list[Line]:
    """Returns all lines, throughput first. A game that runs user code titles its figures only if `allow` names it."""
    opponents, runs = common_opponents(before, after), (before, after)

    def figure(title: str, name: str, unit: str = "number") -> Line:
        left, right = (figure_interval(run, opponents, name) for run in runs)
        seeds = _welch(*(by_seed(run, opponents, _figure(name)) for run in runs))
        return Line(title, left, right, seeds or difference(left, right), unit)

    def wins(title: str, names: Sequence[str]) -> Line:
        left, right = (win_interval(run, names) for run in runs)
        return Line(title, left, right, win_change(before, after, names), "percent")

    left, right = (median_interval(run.fps) for run in runs)
    lines = [Line("throughput, steps/s", left, right, gain_interval(before.fps, after.fps), "rate")]
    lines.append(_means("reward in training", mean_interval(before.rewards), mean_interval(after.rewards)))
    lines.append(wins("win rate", opponents))
    lines += [wins(f"win rate against {name}", [name]) for name in opponents if len(opponents) > 1]
    lines.append(figure("reward in evaluation", "return"))
    told = titles(before.config["env"]["id"], allow)
    lines += [figure(title, name, unit) for name, (title, unit) in told.items()]
    names = [[name for name in next(iter(run.rows.values()))[0]["figures"]] for run in runs]
    others = [name for name in names[0] if name not in {"return", *told} and name in names[1]]
    lines += [figure(name.replace("_", " "), name) for name in others if not name.startswith("opp. ")]
    lines += _growth(before, after)
    for name in [name for name in before.counters if name in after.counters]:
        left, right = (Interval(run.counters[name], math.nan, math.nan) for run in runs)
        lines.append(_means(f"{name}, ms per 1,000 steps", left, right))
    return lines


def _growth(before: RunData, after: RunData) -> Iterator[Line]:
    """Yields the gains per hour of training and per million steps, and when milestones were first reached."""

    def line(title: str, name: str, of: Callable[[Curve], float]) -> Line:
        each = [np.array([of(own[name]) for own in run.curves if name in own]) for run in (before, after)]
        left, right = (values[~np.isnan(values)] for values in each)
        return _means(title, _over_seeds(left), _over_seeds(right), _welch(left, right))

    axes = (("seconds", "hour", "minutes"), ("cpu", "CPU hour", "CPU minutes"), ("steps", "million steps") * 2)
    for name, title in GAINS.items():
        for axis, unit, *_ in axes:
            scale = 1e6 if axis == "steps" else 3600.0
            found = line(f"{title} gained per {unit}", name, lambda own: scale * own.gained(axis))  # noqa: B023
            if found.left is not None and found.right is not None:
                yield found
    wanted = [run.config.get("train", {}).get("milestones", {}).items() for run in (before, after)]
    for name, value in dict.fromkeys((name, value) for of in wanted for name, values in of for value in values):
        for axis, *_, unit in axes:
            scale = 1e6 if axis == "steps" else 60.0
            found = line(f"{level(name, value)}, {unit}", name, lambda own: own.reached(value, axis) / scale)  # noqa: B023
            if found.left is not None or found.right is not None:
                yield found


def _over_seeds(values: np.ndarray) -> Interval | None:
    """Returns the mean of f64[S] with Student's interval; without one if S is 1."""
    if len(values) < 2:
        return Interval(float(values[0]), math.nan, math.nan) if len(values) else None
    return student_interval(values)


def _welch(left: np.ndarray | None, right: np.ndarray | None) -> Interval | None:
    """Returns the change between the seeds of two runs; None if one of them has a single seed."""
    return None if left is None or right is None or min(len(left), len(right)) < 2 else welch_interval(left, right)


def _means(name: str, left: Interval | None, right: Interval | None, change: Interval | None = None) -> Line:
    return Line(name, left, right, change or difference(left, right))


def titles(game: str, allow: Collection[str]) -> Mapping[str, tuple[str, str]]:
    """Name -> (title, unit of a `Line`) of the figures that a game describes in its module `figures`."""
    try:
        trust.check_game(game, "an evaluation", allow)
        told = registry.find_module(game, "figures")
    except UserError:  # not allowed, or not installed: runs can be compared without the game
        return {}
    return told.FIGURES if told is not None else {}


def by_seed(
    run: RunData, opponents: Sequence[str], value: Callable[[dict[str, Any]], float | None]
) -> np.ndarray | None:
    """f64[S], means over `opponents` of a value of each seed's rows; None with one seed, or if a value is missing."""
    counts = {len(run.rows[name]) for name in opponents}
    values = [[value(row) for row in run.rows[name]] for name in opponents]
    if len(counts) != 1 or min(counts) < 2 or any(each is None for row in values for each in row):
        return None
    return np.mean(np.array(values, np.float64), axis=0)


def _wins(row: dict[str, Any]) -> float | None:
    return row["outcomes"] and row["outcomes"]["wins"] / row["outcomes"]["games"]


def _figure(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: (row["figures"].get(name) or {}).get("mean")


def win_change(before: RunData, after: RunData, opponents: Sequence[str]) -> Interval | None:
    """Difference of win rates, B minus A, as a share of the games; None if the game has no winners."""
    seeds = _welch(*(by_seed(run, opponents, _wins) for run in (before, after)))
    return seeds or difference(win_interval(before, opponents), win_interval(after, opponents), newcombe=True)


def win_interval(run: RunData, opponents: Sequence[str]) -> Interval | None:
    """The win rate, averaged over `opponents` with equal weights; None if the game has no winners (single-player)."""
    if (seeds := by_seed(run, opponents, _wins)) is not None:
        return student_interval(seeds)
    found = []
    for name in opponents:
        tallies = [row["outcomes"] for row in run.rows[name]]
        if None in tallies:
            return None
        wins, games = (sum(tally[key] for tally in tallies) for key in ("wins", "games"))
        effect = float(np.mean([tally.get("design_effect", 1.0) for tally in tallies]))
        design = Design(effect, sum(row["deals"] for row in run.rows[name]) - 1)
        found.append((wins / games, *wilson(wins, games, design)))
    return Interval(*(float(value) for value in np.mean(found, axis=0)))


def figure_interval(run: RunData, opponents: Sequence[str], name: str) -> Interval | None:
    """Returns the mean of a figure of the evaluation over opponents and seeds; None if the game does not report it."""
    if (seeds := by_seed(run, opponents, _figure(name))) is not None:
        return student_interval(seeds)
    found = [row["figures"].get(name) for opponent in opponents for row in run.rows[opponent]]
    known = [(each["mean"], each["half_width_95"]) for each in found if each is not None]
    if len(known) < len(found) or not known:
        return None
    mean, half = np.mean(np.array(known, np.float64), axis=0)  # None, of too few deals, is no number
    return Interval(float(mean), float(mean - half), float(mean + half))


# ---- verdicts -----------------------------------------------------------------------------------------------------


def _speed(line: Line, min_gain: float) -> Verdict:
    """Returns whether the throughput gained at least `min_gain` per cent."""
    assert line.change is not None
    return _verdict("throughput", line.change, "%", min_gain)


def _strength(before: RunData, after: RunData, max_drop: float) -> Verdict:
    """Returns whether the win rate dropped by no more than `max_drop` points."""
    change = win_change(before, after, common_opponents(before, after))
    if change is None:
        return Verdict(True, "win rate: this game has no winners, so only the throughput counts")
    return _verdict("win rate", change, "points", -max_drop)


def _verdict(name: str, change: Interval, unit: str, least: float) -> Verdict:
    gain, low, high = (100 * value for value in change)
    passed = round(gain, 9) >= least
    doubt = "" if (low >= least) == passed == (high >= least) else "; the interval leaves a doubt"
    wanted = f"{least:+g} %" if unit == "%" else f"{least:+g}"
    return Verdict(passed, f"{name} {gain:+.1f} {unit} ({low:+.1f} to {high:+.1f}), wanted: at least {wanted}{doubt}")


# ---- text ---------------------------------------------------------------------------------------------------------


def describe(before: RunData, after: RunData, lines: Sequence[Line]) -> str:
    """Returns the table, and the settings that differ between the runs."""
    forms: dict[str, tuple[Callable[[float], str], Callable[[float], str]]] = {  # of a figure and of a change
        "rate": (count, lambda x: f"{100 * x:+.1f}"),
        "percent": (lambda x: f"{100 * x:.1f} %", lambda x: f"{100 * x:+.1f}"),
        "number": (_number, lambda x: _number(x, "+")),
    }
    cells = []
    for line in lines:
        value, change = forms[line.unit]
        cells.append([line.name, _text(line.left, value), _text(line.right, value), _text(line.change, change)])
    cells[0][3] = cells[0][3].replace(" (", " % (")
    facts = [
        flat(run.config) | {f"evaluation.{key}": run.evaluation.get(key) for key in EVALUATED}
        for run in (before, after)
    ]
    keys = [key for key in {**facts[0], **facts[1]} if key != "run.name" and facts[0].get(key) != facts[1].get(key)]
    notes = [f"  {key}: {facts[0].get(key)} -> {facts[1].get(key)}" for key in keys]
    opponents = common_opponents(before, after)
    seeds = " and ".join(str(len(run.rows[opponents[0]])) for run in (before, after))
    told = f"evaluated against {', '.join(opponents)}; seeds: {seeds}{_CAVEAT * ('1' in seeds.split())}"
    different = ["also different:", *notes] if notes else []
    return "\n".join([table(["figure (95 %)", before.name, after.name, "change"], cells), told, *different, ""])


def _text(value: Interval | None, form: Callable[[float], str]) -> str:
    if value is None or math.isnan(value.value):
        return "-"
    if math.isnan(value.low):
        return form(value.value)
    return f"{form(value.value)} ({form(value.low)} to {form(value.high)})"


def _number(value: float, sign: str = "") -> str:
    size = abs(value)
    return f"{value:{sign}.{3 if size < 2 else 2 if size < 10 else 1}f}"
