"""`python -m scripts.published_matrix FILE PLAYER ...`: compares a round robin with a published win matrix, within the
sampling error of both. Exit code 1 if they disagree."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jax.scipy import special

from jaxrl import cli
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.round_robin_report import play_all
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.policies.find import find_players
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

ALPHA = 0.001  # chance of each of the two tests to reject a matrix that agrees


class PublishedMatrix(NamedTuple):
    """A published win matrix. M players."""

    names: list[str]
    percent: np.ndarray  # f64[M, M, 3], wins, draws and losses of the row player; not a number = unknown
    games: np.ndarray  # f64[M, M], behind each cell
    rounding: float  # the last digit, in per cent


class Cell(NamedTuple):
    """The figure of one pair that differs most from the published matrix, in standard errors."""

    row: str
    column: str
    figure: str  # win, draw or loss
    found: float  # per cent
    expected: float
    z: float


class Agreement(NamedTuple):
    """The comparison of all cells that both matrices have."""

    pairs: int
    chi_square: float
    degrees: int
    p_value: float
    worst: Cell
    bound: float  # of |z|, over all figures
    rms: float  # differences in per cent, root mean square
    expected_rms: float  # what sampling alone would give

    @property
    def ok(self) -> bool:
        """Whether both tests pass."""
        return self.p_value >= ALPHA and abs(self.worst.z) <= self.bound

    def __str__(self) -> str:
        cell = self.worst
        return "\n".join(
            [
                f"agreement with the reference, {self.pairs} pairs: differences of {self.rms:.2f} points (root mean "
                f"square), sampling alone gives {self.expected_rms:.2f}",
                f"  all cells: chi-square {self.chi_square:.1f} with {self.degrees} degrees of freedom, "
                f"p = {self.p_value:.3g} (at least {ALPHA})",
                f"  worst cell: {cell.row} against {cell.column}, {cell.figure} {cell.found:.2f} % for "
                f"{cell.expected:.2f} %, z = {cell.z:+.2f} (at most {self.bound:.2f} among all figures)",
                "  they agree" if self.ok else "  THEY DISAGREE",
            ]
        )


def load_matrix(path: str | Path) -> PublishedMatrix:
    """Reads {"names": [...], "win": [[per cent]], "draw": ..., "loss": ..., "games": number or matrix}, such as a
    tournament writes (matrix.json); "rounding" is the last digit of the percentages, 0 if left out. Raises UserError if
    no such file, or it is something else."""
    try:
        content = files.read(path)
        names = [str(name) for name in content["names"]]
        percent = np.stack([np.array(content[key], np.float64) for key in ("win", "draw", "loss")], axis=-1)
        games = np.broadcast_to(np.array(content["games"], np.float64), (len(names), len(names)))
        if percent.shape != (len(names), len(names), 3) or len(set(names)) < len(names):
            raise ValueError(f"percentages of shape {percent.shape} for {len(set(names))} names")
        rounding = float(content.get("rounding", 0.0))
        known = percent[~np.isnan(percent)]
        if not (0 <= min(known, default=0) and max(known, default=0) <= 100 and (games >= 0).all() and rounding >= 0):
            raise ValueError("a percentage or a number of games is out of range")
        return PublishedMatrix(names, percent, games, rounding)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(
            f"{path} is not a matrix of results ({error}): it needs names, win, draw, loss, games."
        ) from error


def compare(results: RoundRobin, reference: PublishedMatrix) -> Agreement:
    """Tests every cell and all of them together.

    The error of a difference comes from the deals played here: the two games of a deal are not independent, so the
    covariance C of the shares won and drawn is taken over deals. A published matrix with as many games a deal has the
    same C. With D and R deals the difference d of (win, draw) has the covariance C (1/D + 1/R) plus that of rounding,
    and

    - the sum over all pairs of d' Cov^-1 d is chi-square with two degrees of freedom a pair. A pair of a player with
      itself wins and loses alike, whatever the rules: only its draws are compared, one degree;
    - no figure may differ by more standard errors than the largest of them all does with probability `ALPHA`
      (Bonferroni).

    Raises:
      UserError: no pair in common.
    """
    chi_square, degrees, cells, differences = 0.0, 0, [], []
    pairs = 0
    for i, j in results.played:
        row, column = results.names[i], results.names[j]
        if row not in reference.names or column not in reference.names or results.deals[i, j] < 2:
            continue
        at = reference.names.index(row), reference.names.index(column)
        expected = reference.percent[at]
        if np.isnan(expected).any():
            continue
        pairs += 1
        found = 100 * results.rates()[i, j]
        covariance = _covariance(results, reference, i, j, at)
        d = found - expected
        alone = i == j
        part = slice(1, 2) if alone else slice(0, 2)
        chi_square += float(d[part] @ np.linalg.solve(covariance[part, part], d[part]))
        degrees += part.stop - part.start
        errors = np.sqrt([*np.diag(covariance), covariance.sum()])
        for k in (1,) if alone else (0, 1, 2):
            cells.append(Cell(row, column, ("win", "draw", "loss")[k], found[k], expected[k], d[k] / errors[k]))
            differences.append((d[k], errors[k]))
    if not pairs:
        raise UserError(f"the reference has none of these players: its names are {', '.join(reference.names)}.")
    rms, expected_rms = np.sqrt(np.mean(np.square(differences), axis=0))
    return Agreement(
        pairs=pairs,
        chi_square=chi_square,
        degrees=degrees,
        p_value=float(special.gammaincc(degrees / 2, chi_square / 2)),
        worst=max(cells, key=lambda cell: abs(cell.z)),
        bound=NormalDist().inv_cdf(1 - ALPHA / len(cells) / 2),
        rms=float(rms),
        expected_rms=float(expected_rms),
    )


def _covariance(results: RoundRobin, reference: PublishedMatrix, i: int, j: int, at: tuple[int, int]) -> np.ndarray:
    """Returns f64[2, 2], in per cent squared, of the difference of wins and draws between both matrices."""
    deals = float(results.deals[i, j])
    theirs = reference.games[at] / results.num_sides
    sampling = 1e4 * results.covariance[i, j] * (1 / deals + 1 / theirs)
    smallest = 1e4 / (deals * results.num_sides) ** 2  # of a figure that did not vary here: one game more or less
    return sampling + (reference.rounding**2 / 12 + smallest) * np.eye(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Plays the round robin and prints the comparison."""
    parser = argparse.ArgumentParser(prog="python -m scripts.published_matrix", description=__doc__)
    parser.add_argument("reference", help="the published matrix, or matrix.json of `jaxrl tournament --out`")
    parser.add_argument("players", nargs="+", help="as of `jaxrl tournament`, e.g. bots env.id=beasty_bar")
    parser.add_argument("--deals", type=int, default=1000, help="deals per pair (default: 1000)")
    args = parser.parse_args(argv)
    reference, field = load_matrix(args.reference), find_players(args.players)
    results = play_all(Tournament(field.env, field.players, deals=args.deals, self_pairs=True))[1]
    agreement = compare(results, reference)
    print(agreement)
    return 0 if agreement.ok else 1


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
