"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display.drawing import GOLD, draw_card
from jaxrl_envs.shared.display import svg

TITLE = "Beasty Bar"
ABOUT = "Send your animals into the queue before the bar: they shove, eat and scare each other for the first places."


def picture() -> str:
    """Animals that queue on the carpet before the bar, as SVG."""
    queue = ((c.LION, 0, -3), (c.SKUNK, 1, 2), (c.GIRAFFE, 0, -2), (c.CROCODILE, 1, 3))
    parts = [
        f"<defs>{svg.gradient('night', '#2a2052', '#141027')}{svg.gradient('carpet', '#a8283a', '#7c1a2c')}</defs>",
        svg.rect(0, 0, 304, 170, 0, "url(#night)"),
        *(svg.circle(11 + 83 * i % 290, 8 + 19 * i % 38, 0.9, "#fff", 'opacity="0.6"') for i in range(14)),
        svg.rect(0, 66, 304, 84, 0, "url(#carpet)"),
        svg.path("M0,71H304M0,145H304", GOLD, 1.5, 'opacity="0.7"'),
        svg.rect(62, 8, 180, 32, 8, "#171226", f'stroke="{GOLD}" stroke-width="2"'),
        svg.text(152, 30, "BEASTY BAR", 17, GOLD, 'font-weight="bold" letter-spacing="2"'),
        *(
            draw_card(c.SPECIES * seat + kind - 1, 44 + 72 * place, 104, scale=0.66, tilt=tilt)
            for place, (kind, seat, tilt) in enumerate(queue)
        ),
    ]
    return svg.document(304, 170, parts)
