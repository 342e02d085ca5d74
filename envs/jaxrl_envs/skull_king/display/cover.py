"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from jaxrl_envs.shared.display import svg
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king.display.drawing import draw_card

TITLE = "Skull King"
ABOUT = "Bid how many tricks you will take, then take exactly as many: ten rounds with pirates and mermaids."


def picture() -> str:
    """Returns a hand of cards on the table, as SVG."""
    fan = ((c.MERMAIDS[0], 66, 104, -17), (13, 118, 90, -6), (c.TIGRESS_PIRATE, 174, 86, 5), (c.KING, 236, 98, 16))
    parts = [
        f"<defs>{svg.gradient('felt', '#2f7478', '#174347', radial=True)}</defs>",
        svg.rect(0, 0, 304, 170, 0, "url(#felt)"),
        *(draw_card(play, x, y, tilt=tilt, scale=1.2) for play, x, y, tilt in fan),
    ]
    return svg.document(304, 170, parts)
