"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from pathlib import Path

from jaxrl_envs.forge.fleet.find import find_forge

TITLE = "Magic"
ABOUT = "Games of Magic that were recorded with Forge, told move by move, with the opinion of a policy."


def picture() -> str:
    """Returns five cards in five colours below a comet, as SVG. Raises UserError: Forge is not installed."""
    find_forge()
    return Path(__file__).with_suffix(".svg").read_text(encoding="utf-8")
