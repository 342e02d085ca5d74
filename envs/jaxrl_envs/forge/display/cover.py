"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from jaxrl_envs.forge.fleet.find import find_forge
from jaxrl_envs.shared.display import svg

TITLE = "Magic"
ABOUT = "Games of Magic that were recorded with Forge, told move by move, with the opinion of a policy."
_COLOURS = (
    ("#f3e7b3", "#8a6d1f"),
    ("#9ccbea", "#1d4f7a"),
    ("#b9b0c4", "#2c2337"),
    ("#f0a184", "#8c2a17"),
    ("#a9d3a0", "#215c2b"),
)


def picture() -> str:
    """Returns five cards in five colours below a comet, as SVG. Raises UserError: Forge is not installed."""
    find_forge()
    parts = [
        f"<defs>{svg.gradient('dusk', '#3b2a5e', '#120d22')}</defs>",
        svg.rect(0, 0, 304, 170, 0, "url(#dusk)"),
        *(
            svg.circle(13 + 71 * i % 288, 9 + 37 * i % 90, 0.7 + 0.3 * (i % 3), "#fff", 'opacity="0.7"')
            for i in range(22)
        ),
        svg.path("M30 56C90 18 150 12 226 24", "#ffe9a8", 2, 'opacity="0.7"'),
        svg.path("M44 64C104 30 160 20 226 26", "#ffe9a8", 1, 'opacity="0.5"'),
        svg.circle(230, 25, 7, "#fff6d8"),
    ]
    for i, (paper, ink) in enumerate(_COLOURS):
        shape = f'<path d="M0 -16L4 -4L16 0L4 4L0 16L-4 4L-16 0L-4 -4Z" fill="{ink}"/>'
        frame = svg.rect(-27, -40, 54, 80, 6, paper, f'stroke="{ink}" stroke-width="3"')
        window = svg.rect(-20, -30, 40, 40, 3, "#fff", 'opacity="0.45"')
        lines = svg.path("M-19 19H19M-19 27H10", ink, 2.5, 'opacity="0.6"')
        turn = 9 * (i - 2)
        parts.append(
            f'<g transform="translate({152 + 50 * (i - 2)},{104 + 5 * (i - 2) ** 2}) rotate({turn})">{frame}{window}'
            f'<g transform="translate(0,-10)">{shape}</g>{lines}</g>'
        )
    return svg.document(304, 170, parts)
