"""Results of evaluations: rows, their Markdown tables, and the metrics for the logs."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.matches.deals import Samples
from jaxrl.matches.outcomes import GameTally, Outcomes
from jaxrl.runs.status import MANY_DRAWS
from jaxrl.statistics import Estimate
from jaxrl.text_tables import align, percent
from jaxrl_envs.contract.env import Env

_SAID_BY_OUTCOMES = {"return", "points"}  # in a game of two: who won, and by how much
_IN = {"seat": "in seat", "side": "on side"}
_WIN = "win % (95 %)"
WIDTH = 100  # columns that a table may take
FEW, LINES = 12, 60  # columns that do not fit and are only named; lines of the table that more of them make
LONGEST_NAME = 20  # with two of them the wins, draws and losses fit


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table: a candidate at a table of equal opponents."""

    candidate: str
    opponent: str
    samples: Samples

    @property
    def deals(self) -> int:
        """Independent samples."""
        return len(next(iter(self.samples.candidate.values())))

    def figures(self) -> dict[str, Estimate]:
        """Returns means with intervals: the candidate's by figure, the opponents' as ``"opp. <figure>"``."""
        own = {name: Estimate.of(x) for name, x in self.samples.candidate.items()}
        return own | {f"opp. {name}": Estimate.of(x) for name, x in self.samples.opponents.items()}

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        outcomes = self.samples.outcomes
        figures = {name: estimate.record() for name, estimate in self.figures().items()}
        return {
            "candidate": self.candidate,
            "opponent": self.opponent,
            "deals": self.deals,
            "games": self.samples.games,
            "figures": figures,
            "outcomes": outcomes.record() if outcomes else None,
        }


def difference(first: Row, second: Row) -> dict[str, Estimate]:
    """Paired differences, first minus second, of two candidates on the same deals against the same opponents."""
    return {
        name: Estimate.of(np.asarray(x) - second.samples.candidate[name]) for name, x in first.samples.candidate.items()
    }


def by_candidate(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each candidate, in order."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.candidate, []).append(row)
    return grouped


class Overall(NamedTuple):
    """One candidate over all its opponents, which count alike. Rates of wins, draws and losses."""

    opponents: int
    win: Estimate  # over deals: the same deals serve every opponent
    draw: float
    loss: float
    minimum: Row  # the opponent won against least
    minimum_win: float
    median_win: float

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        return {
            "opponents": self.opponents,
            "mean_win_rate": self.win.mean,
            "half_width_95": self.win.record()["half_width_95"],
            "mean_draw_rate": self.draw,
            "mean_loss_rate": self.loss,
            "median_win_rate": self.median_win,
            "min_win_rate": self.minimum_win,
            "min_opponent": self.minimum.opponent,
        }


def overall(rows: Sequence[Row]) -> Overall | None:
    """Returns the unweighted mean, median and minimum over a candidate's opponents; None in a game of one side."""
    outcomes = [row.samples.outcomes for row in rows]
    known = [each for each in outcomes if each is not None]
    if len(known) < len(rows) or not known:
        return None
    rates = np.array([each.tally().rates() for each in known])  # f64[opponents, 3]
    worst = int(np.argmin(rates[:, 0]))
    wins = np.mean([(each.result > 0).mean(axis=1) for each in known], axis=0)  # f64[D]
    _, draw, loss = rates.mean(axis=0)
    least, median = float(rates[worst, 0]), float(np.median(rates[:, 0]))
    return Overall(len(rows), Estimate.of(wins), float(draw), float(loss), rows[worst], least, median)


def scalars(rows: Sequence[Row]) -> dict[str, float]:
    """Returns metrics of one candidate for the logs.

    ``eval/<opponent>/<figure>``; with two sides or more also ``eval/<opponent>/win_rate`` and ``draw_rate``, and over
    the opponents ``eval/mean_win_rate`` and ``eval/min_win_rate``.
    """
    values: dict[str, float] = {}
    for row in rows:
        values |= {f"eval/{row.opponent}/{name}": float(np.mean(x)) for name, x in row.samples.candidate.items()}
        if row.samples.outcomes is not None:
            win, draw, _ = row.samples.outcomes.tally().rates()
            values |= {f"eval/{row.opponent}/win_rate": win, f"eval/{row.opponent}/draw_rate": draw}
    total = overall(rows)
    if total is not None:
        values |= {"eval/mean_win_rate": total.win.mean, "eval/min_win_rate": total.minimum_win}
    return values


def fair(env: Env) -> float | None:
    """Returns the win rate among equal players, draws aside; None where several sides can win."""
    return 1 / env.num_sides if type(env).outcome is Env.outcome else None


# ---- tables -------------------------------------------------------------------------------------------------------


TOO_FEW = "(too few)"  # deals, instead of an interval


def format_estimate(estimate: Estimate) -> str:
    """Returns a mean and half width such as 0.629 (0.024), with fewer decimals for larger figures."""
    size = abs(estimate.mean)
    decimals = 3 if size < 2 else 2 if size < 10 else 1
    half = TOO_FEW if math.isnan(estimate.half) else f"({estimate.half:.{decimals}f})"
    return "-" if math.isnan(size) else f"{estimate.mean:.{decimals}f} {half}"


def format_table(rows: Sequence[Row], env: Env) -> str:
    """Returns the table of an evaluation in Markdown: wins, draws and losses of games in per cent, means over deals
    with 95 % half widths in brackets; mean and minimum over the opponents of each candidate. What does not fit is named
    below, or is a table of its own if it is much, as how cars play is. What a win is stands below; where most games are
    drawn, points or returns come first."""
    lines: list[dict[str, str]] = []
    known = [row.samples.outcomes.tally().rates() for row in rows if row.samples.outcomes is not None]
    drawn = bool(known) and float(np.mean(known, axis=0)[1]) > MANY_DRAWS
    sides, note = env.num_sides, f"\n\n{env.winning}" if known else ""
    if known and sides > 2 and (even := fair(env)):
        note += f" Fair among {sides} equal players: {percent(even)} %."
    for group in by_candidate(rows).values():
        lines += [_cells(row, sides, drawn) for row in group] + _summary(group, sides)
    names = list(dict.fromkeys(name for line in lines for name in line))
    who = ["candidate", _opponents_title(sides)]
    if len(by_candidate(rows)) == 1:
        names.remove("candidate")  # whose name stands above
        who = who[1:] if who[1] in names else who
    labels = [" / ".join(line[name] for name in who if name in line) for line in lines]
    return fitted(names, [[line.get(name, "") for name in names] for line in lines], labels) + note


def _cells(row: Row, sides: int, drawn: bool) -> dict[str, str]:
    """Returns one line of the table, the most important cell first; `drawn`: most games are."""
    figures, outcomes = row.figures(), row.samples.outcomes
    cells = {"candidate": shortened(row.candidate)}
    if outcomes is None:
        cells["deals"] = str(row.deals)
    else:
        cells |= {_opponents_title(sides): shortened(row.opponent)}
        leading = [name for name in ("points", "return") if name in figures and drawn][:1]
        cells |= {name: format_estimate(figures[name]) for name in leading}
        cells |= _outcome_cells(outcomes)
    hidden = _SAID_BY_OUTCOMES if sides == 2 else set()
    own = {name: format_estimate(figures[name]) for name in row.samples.candidate if name not in hidden}
    cells |= {name.replace("_", " "): text for name, text in own.items()}
    if outcomes is not None:
        cells |= _place_cells(outcomes)
    others = {f"opp. {name}" for name in row.samples.opponents if name not in hidden}
    return cells | {name.replace("_", " "): format_estimate(figures[name]) for name in figures if name in others}


def _summary(rows: Sequence[Row], sides: int) -> list[dict[str, str]]:
    """Returns mean, median and minimum over the opponents of one candidate."""
    total = overall(rows)
    if total is None or total.opponents < 2:
        return []
    half = TOO_FEW if math.isnan(total.win.half) else f"(± {percent(total.win.half)})"
    win, title = f"{percent(total.win.mean)} {half}", _opponents_title(sides)
    who = {"candidate": shortened(rows[0].candidate)}
    mean = {
        title: f"mean of {total.opponents}",
        _WIN: win,
        "draw %": percent(total.draw),
        "loss %": percent(total.loss),
    }
    least = {title: shortened(f"minimum: {total.minimum.opponent}"), _WIN: percent(total.minimum_win)}
    median = [who | {title: "median", _WIN: percent(total.median_win)}] if total.opponents > 2 else []
    return [who | mean, *median, who | least]


def fitted(head: Sequence[str], body: Sequence[Sequence[str]], labels: Sequence[str] = ()) -> str:
    """Returns a table of those columns that fit into `WIDTH`, the first ones first; the names of the others below it,
    or if they are more than `FEW`, a second table with a line for each of them. `labels`: names of the body's lines in
    a second table; empty: there is no such table."""
    columns = [[name, *(line[i] for line in body)] for i, name in enumerate(head)]
    kept: list[list[str]] = []
    for column in columns:
        if len(align([list(line) for line in zip(*kept, column, strict=True)]).split("\n")[0]) <= WIDTH:
            kept.append(column)
    text = align([list(line) for line in zip(*kept, strict=True)])
    left = [column for column in columns if column not in kept]
    turned = left[:LINES] if labels and len(left) > FEW else []
    if turned:
        filled = [line for line in range(len(body)) if any(column[line + 1] for column in turned)]
        lines = [[column[0], *(column[line + 1] for line in filled)] for column in turned]
        text += "\n\n" + fitted(["", *(labels[line] for line in filled)], lines)
    rest = [column[0] for column in left[len(turned) :]]
    return "\n".join([text, *textwrap.wrap(f"too wide to be shown: {', '.join(rest)}", WIDTH)]) if rest else text


def shortened(name: str) -> str:
    """Returns the end of a long name: seeds and updates stand there."""
    return name if len(name) <= LONGEST_NAME else "…" + name[1 - LONGEST_NAME :]


def format_differences(pairs: Sequence[tuple[Row, Row]]) -> str:
    """Returns paired differences as a Markdown table."""
    names = list(pairs[0][0].samples.candidate)
    head = ["difference", "opponents", "deals", *(name.replace("_", " ") for name in names)]
    body = []
    for first, second in pairs:
        change = difference(first, second)
        label = f"{shortened(first.candidate)} - {shortened(second.candidate)}"
        body.append([label, first.opponent, str(first.deals), *(format_estimate(change[name]) for name in names)])
    return fitted(head, body)


def format_side_by_side(row: Row, other: Row, names: tuple[str, str]) -> str:
    """A candidate on the same deals in two simulators, a line for each figure; the difference is paired by deal."""
    body, title = [], row.candidate
    first, second = row.samples.outcomes, other.samples.outcomes
    if first is not None and second is not None:
        title = f"against {row.opponent}"
        change = (second.result > 0).mean(axis=1) - (first.result > 0).mean(axis=1)  # f64[D]
        both = first, second
        body.append([_WIN, *map(format_interval, both), format_estimate(Estimate.of(100 * change))])
        body.append(["of those not drawn", *(format_interval(each, each.result != 0) for each in both), ""])
    own, there, changes = row.figures(), other.figures(), difference(other, row)
    for name, change_of in changes.items():
        cells = [format_estimate(each) for each in (own[name], there[name], change_of)]
        body.append([name.replace("_", " "), *cells])
    return align([[title, *names, "difference"], *body])


# ---- wins, draws and losses ---------------------------------------------------------------------------------------


def format_interval(outcomes: Outcomes, where: np.ndarray | slice = slice(None)) -> str:
    """The win rate in those games in per cent with its 95 % interval over deals, such as 76.8 (72.9 to 80.3)."""
    low, high = outcomes.interval(where)
    interval = TOO_FEW if high - low == 1.0 else f"({percent(low)} to {percent(high)})"
    return f"{percent(outcomes.tally(where).rates()[0])} {interval}"


def _outcome_cells(outcomes: Outcomes) -> dict[str, str]:
    tally = outcomes.tally()
    _, draw, loss = tally.rates()
    cells = {"games": str(tally.games), _WIN: format_interval(outcomes)}
    cells |= {"draw %": percent(draw), "loss %": percent(loss)}
    return cells | ({"margin": f"{outcomes.margin.mean():+.2f}"} if outcomes.margin is not None else {})


def _place_cells(outcomes: Outcomes) -> dict[str, str]:
    """Returns wins by place, and with and without the first turn; the mean length."""

    def wins(tallies: Sequence[GameTally]) -> str:
        return " / ".join(percent(tally.rates()[0]) for tally in tallies)

    places, start = outcomes.by_place(), outcomes.by_start()
    cells = {"starting / not": wins(start)} if start is not None else {}
    cells |= {f"{_IN[outcomes.place]} {' / '.join(map(str, range(len(places))))}": wins(places)}
    return cells | {"steps": f"{outcomes.length.mean():.1f}"}


def _opponents_title(sides: int) -> str:
    return "opponent" if sides == 2 else f"{sides - 1} opponents"
