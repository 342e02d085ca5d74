"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from jaxrl_envs.car_soccer.display.drawing import BALL, COLOURS, GRASS, LINE, PAGE, car_outline
from jaxrl_envs.shared.display import svg

TITLE = "Car soccer"
ABOUT = "Drive, jump and boost a car, and knock the ball into the other goal."


def picture() -> str:
    """Returns two cars, a ball and a goal from above, as SVG."""
    blue, orange = COLOURS
    flame = '<path d="M-13 -5L-30 0L-13 5Z" fill="#ffef9f"/>'
    glass = svg.path("M3 -6V6M-7 -5V5", PAGE, 2.2, 'stroke-linecap="round" opacity="0.75"')
    parts = [
        svg.rect(0, 0, 304, 170, 0, PAGE),
        svg.rect(-20, 8, 296, 154, 26, GRASS, f'stroke="{LINE}" stroke-width="3"'),
        svg.path("M92 8V162", LINE, 2.5),
        svg.circle(92, 85, 36, "none", f'stroke="{LINE}" stroke-width="2.5"'),
        svg.rect(274, 46, 40, 78, 4, GRASS, f'stroke="{orange}" stroke-width="4"'),
        *(
            svg.circle(x, y, r, "#ffd23f", 'opacity="0.8"')
            for x, y, r in ((30, 28, 8), (30, 142, 8), (176, 26, 4), (150, 146, 4), (226, 36, 4), (226, 134, 4))
        ),
        f'<g transform="translate(92,106) rotate(-14) scale(2)">{flame}{car_outline(blue)}{glass}</g>',
        f'<g transform="translate(240,60) rotate(140) scale(2)">{car_outline(orange)}{glass}</g>',
        svg.circle(170, 92, 15, "#000", 'opacity="0.35"'),
        svg.circle(168, 84, 17, BALL),
        svg.path("M158 78l9-5 9 6-3 10h-11zM158 78l-6-2M176 79l6-4M173 89l5 6M162 89l-5 6", "#9a927f", 1.6),
    ]
    return svg.document(304, 170, parts)
