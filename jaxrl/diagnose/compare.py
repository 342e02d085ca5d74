"""`jaxrl compare A B`: the quality gate. Is run B faster than run A, and does it play as well?

It reads what two runs have written: `metrics.jsonl` (throughput, mean reward in training, gains per hour and per
million steps, the counters of `sebulba.profile`), `milestones.json` (when win rates were first reached) and the newest
evaluations of one kind in `evaluation.json` (win rates, returns and the game's own figures, such as the difference in
victory points). Figures stand side by side with 95 % intervals:

- throughput: the median of `time/fps` over the lines of the log except the first, which includes compilation, with the
  interval of its order statistics; the gain is the ratio of the medians, its interval a bootstrap;
- win rates: Wilson's intervals with the design effect of a deal's games, their difference by Newcombe's method 10
  (Statistics in Medicine 17, 1998, 873-890). The same deals serve every opponent, so the interval of
  a mean over opponents is the mean of the intervals;
- means: normal intervals over deals, or over log lines;
- runs with several seeds (`run.seeds`): win rates and figures of the evaluation are means over seeds with Student's
  interval over them, and the difference has Welch's: "B plays better than A" needs this, with three seeds or more.
  With one seed an interval is over deals, of these two policies alone.

The verdict follows the point estimates and says whether the interval leaves a doubt. Exit code 0: both tests passed;
1: throughput gained too little or win rate was lost; 2: the runs cannot be compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.config import trust
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
from jaxrl.text_tables import count, flat, mark, table
from jaxrl.training.timers import PREFIX as COUNTERS
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files, user_code
from jaxrl_envs.shared.errors import UserError

LAST_SHARE = 0.2  # of the log lines, the last ones: the mean reward in training is taken over them
_CAVEAT = " (one seed: its interval is over deals, and another training may come out elsewhere)"
GAINS = {  # tag -> title
    "time/win_rate_per_hour": "win rate gained per hour",
    "eval/win_rate_per_million_steps": "win rate gained per million steps",
    "time/return_per_hour": "reward gained per hour",
    "eval/return_per_million_steps": "reward gained per million steps",
}
EVALUATED = ("policy", "seed", "search")  # fields that are equal in evaluations of one kind


class RunData(NamedTuple):
    """The data of one run that the comparison reads."""

    name: str
    config: dict[str, Any]  # the tree of config.yaml
    fps: list[float]
    rewards: list[float]  # rollout/ep_rew_mean, the last ones
    counters: dict[str, float]  # ms per 1,000 steps by name, medians
    gains: dict[str, float]  # tags of `GAINS`, at the newest evaluation during training
    milestones: dict[str, dict[str, Any]]  # "50% against hard" -> when it was reached
    evaluation: dict[str, Any]  # the record that is compared, {} without one
    rows: dict[str, list[dict[str, Any]]]  # of `evaluation`: opponent -> one row per seed of this run


class Line(NamedTuple):
    """One line of the comparison; a figure that a run does not have is None."""

    name: str
    left: Interval | None
    right: Interval | None
    change: Interval | None
    unit: str  # "rate", "percent" (shares of 1), "number"


Both = tuple[Interval | None, Interval | None]  # of A and of B


class Verdict(NamedTuple):
    """One test of the gate."""

    passed: bool
    text: str


# ---- the command --------------------------------------------------------------------------------------------------


def compare(
    before_run: str, after_run: str, *, min_gain: float, max_drop: float, json_file: str | None, allow: Collection[str]
) -> bool:
    """Compares run B with run A, prints the comparison, and returns whether B passes the quality gate.

    Args:
      before_run: the run A, by name or path.
      after_run: the run B.
      min_gain: throughput that B must gain, in per cent.
      max_drop: points of win rate that B may lose.
      json_file: file for the comparison.
      allow: modules and paths that the configurations may name, see `jaxrl.config.trust`.

    Raises:
      UserError: the runs cannot be read or compared.
    """
    target = Path(json_file) if json_file else None
    if target is not None and not target.resolve().parent.is_dir():
        raise UserError(f"--out {json_file!r}: there is no folder {str(target.parent)!r}.")
    runs = find_run(before_run), find_run(after_run)
    try:
        before, after = (read_run(run, found) for run, found in zip(runs, choose_evaluations(*runs), strict=True))
        check_comparable(before, after)
        lines = comparison(before, after, allow)
        verdicts = [speed_verdict(lines[0], min_gain), strength_verdict(before, after, max_drop)]
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
    if target is not None:
        record = {
            "before": before.name,
            "after": after.name,
            "lines": [for_json(line._asdict()) for line in lines],
            "verdicts": [verdict._asdict() for verdict in verdicts],
            "passed": passed,
        }
        target.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return passed


# ---- reading ------------------------------------------------------------------------------------------------------


def read_run(run: RunDirectory, evaluation: dict[str, Any]) -> RunData:
    """Reads the data of a run from its files.

    Args:
      run: the run.
      evaluation: the record of its evaluation.json that is compared, {} for none.

    Raises:
      UserError: the run has no log line with a throughput yet.
    """
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
    fps = [row["time/fps"] for row in steady]
    rows = own_rows(evaluation, run.name)
    gains = {tag: row[tag] for row in logged for tag in GAINS if row.get(tag) is not None}
    reached = {mark(each): each for each in read_json_list(run.milestones_file)}
    return RunData(run.name, files.read(run.config_file), fps, rewards, counters, gains, reached, evaluation, rows)


def own_rows(evaluation: dict[str, Any], name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the run `name` itself, one per seed, by opponent."""
    own: dict[str, list[dict[str, Any]]] = {}
    for row in evaluation.get("rows", []):
        if row["candidate"] == name or row["candidate"].startswith(f"{name}/seed_"):
            own.setdefault(row["opponent"], []).append(row)
    return own


def choose_evaluations(before: RunDirectory, after: RunDirectory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The newest evaluations of two runs by the same kind of policy on the same deals, else the newest of each.

    Raises:
      UserError: an evaluation.json cannot be read.
    """
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
    opponents = common_opponents(before, after)

    def figure(title: str, name: str, unit: str = "number") -> Line:
        left, right = figure_interval(before, opponents, name), figure_interval(after, opponents, name)
        both = (figures_by_seed(run, opponents, name) for run in (before, after))
        return Line(title, left, right, over_seeds(*both) or difference(left, right), unit)

    def wins(title: str, names: Sequence[str]) -> Line:
        left, right = win_interval(before, names), win_interval(after, names)
        return Line(title, left, right, win_change(before, after, names), "percent")

    fps = median_interval(before.fps), median_interval(after.fps)
    lines = [Line("throughput, steps/s", *fps, gain_interval(before.fps, after.fps), "rate")]
    lines.append(_means("reward in training", (mean_interval(before.rewards), mean_interval(after.rewards))))
    lines.append(wins("win rate", opponents))
    lines += [wins(f"win rate against {name}", [name]) for name in opponents if len(opponents) > 1]
    lines.append(figure("reward in evaluation", "return"))
    told = titles(before.config["env"]["id"], allow)
    lines += [figure(title, name, unit) for name, (title, unit) in told.items()]
    others = [name for name in _figures(before) if name not in {"return", *told} and name in _figures(after)]
    lines += [figure(name.replace("_", " "), name) for name in others]
    lines += _strength(before, after)
    for name in [name for name in before.counters if name in after.counters]:
        left, right = (_exact(run.counters[name]) for run in (before, after))
        lines.append(_means(f"{name}, ms per 1,000 steps", (left, right)))
    return lines


def _strength(before: RunData, after: RunData) -> Iterator[Line]:
    """Yields the gains per hour of training and per million steps, and when win rates were first reached."""
    for tag, title in GAINS.items():
        if tag in before.gains and tag in after.gains:
            yield _means(title, (_exact(before.gains[tag]), _exact(after.gains[tag])))
    wanted = list(dict.fromkeys([*before.milestones, *after.milestones]))
    for name in wanted:
        both = [run.milestones.get(name, {}) for run in (before, after)]
        for key, unit in (("seconds", "minutes"), ("cpu_seconds", "CPU minutes"), ("steps", "million steps")):
            left, right = (_exact(each[key] / (1e6 if key == "steps" else 60)) if each else None for each in both)
            yield _means(f"{name}, {unit}", (left, right))


def _exact(value: float) -> Interval:
    """Returns a figure without an interval."""
    return Interval(float(value), math.nan, math.nan)


def _means(name: str, values: Both, unit: str = "number") -> Line:
    left, right = values
    return Line(name, left, right, difference(left, right), unit)


def titles(game: str, allow: Collection[str]) -> dict[str, tuple[str, str]]:
    """Name -> (title, unit of a `Line`) of the figures that a game describes in its module `figures`."""
    try:
        trust.check_game(game, "an evaluation", allow)
        told = registry.find_module(game, "figures")
    except UserError:  # not allowed, or not installed: runs can be compared without the game
        return {}
    return told.FIGURES if told is not None else {}


def _figures(run: RunData) -> list[str]:
    """Names of the candidate's own figures in the evaluation of a run."""
    first = next(iter(run.rows.values()))[0]["figures"]
    return [name for name in first if not name.startswith("opp. ")]


def by_seed(
    run: RunData, opponents: Sequence[str], value: Callable[[dict[str, Any]], float | None]
) -> np.ndarray | None:
    """f64[S], means over `opponents` of a value of each seed's rows; None with one seed, or if a value is missing."""
    counts = {len(run.rows[name]) for name in opponents}
    values = [[value(row) for row in run.rows[name]] for name in opponents]
    if len(counts) != 1 or min(counts) < 2 or any(each is None for row in values for each in row):
        return None
    return np.mean(np.array(values, np.float64), axis=0)


def wins_by_seed(run: RunData, opponents: Sequence[str]) -> np.ndarray | None:
    """f64[S], win rates; see `by_seed`."""
    return by_seed(run, opponents, lambda row: row["outcomes"] and row["outcomes"]["wins"] / row["outcomes"]["games"])


def figures_by_seed(run: RunData, opponents: Sequence[str], name: str) -> np.ndarray | None:
    """f64[S], means of a figure; see `by_seed`."""
    return by_seed(run, opponents, lambda row: (row["figures"].get(name) or {}).get("mean"))


def over_seeds(left: np.ndarray | None, right: np.ndarray | None) -> Interval | None:
    """The change between the seeds of two runs; None if one of them has a single seed."""
    return None if left is None or right is None else welch_interval(left, right)


def win_change(before: RunData, after: RunData, opponents: Sequence[str]) -> Interval | None:
    """Difference of win rates, B minus A, as a share of the games; None if the game has no winners."""
    seeds = over_seeds(*(wins_by_seed(run, opponents) for run in (before, after)))
    return seeds or difference(win_interval(before, opponents), win_interval(after, opponents), newcombe=True)


def win_interval(run: RunData, opponents: Sequence[str]) -> Interval | None:
    """The win rate, averaged over `opponents` with equal weights; None if the game has no winners (single-player)."""
    if (seeds := wins_by_seed(run, opponents)) is not None:
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
    if (seeds := figures_by_seed(run, opponents, name)) is not None:
        return student_interval(seeds)
    found = [row["figures"].get(name) for opponent in opponents for row in run.rows[opponent]]
    known = [(each["mean"], each["half_width_95"]) for each in found if each is not None]
    if len(known) < len(found) or not known:
        return None
    mean, half = np.mean(np.array(known, np.float64), axis=0)  # None, of too few deals, is no number
    return Interval(float(mean), float(mean - half), float(mean + half))


# ---- verdicts -----------------------------------------------------------------------------------------------------


def speed_verdict(line: Line, min_gain: float) -> Verdict:
    """Returns whether the throughput gained at least `min_gain` per cent."""
    assert line.change is not None
    gain, low, high = (100 * value for value in line.change)
    passed = round(gain, 9) >= min_gain
    doubt = "" if (low >= min_gain) == passed == (high >= min_gain) else "; the interval leaves a doubt"
    text = f"throughput {gain:+.1f} % ({low:+.1f} to {high:+.1f}), wanted: at least {min_gain:+g} %{doubt}"
    return Verdict(passed, text)


def strength_verdict(before: RunData, after: RunData, max_drop: float) -> Verdict:
    """Returns whether the win rate dropped by no more than `max_drop` points."""
    opponents = common_opponents(before, after)
    change = win_change(before, after, opponents)
    if change is None:
        return Verdict(True, "win rate: this game has no winners, so only the throughput counts")
    points, low, high = (100 * value for value in change)
    passed = round(points, 9) >= -max_drop
    doubt = "" if (low >= -max_drop) == passed == (high >= -max_drop) else "; the interval leaves a doubt"
    text = f"win rate {points:+.1f} points ({low:+.1f} to {high:+.1f}), wanted: at least {-max_drop:+g}{doubt}"
    return Verdict(passed, text)


# ---- text ---------------------------------------------------------------------------------------------------------


def describe(before: RunData, after: RunData, lines: Sequence[Line]) -> str:
    """Returns the table, and the settings that differ between the runs."""
    cells = [[line.name, *_cells(line)] for line in lines]
    notes = [f"{key}: {a} -> {b}" for key, a, b in _differences(before, after)]
    text = [table(["figure (95 %)", before.name, after.name, "change"], cells)]
    opponents = common_opponents(before, after)
    seeds = " and ".join(str(len(run.rows[opponents[0]])) for run in (before, after))
    text += [f"evaluated against {', '.join(opponents)}; seeds: {seeds}{_CAVEAT * ('1' in seeds.split())}"]
    return "\n".join([*text, *(["also different:", *(f"  {note}" for note in notes)] if notes else []), ""])


def _cells(line: Line) -> list[str]:
    change = line.change
    if line.unit == "rate":
        relative = (
            "-"
            if change is None
            else f"{100 * change.value:+.1f} % ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
        )
        return [*(_text(value, count) for value in (line.left, line.right)), relative]
    if line.unit == "percent":
        values = [_text(value, lambda x: f"{100 * x:.1f} %") for value in (line.left, line.right)]
        return [*values, _text(change, lambda x: f"{100 * x:+.1f}")]
    return [
        *(_text(value, _number) for value in (line.left, line.right)),
        _text(change, lambda x: f"{_number(x, '+')}"),
    ]


def _text(value: Interval | None, form: Any) -> str:
    if value is None or math.isnan(value.value):
        return "-"
    if math.isnan(value.low):
        return form(value.value)
    return f"{form(value.value)} ({form(value.low)} to {form(value.high)})"


def _number(value: float, sign: str = "") -> str:
    size = abs(value)
    return f"{value:{sign}.{3 if size < 2 else 2 if size < 10 else 1}f}"


def _differences(before: RunData, after: RunData) -> list[tuple[str, Any, Any]]:
    """Settings and kinds of evaluation that differ; without them a comparison says little."""
    facts = []
    for run in (before, after):
        evaluated = {f"evaluation.{key}": run.evaluation.get(key) for key in EVALUATED}
        facts.append(flat(run.config) | evaluated)
    left, right = facts
    names = [name for name in {**left, **right} if name != "run.name"]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]
