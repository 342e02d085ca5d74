"""The pictures on the cards: small vector drawings of our own, 32 units wide around the origin."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.shared.display import svg
from jaxrl_envs.skull_king import cards as c


class Style(NamedTuple):
    """The look of a kind of card."""

    ink: str  # colour of the frame, the number and the picture
    paper: str
    picture: str  # SVG elements; INK and PAPER stand for the two colours


_SHAPES = svg.shapes(Path(__file__).with_suffix(".svg"))
PAPER = "#fbf5e4"
SUITS = (
    Style("#2c8a4b", PAPER, _SHAPES["parrot"]),
    Style("#b98412", PAPER, _SHAPES["chest"]),
    Style("#7546a0", PAPER, _SHAPES["map"]),
    Style("#22252b", PAPER, _SHAPES["skull"]),
)
ESCAPE = Style("#5b93bd", PAPER, _SHAPES["flag"])
PIRATE = Style("#b02a24", PAPER, _SHAPES["sabres"])
TIGRESS = Style("#cf6a1f", PAPER, _SHAPES["tigress"])
KING = Style("#f3e3b8", "#5c1430", _SHAPES["crown"])
MERMAID = Style("#16888f", PAPER, _SHAPES["mermaid"])
KRAKEN = Style("#d8d0f5", "#372a75", _SHAPES["kraken"])
WHALE = Style("#eaf3f8", "#456d86", _SHAPES["whale"])
LOOT = Style("#a2781c", PAPER, _SHAPES["coins"])


def style_of(play: int) -> Style:
    """Returns the look of a play 0..74."""
    if play < 56:
        return SUITS[play // 14]
    if play < c.ROSIE:
        return ESCAPE
    if play <= c.HARRY:
        return PIRATE
    special = {c.TIGRESS: TIGRESS, c.TIGRESS_PIRATE: TIGRESS, c.KING: KING, c.KRAKEN: KRAKEN, c.WHALE: WHALE}
    return special.get(play, MERMAID if play in c.MERMAIDS else LOOT)
