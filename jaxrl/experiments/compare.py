"""`jaxrl compare A B`: the quality gate. Is run B faster than run A, and does it play as well?

It reads the logs of two runs (throughput, mean reward in training, gains, times to milestones) and their newest
evaluations of one kind. Figures stand side by side with 95 % intervals:

- throughput: the median of `time/fps` over the lines of the log except the first, which includes compilation; the gain
  is the ratio of the medians, their intervals are bootstrapped;
- win rates: Wilson's intervals with the design effect of a deal's games, their difference by Newcombe's method 10
  (Statistics in Medicine 17, 1998, 873-890). The same deals serve every opponent, so the interval of
  a mean over opponents is the mean of the intervals;
- means: Student's intervals over deals, or over log lines;
- runs with several seeds (`run.seeds`): means over seeds with Student's interval over them, and the difference has
  Welch's: "B plays better than A" needs this, with three seeds or more. With one seed an interval is over deals, of
  these two policies alone.

The verdict follows the point estimates and says whether the interval leaves a doubt. Exit code 0: both tests passed;
1: throughput gained too little or win rate was lost; 2: the runs cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.experiments.report import interval
from jaxrl.experiments.results import MEAN, RETURN, LearningCurve, Trained, curves_of, level
from jaxrl.runs.directory import RunDirectory, find_run, for_json, read_json_list, write_json
from jaxrl.runs.metric_log import read_rows
from jaxrl.statistics import Design, Interval, difference, ratio_of_medians, student_interval, welch_interval, wilson
from jaxrl.text_tables import count, flat, table
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

LAST_SHARE = 0.2  # of the log lines, the last ones: the mean reward in training is taken over them
_CAVEAT = " (one seed: its interval is over deals, and another training may come out elsewhere)"
EVALUATED = ("policy", "seed", "search")  # fields that are equal in evaluations of one kind
GAINS = {RETURN: "reward", MEAN: "win rate"}  # titles
AXES = {  # of curves -> unit of a gain, its size; unit of a time, its size
    "seconds": ("hour", 3600.0, "minutes", 60.0),
    "cpu": ("CPU hour", 3600.0, "CPU minutes", 60.0),
    "steps": ("million steps", 1e6, "million steps", 1e6),
}

Row = dict[str, Any]  # of an evaluation


class RunData(NamedTuple):
    """The data of one run that the comparison reads."""

    name: str
    config: dict[str, Any]  # the tree of config.yaml
    fps: list[float]
    rewards: np.ndarray  # rollout/ep_rew_mean, the last ones
    curves: list[dict[str, LearningCurve]]  # by seed
    evaluation: dict[str, Any]  # the record that is compared, {} without one
    rows: dict[str, list[Row]]  # of `evaluation`: opponent -> one row per seed of this run


class Figure(NamedTuple):
    """A figure of one run: its interval, None if the run does not have it, and its value for each seed."""

    interval: Interval | None
    seeds: np.ndarray = np.zeros(0)  # f64[S]; empty for figures that are not compared over seeds


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


def compare(before_run: str, after_run: str, *, min_gain: float, max_drop: float, json_file: str | None) -> bool:
    """Compares run B with run A, prints the comparison, and returns whether B passes the quality gate.

    Args:
      before_run, after_run: A and B, by name or path.
      min_gain, max_drop: per cent of throughput that B must gain, points of win rate that it may lose.
      json_file: file for the comparison.

    Raises:
      UserError: the runs cannot be read or compared.
    """
    runs = find_run(before_run), find_run(after_run)
    try:
        before, after = (read_run(run, found) for run, found in zip(runs, choose_evaluations(*runs), strict=True))
        check_comparable(before, after)
        lines = comparison(before, after)
        speed, _, strength, *_ = (line.change for line in lines)
        verdicts = [_verdict("throughput", speed, "%", min_gain), _verdict("win rate", strength, "points", -max_drop)]
        print(describe(before, after, lines))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(
            f"{runs[0].path} or {runs[1].path} holds figures that no training writes ({error!r}): "
            "look into their metrics.jsonl and evaluation.json."
        ) from error
    for verdict in verdicts:
        print(f"{'PASS' if verdict.passed else 'FAIL'}  {verdict.text}")
    passed = all(verdict.passed for verdict in verdicts)
    print(f"{after.name} {'passes' if passed else 'does not pass'} the quality gate against {before.name}")
    if json_file:
        told = {"lines": [line._asdict() for line in lines], "verdicts": [each._asdict() for each in verdicts]}
        record = {"before": before.name, "after": after.name, **told, "passed": passed}
        write_json(Path(json_file), for_json(record))
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
    config, rows = files.read(run.config_file), own_rows(evaluation, run.name)
    seeds = max(map(len, rows.values()), default=1)
    curves = [curves_of(Trained(run, number, seeds), logged) for number in range(seeds)]
    return RunData(
        run.name, config, [row["time/fps"] for row in steady], np.array(rewards, float), curves, evaluation, rows
    )


def own_rows(evaluation: dict[str, Any], name: str) -> dict[str, list[Row]]:
    """Returns the rows of the run `name` itself, one per seed, by opponent."""
    own: dict[str, list[Row]] = {}
    for row in evaluation.get("rows", []):
        if row["candidate"] == name or row["candidate"].startswith(f"{name}/seed_"):
            own.setdefault(row["opponent"], []).append(row)
    return own


def choose_evaluations(before: RunDirectory, after: RunDirectory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the newest evaluations of two runs by one kind of policy on the same deals, else the newest of each."""
    left, right = (
        [record for record in read_json_list(run.evaluation_file) if own_rows(record, run.name)]
        for run in (before, after)
    )
    for record in reversed(right):
        for other in reversed(left):
            if all(record.get(key) == other.get(key) for key in EVALUATED):
                return other, record
    return (left or [{}])[-1], (right or [{}])[-1]


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
    """Returns the opponents that both were evaluated against, in A's order."""
    return [name for name in before.rows if name in after.rows]


# ---- figures ------------------------------------------------------------------------------------------------------


def comparison(before: RunData, after: RunData) -> list[Line]:
    """Returns all lines: first throughput, reward in training and win rate."""
    opponents, runs = common_opponents(before, after), (before, after)

    def wins(title: str, names: Sequence[str]) -> Line:
        return _line(title, [figure(run, names, win_rate) for run in runs], "percent", newcombe=True)

    def mean(title: str, name: str) -> Line:
        return _line(title, [figure(run, opponents, lambda row: mean_of(row, name)) for run in runs])

    lines = [Line("throughput, steps/s", *ratio_of_medians(before.fps, after.fps), "rate")]
    lines.append(
        _line(
            "reward in training",
            [Figure(student_interval(run.rewards)) if len(run.rewards) else Figure(None) for run in runs],
        )
    )
    lines.append(wins("win rate", opponents))
    lines += [wins(f"win rate against {name}", [name]) for name in opponents if len(opponents) > 1]
    lines.append(mean("reward in evaluation", "return"))
    told = dict.fromkeys(name for run in runs for name in next(iter(run.rows.values()))[0]["figures"])
    others = [name for name in told if name != "return" and not name.startswith("opp. ")]
    lines += [mean(name.replace("_", " "), name) for name in others]
    return [*lines, *_growth(before, after)]


def _line(name: str, both: Sequence[Figure], unit: str = "number", newcombe: bool = False) -> Line:
    """Compares the figures of A and B: over seeds where both have several, else by their intervals."""
    left, right = both
    several = min(len(left.seeds), len(right.seeds)) > 1
    change = welch_interval(left.seeds, right.seeds) if several else difference(left.interval, right.interval, newcombe)
    return Line(name, left.interval, right.interval, change, unit)


def figure(run: RunData, opponents: Sequence[str], of: Callable[[Row], Interval | None]) -> Figure:
    """Returns a figure of the evaluation, averaged over `opponents` with equal weights; `of` reads it from a row."""
    each = [[of(row) for row in run.rows[name]] for name in opponents]
    if any(None in rows for rows in each):
        return Figure(None)
    found = np.array(each, np.float64)  # [O, S, 3]
    seeds = found[..., 0].mean(axis=0)
    return Figure(student_interval(seeds) if len(seeds) > 1 else Interval(*found.mean(axis=(0, 1)).tolist()), seeds)


def win_rate(row: Row) -> Interval | None:
    """Returns the share of games that the run has won, with Wilson's interval; None in a game without winners."""
    if (tally := row["outcomes"]) is None:
        return None
    rate = tally["wins"] / tally["games"]
    return Interval(
        rate, *wilson(tally["wins"], tally["games"], Design(tally.get("design_effect", 1.0), row["deals"] - 1))
    )


def mean_of(row: Row, name: str) -> Interval | None:
    """Returns the mean of a figure over deals with its interval; None if the game does not report it."""
    if (told := row["figures"].get(name)) is None:
        return None
    mean, half = (math.nan if told[key] is None else told[key] for key in ("mean", "half_width_95"))  # too few deals
    return Interval(mean, mean - half, mean + half)


def _growth(before: RunData, after: RunData) -> Iterator[Line]:
    """Yields the gains per hour of training and per million steps, and when milestones were first reached."""

    def line(title: str, name: str, of: Callable[[LearningCurve], float]) -> Line:
        each = [np.array([of(own[name]) for own in run.curves if name in own]) for run in (before, after)]
        known = [values[~np.isnan(values)] for values in each]
        return _line(title, [Figure(student_interval(own), own) if len(own) else Figure(None) for own in known])

    lines = []
    for name, title in GAINS.items():
        for axis, (unit, size, *_) in AXES.items():
            lines.append(line(f"{title} gained per {unit}", name, lambda own: size * own.gained(axis)))  # noqa: B023
    wanted = [run.config.get("train", {}).get("milestones", {}).items() for run in (before, after)]
    for name, value in dict.fromkeys((name, value) for of in wanted for name, values in of for value in values):
        for axis, (*_, unit, size) in AXES.items():
            lines.append(line(f"{level(name, value)}, {unit}", name, lambda own: own.reached(value, axis) / size))  # noqa: B023
    yield from (line for line in lines if line.left is not None or line.right is not None)


# ---- verdicts -----------------------------------------------------------------------------------------------------


def _verdict(name: str, change: Interval | None, unit: str, least: float) -> Verdict:
    """Returns whether a change, a share of 1, is at least `least` per cent or points."""
    if change is None:
        return Verdict(True, f"{name}: this game has no winners, so only the throughput counts")
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
        cells.append(
            [line.name, interval(line.left, value), interval(line.right, value), interval(line.change, change)]
        )
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


def _number(value: float, sign: str = "") -> str:
    size = abs(value)
    return f"{value:{sign}.{3 if size < 2 else 2 if size < 10 else 1}f}"
