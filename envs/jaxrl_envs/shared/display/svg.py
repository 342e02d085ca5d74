"""Shapes of SVG documents as text, for all drawings of games: no scripts, fonts or pictures from elsewhere.

Coordinates have a tenth of a unit, written as short as can be, or always in full if `fixed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

FONT = "Georgia, 'DejaVu Serif', serif"


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """Returns a whole picture of `parts`, in units; text is in the middle unless it says otherwise."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'font-family="{FONT}" text-anchor="middle">{"".join(parts)}</svg>'
    )


def sprites(shapes: dict[str, str], left: float, top: float, width: float, height: float) -> str:
    """A document without a picture of its own for pages that place cards themselves: shapes around the origin by id;
    its `viewBox` is the part of the plane that each of them fills."""
    look = f'font-family="{FONT}" text-anchor="middle"'
    groups = "".join(f'<g id="{name}" {look}>{shape}</g>' for name, shape in shapes.items())
    groups = re.sub(r' data-card="\d+"', "", groups)  # they are pictures, no cards of a table
    view = " ".join(map(number, (left, top, width, height)))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}"><defs>{groups}</defs></svg>'


def shapes(path: Path) -> dict[str, str]:
    """Returns the groups of an SVG file by id, each as its elements in a row."""
    groups = re.findall(r'^<g id="(\w+)">\n(.*?)^</g>', path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {name: "".join(map(str.strip, lines.splitlines())) for name, lines in groups}


def number(value: float, *, fixed: bool = False) -> str:
    """Returns a coordinate."""
    return f"{value:.1f}" if fixed else f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, size: float, fill: str, extra: str = "", *, fixed: bool = False) -> str:
    """Returns one line of text around x; `words` may be anything, `extra` are further attributes."""
    place = f'x="{number(x, fixed=fixed)}" y="{number(y, fixed=fixed)}"'
    return f'<text {place} font-size="{size:g}" fill="{fill}"{_more(extra, fixed)}>{escape(words)}</text>'


def rect(
    x: float, y: float, width: float, height: float, radius: float, fill: str, extra: str = "", *, fixed: bool = False
) -> str:
    """Returns a rectangle with round corners."""
    values = {"x": x, "y": y, "width": width, "height": height}
    place = " ".join(f'{name}="{number(value, fixed=fixed)}"' for name, value in values.items())
    return f'<rect {place} rx="{radius:g}" fill="{fill}"{_more(extra, fixed)}/>'


def circle(x: float, y: float, radius: float, fill: str, extra: str = "") -> str:
    """Returns a disc."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}"{_more(extra)}/>'


def path(commands: str, stroke: str, width: float, extra: str = "") -> str:
    """Returns a line."""
    return f'<path d="{commands}" fill="none" stroke="{stroke}" stroke-width="{width:g}"{_more(extra)}/>'


def gradient(name: str, first: str, second: str, *, radial: bool = False) -> str:
    """From the top to the bottom, or from the middle outwards, for the `defs` of a document."""
    kind, place = ("radialGradient", "") if radial else ("linearGradient", ' x2="0" y2="1"')
    return (
        f'<{kind} id="{name}"{place}><stop offset="0" stop-color="{first}"/>'
        f'<stop offset="1" stop-color="{second}"/></{kind}>'
    )


def _more(extra: str, fixed: bool = False) -> str:
    """Returns further attributes behind a blank."""
    return f" {extra}" if extra or fixed else ""
