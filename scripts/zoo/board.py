"""Writes the board of the policies of the zoo from their cards: `python -m scripts.zoo.board`."""

from __future__ import annotations

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

A rating is on the Elo scale of a round robin with the game's bots, in which `random` has 0. The wins are those against
the bot that the policy beats least often, on deals that played no part in training. Intervals are of 95 %.

**Add yours by a pull request:** a recipe in `scripts/zoo/__main__.py`, the policy file (at most 2 MB) and its card,
which `python -m scripts.zoo NAME` writes with this page. A slow test plays every table of every card again.

| policy | rating | wins, against whom | parameters | decisions | training, s | on |
|---|---|---|---|---|---|---|
"""


def text() -> str:
    """Returns the page, strongest policies first within their game."""
    cards = sorted(map(zoo.figures, zoo.names()), key=lambda card: (card["game"], -card["rating"]["value"]))
    commands = "".join(f"- `{zoo.PREFIX}{card['name']}`: `{card['command']}`\n" for card in cards)
    return f"{HEAD}{''.join(map(_row, cards))}\nMade by:\n\n{commands}"


def _row(card: dict[str, Any]) -> str:
    rating, least = card["rating"], min(card["evaluation"]["rows"], key=lambda row: row["wins"] / row["games"])
    design = Design(least.get("design_effect", 1.0))
    low, high = (100 * bound for bound in wilson(least["wins"], least["games"], design))
    cells = [
        f"`{zoo.PREFIX}{card['name']}`",
        f"{rating['value']:.0f} ± {rating['half_width_95']:.0f}",
        f"{least['wins'] / least['games']:.1%} ({low:.1f} to {high:.1f}) against `{least['opponent']}`",
        count(card["parameters"]),
        count(card["decisions"]),
        f"{card['seconds']:,.0f}",
        card["hardware"],
    ]
    return f"| {' | '.join(cells)} |\n"


def write() -> None:
    """Writes the page."""
    PAGE.write_text(text(), encoding="utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    write()
