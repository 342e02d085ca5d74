"""Animated SVG documents (`jaxrl film`) as recordings, sanitised: only shapes, texts and animations are kept."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from jaxrl_envs.shared import files
from jaxrl_envs.shared.display.playback import Playback, PlaybackMoment
from jaxrl_envs.shared.errors import UserError

LIMIT = 1 << 25  # bytes
FRAMES = 10  # a second
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
SHAPES = "svg g defs symbol use path rect circle ellipse line polyline polygon text tspan title desc"
PAINT = "linearGradient radialGradient stop clipPath mask pattern filter"
EFFECTS = "feGaussianBlur feOffset feBlend feFlood feComposite feMerge feMergeNode feDropShadow feColorMatrix"
MOVING = "animate animateTransform animateMotion set"
TAGS = frozenset(f"{SHAPES} {PAINT} {EFFECTS} {MOVING}".split())
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")
OUTSIDE = re.compile(r"url\(\s*['\"]?(?!#)|javascript:|@import|expression\(", re.IGNORECASE)


def opened(path: Path) -> Playback:
    """Returns an animated SVG document as a playback. Raises UserError: the file is not such a document."""
    text = files.unpacked(path, LIMIT)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError(f"{path.name} declares entities: no film of ours does.")
    if text.count("<") > files.MOST:
        raise UserError(f"{path.name} has more than {files.MOST:,} elements: no film of ours does.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f"{path.name} is no SVG document ({error}).") from None
    if root.tag != f"{SVG}svg":
        raise UserError(f"{path.name} is no SVG document.")
    clean(root)
    seconds = max([_seconds(node.get("dur", "")) for node in root.iter()], default=0.0)
    ElementTree.register_namespace("", SVG.strip("{}"))
    ElementTree.register_namespace("xlink", LINK.removesuffix("}href").strip("{}"))
    page = ElementTree.tostring(root, encoding="unicode")
    frames = max(1, round(seconds * FRAMES))
    moments = [PlaybackMoment(0, "a film" if seconds else "a picture")]
    return Playback(path.name, [], "film", frames, lambda frame: page, moments, seconds=1 / FRAMES)


def clean(root: ElementTree.Element) -> None:
    """Removes all elements and attributes that could do more than draw and animate."""
    parents = [root]
    while parents:
        parent = parents.pop()
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.removeprefix(SVG) not in TAGS:
                parent.remove(child)
            else:
                parents.append(child)
        for name, value in list(parent.attrib.items()):
            if not _harmless(name, value):
                del parent.attrib[name]


def _harmless(name: str, value: str) -> bool:
    if name in (LINK, "href"):
        return value.startswith("#")
    if not NAME.fullmatch(name) or name.lower().startswith("on") or OUTSIDE.search(value):
        return False
    return name != "attributeName" or ("href" not in value.lower() and not value.lower().startswith("on"))


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)s", text)
    return float(match[1]) if match else 0.0
