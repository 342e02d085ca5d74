"""The win matrix of a tournament as a picture.

It is drawn with matplotlib, an optional package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.league.elo import Ratings
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl_envs.shared.errors import UserError

COLOURS = "PuOr"  # from orange (behind) over white (equal) to violet (ahead): safe for the colour-blind


def require_matplotlib() -> None:
    """Raises UserError if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(
            "heatmap.png needs matplotlib: pip install 'jaxrl[plots]', or leave it out with --no-picture."
        ) from error


def draw(results: RoundRobin, ratings: Ratings, path: Path) -> None:
    """Writes the win matrix as PNG: players by rating, win rate in each cell, colour by points (a draw half).

    Raises:
      UserError: matplotlib is missing.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    order = ratings.order()
    count = len(order)
    rates, scores = 100 * results.rates()[np.ix_(order, order)], 100 * results.scores()[np.ix_(order, order)]
    side = 1.6 + 0.62 * count
    figure = Figure(figsize=(side + 2.6, side + 0.9), dpi=160, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(np.ma.masked_invalid(scores), cmap=COLOURS, vmin=0, vmax=100)
    axes.set_facecolor("0.93")  # pairs that were not played
    axes.set_xticks(range(count), [results.names[i] for i in order], rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(count), [f"{results.names[i]}   {ratings.rating[i]:+.0f}" for i in order])
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0, labelsize=9)
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    for row, column in zip(*np.nonzero(~np.isnan(scores)), strict=True):
        dark = abs(scores[row, column] - 50) > 30
        text: dict[str, Any] = {"ha": "center", "color": "white" if dark else "0.15"}
        win, draw_rate, _ = rates[row, column]
        axes.text(column, row, f"{win:.1f}", va="bottom" if draw_rate > 0 else "center", fontsize=9, **text)
        if draw_rate > 0:
            axes.text(column, row + 0.06, f"{draw_rate:.1f} drawn", va="top", fontsize=6, alpha=0.8, **text)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02)
    bar.set_label("points per game in %, a draw half", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    opponent = "the column" if results.num_sides == 2 else f"{results.num_sides - 1} copies of the column"
    axes.set_title(
        f"Games won in % by the row against {opponent}\n"
        f"{results.total_games:,} games; ratings on the Elo scale, {ratings.names[ratings.anchor]} fixed",
        fontsize=10,
        pad=12,
    )
    figure.savefig(path)
