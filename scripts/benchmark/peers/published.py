"""Figures that others have published about the games here, for programs that are not installed or not comparable.

They were measured on other machines: a ratio to them says as much about the hardware as about the program.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One figure."""

    name: str
    games_per_second: float  # of one core


RANDOM_PLAY: dict[str, tuple[Published, ...]] = {
    "beasty_bar": (Published("fastest public engine, Cython (published, 1 core)", 72_400.0),),
}
BOT_PLAY: dict[str, tuple[Published, ...]] = {
    "beasty_bar": (Published("public Python bots (published, the faster of 115 to 133, 1 core)", 133.0),),
}
