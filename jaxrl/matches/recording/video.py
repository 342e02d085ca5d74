"""An animated SVG document as a GIF or an MP4 file (extra `video`): one still for the time of each picture.

Documents are those of `Env.film`: SMIL's `animate` and `animateTransform` with values, in a loop of one length
(https://www.w3.org/TR/SVG11/animate.html).
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jaxrl_envs.shared.errors import UserError

PER_SECOND = {".gif": 10.0, ".mp4": 25.0}  # pictures; a GIF counts in hundredths of a second
ANIMATIONS = {f"{{http://www.w3.org/2000/svg}}{name}" for name in ("animate", "animateTransform")}
WIDTH = {".gif": 640, ".mp4": 1280}  # pixels


def check_name(file: str) -> None:
    """Raises UserError if a film's file has an unknown ending, or one that needs an extra."""
    if not is_video(file) and Path(file).suffix.lower() != ".svg":
        raise UserError(f"cannot write {file}: a film ends in .svg, .gif or .mp4.")
    if is_video(file) and not all(importlib.util.find_spec(name) for name in ("resvg_py", "PIL", "imageio_ffmpeg")):
        raise UserError("a GIF or an MP4 needs an extra: pip install 'jaxrl[video]'.")


def is_video(file: str) -> bool:
    """Returns whether a file's name ends in .gif or .mp4."""
    return Path(file).suffix.lower() in PER_SECOND


def write_video(page: str, file: Path) -> None:
    """Writes a film as a GIF or an MP4, by the ending of `file`, and prints how many pictures it draws. Raises OSError:
    the file cannot be written. `file`: ending in .gif or .mp4."""
    kind = file.suffix.lower()
    stills = distinct_stills(page, PER_SECOND[kind])
    print(f"drawing {len(stills):,} pictures; three or four a second ...", flush=True)
    pictures = (_draw(still, WIDTH[kind]) for still, _ in stills)
    counts = [count for _, count in stills]
    _write_gif(file, pictures, counts) if kind == ".gif" else _write_mp4(file, pictures, counts)


def distinct_stills(page: str, per_second: float) -> list[tuple[str, int]]:
    """Returns the stills of a film, each with the number of pictures in a row that it stands for; see `stills_of`."""
    return [(still, len(list(same))) for still, same in itertools.groupby(stills_of(page, per_second))]


def stills_of(page: str, per_second: float) -> Iterator[str]:
    """Yields the document as it looks at each picture's time over one loop, without animation. `page`: the animated SVG
    document. What repeats in less time than the whole (a line that flickers) stands still. `per_second`: pictures a
    second."""
    root = ElementTree.fromstring(page)
    parts = [(parent, node) for parent in root.iter() for node in parent if node.tag in ANIMATIONS]
    length = max((_seconds(node) for _, node in parts), default=0.0)
    for parent, node in parts:
        parent.remove(node)
    whole = [(parent, node) for parent, node in parts if _seconds(node) == length]
    for number in range(max(1, round(length * per_second))):
        for parent, node in whole:
            name, value = _value(node, number / per_second / length % 1 if length else 0.0)
            parent.set(name, value)
        yield ElementTree.tostring(root, encoding="unicode")


def _seconds(node: ElementTree.Element) -> float:
    return float(node.get("dur", "0s").removesuffix("s"))


def _value(node: ElementTree.Element, now: float) -> tuple[str, str]:
    """Returns the attribute that an animation sets, and its value at a share of the loop."""
    values = node.get("values", "").split(";")
    times = [float(time) for time in node.get("keyTimes", "0;1").split(";")]
    at = max(0, bisect_right(times, now) - 1)
    value = values[at]
    if node.get("calcMode") != "discrete" and at + 1 < len(values):
        share = (now - times[at]) / (times[at + 1] - times[at] or 1)
        pairs = zip(_numbers(value), _numbers(values[at + 1]), strict=True)
        value = " ".join(f"{before + share * (after - before):g}" for before, after in pairs)
    kind = node.get("type")  # of a transformation
    return node.get("attributeName", ""), f"{kind}({value})" if kind else value


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.replace(",", " ").split()]


def _draw(text: str, width: int) -> Any:
    """Returns an SVG document as a picture of Pillow, of even width and height, which videos need."""
    import resvg_py
    from PIL import Image

    picture = Image.open(io.BytesIO(resvg_py.svg_to_bytes(svg_string=text, width=width, background="#14181f")))
    return picture.convert("RGB").crop((0, 0, picture.width // 2 * 2, picture.height // 2 * 2))


def _write_gif(file: Path, pictures: Iterator[Any], counts: list[int]) -> None:
    first, *rest = (picture.quantize(64) for picture in pictures)
    durations = [1000 * count / PER_SECOND[".gif"] for count in counts]
    first.save(file, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _write_mp4(file: Path, pictures: Iterator[Any], counts: list[int]) -> None:
    import imageio_ffmpeg

    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")  # or it forks, which is unsafe beside jax's threads
    first = next(pictures)
    writer = imageio_ffmpeg.write_frames(str(file), first.size, fps=PER_SECOND[".mp4"], macro_block_size=2)
    writer.send(None)
    try:
        for picture, count in zip(itertools.chain([first], pictures), counts, strict=True):
            for _ in range(count):
                writer.send(picture.tobytes())
    finally:
        writer.close()
