"""Writes the board of the policies of the zoo from their cards: `python -m scripts.zoo.board`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrl import zoo
from jaxrl.statistics import Design, wilson
from jaxrl.text_tables import count

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "leaderboard.md"
HEAD = """# Leaderboard

The policies that come with jaxrl, the strongest first within their game; `python -m scripts.zoo.board` makes this
page of their cards.

```bash
jaxrl zoo show skull_king          # a card; jaxrl evaluate zoo:NAME repeats its table
```

Wins are those over the panel of a game (`jaxrl evaluate zoo:NAME --panel`), on deals that played no part in training:
the median, the least, and the median over strangers, whom training never met. A best response of `jaxrl exploit` begins
with the policy and studies it; the second figure is what one of equal training wins from a control, a weaker policy. A
rating is on the Elo scale of a round robin with the game's bots, in which `random` has 0. Intervals are of 95 %.

**Add yours by a pull request:** a recipe in `scripts/zoo/__main__.py`, the policy file (at most 2 MB) and its card,
which `python -m scripts.zoo NAME`, then `python -m scripts.zoo.panel NAME` write with this page. A slow test plays the
tables against bots again.

| policy | panel: median | least | strangers | best response; control's | rating | parameters | decisions | training |
|---|---|---|---|---|---|---|---|---|
"""
MADE = "Made by (`python -m scripts.zoo NAME` runs it, and before it what makes whatever its `train.from_run` names):"


def text() -> str:
    """Returns the page, strongest policies first within their game."""
    cards = sorted(map(zoo.figures, zoo.names()), key=lambda card: (card["game"], -card["rating"]["value"]))
    commands = "".join(f"- `{zoo.PREFIX}{card['name']}`: `{card['command']}`\n" for card in cards)
    return f"{HEAD}{''.join(map(_row, cards))}\n{MADE}\n\n{commands}"


def _row(card: dict[str, Any]) -> str:
    rating, panel = card["rating"], card.get("panel") or card["evaluation"]["rows"]
    strangers = [row for row in panel if not row.get("met", True)]
    responses = [won(each["outcomes"]) for each in card.get("best_responses", [])]
    cells = [
        f"`{zoo.PREFIX}{card['name']}`",
        f"{median(panel):.1%} of {len(panel)}{'' if 'panel' in card else ', bots alone'}",
        f"{won(least(panel))} against `{least(panel)['opponent']}`",
        f"{median(strangers):.1%} of {len(strangers)}" if strangers else "not played",
        "; ".join(responses) if responses else "not trained",
        f"{rating['value']:.0f} ± {rating['half_width_95']:.0f}",
        count(card["parameters"]),
        count(card["decisions"]),
        f"{card['seconds']:,.0f} s, {card['hardware']}",
    ]
    return f"| {' | '.join(cells)} |\n"


def share(row: dict[str, Any]) -> float:
    """Returns the share of the games of a card's row that were won."""
    return float(row["wins"] / row["games"])


def median(rows: Sequence[dict[str, Any]]) -> float:
    """Returns the median share over a card's rows."""
    return statistics.median(map(share, rows))


def least(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the row with the smallest share."""
    return min(rows, key=share)


def won(row: dict[str, Any]) -> str:
    """Returns that share in per cent, with its 95 % interval."""
    low, high = wilson(row["wins"], row["games"], Design(row.get("design_effect", 1.0)))
    return f"{share(row):.1%} ({low:.1%} to {high:.1%})"


def write() -> None:
    """Writes the page."""
    PAGE.write_text(text(), encoding="utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    write()
