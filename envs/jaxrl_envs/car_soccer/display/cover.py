"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from pathlib import Path

TITLE = "Car soccer"
ABOUT = "Drive, jump and boost a car, and knock the ball into the other goal."


def picture() -> str:
    """Returns two cars, a ball and a goal from above, as SVG."""
    return Path(__file__).with_suffix(".svg").read_text(encoding="utf-8")
