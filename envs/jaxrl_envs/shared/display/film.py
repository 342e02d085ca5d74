"""A game as one animated SVG document: its drawings in turn, with what happened written below them.

What does not change from one drawing to the next is written once, so that a long game stays a small file.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from textwrap import shorten
from xml.sax.saxutils import quoteattr

from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.svg_animation import Timeline, always

SECONDS, CLOSING = 1.4, 3.0  # of a drawing, and how much longer of the last one
SIZE, SMALL, FOOT = 0.022, 0.013, 0.055  # of letters, of those of long lines, and of the band below, in widths of it
PAGE, WORDS = "#14181f", "#f2ead7"
NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
SIZES = ("viewBox", "width", "height")
# What each part of a group has for itself.
SHARED = {"transform", "fill", "stroke", "stroke-width", "font-family", "font-size", "text-anchor"}


def film(drawings: Sequence[str], words: Sequence[str], *, pace: float = 1.0) -> str:
    """Drawings in turn, in a loop without end.

    Args:
      drawings: SVG documents whose coordinates begin at 0, at least one.
      words: captions below each of them.
      pace: 2 is twice as fast.
    """
    roots = [ElementTree.fromstring(_named_apart(drawing)) for drawing in drawings]
    sizes = [_size(root) for root in roots]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    timeline = Timeline.of([(SECONDS + CLOSING * (i == len(roots) - 1)) / pace for i in range(len(roots))])

    def line(frame: int) -> str:
        said = shorten(words[frame], int(1.9 / SMALL), placeholder=" …")  # letters are about half as wide as high
        letters = min(SIZE, 1.9 / max(len(said), 1)) * width
        x, y = width / 2, height + FOOT * width / 2 + letters / 3
        return svg.text(x, y, said, letters, WORDS, 'text-anchor="middle"')

    base = {name: value for name, value in roots[0].attrib.items() if name not in SIZES}
    picture = f"<g{_attributes(base)}>{_merged(timeline, [_parts(root) for root in roots])}</g>"
    foot = svg.rect(0, height, width, FOOT * width, 0, PAGE)
    page = svg.document(width, height + FOOT * width, [picture, foot, timeline.variants(words, line)])
    return page.replace("<svg ", f'<svg xmlns:xlink="{NAMESPACES["xlink"]}" ', 1)


def _merged(timeline: Timeline, frames: Sequence[Sequence[str]]) -> str:
    """Merges the parts of all frames in an order that agrees with that of each, every part shown where it belongs."""
    parts: list[tuple[str, set[int]]] = []  # what it is, in which frames
    for number, frame in enumerate(frames):
        known, merged = parts, []
        matcher = SequenceMatcher(None, [text for text, _ in known], frame, autojunk=False)
        for same, begin, end, first, last in matcher.get_opcodes():
            merged += known[begin:end]
            if same == "equal":
                for _, shown in known[begin:end]:
                    shown.add(number)
            else:
                merged += [(text, {number}) for text in frame[first:last]]
        parts = merged
    seen = [[True if number in shown else None for number in range(len(frames))] for _, shown in parts]
    return "".join(timeline.variants(when, always(text)) for when, (text, _) in zip(seen, parts, strict=True))


def _parts(node: ElementTree.Element) -> list[str]:
    """Returns the parts of a drawing or of a group of it, from the back to the front."""
    parts = []
    for child in node:
        if child.tag.endswith("}g") and len(child) and set(child.attrib) <= SHARED:
            parts += [f"<g{_attributes(child.attrib)}>{part}</g>" for part in _parts(child)]
        else:
            parts.append(_written(child))
    return parts


def _attributes(named: Mapping[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in named.items())


def _written(node: ElementTree.Element) -> str:
    """Returns an element as text; its namespaces are those of the whole document."""
    for prefix, name in NAMESPACES.items():
        ElementTree.register_namespace(prefix, name)
    text = ElementTree.tostring(node, encoding="unicode")
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)


def _size(root: ElementTree.Element) -> tuple[float, float]:
    """Returns the width and height in units of its own."""
    box = root.get("viewBox", "").split()
    sides = box[2:] if len(box) == 4 else [root.get("width", ""), root.get("height", "")]
    width, height = (float((re.match(r"[\d.]+", side) or ["100"])[0]) for side in sides)
    return width, height


def _named_apart(drawing: str) -> str:
    """Returns a drawing whose names (of gradients and the like) mean the same in all drawings that have them."""
    inside = "".join(re.findall(r"<defs.*?</defs>", drawing, re.DOTALL))
    whole = drawing if drawing.count(' id="') > inside.count(' id="') else inside
    mark = f"{zlib.crc32(whole.encode()):08x}"
    drawing = re.sub(r' id="', f' id="n{mark}-', drawing)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>n{mark}-", drawing)
