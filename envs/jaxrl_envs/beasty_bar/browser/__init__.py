"""The page of Beasty Bar that needs no server (`jaxrl site`): rules, features and table in plain JavaScript."""

from __future__ import annotations

import html
from pathlib import Path

from jaxrl_envs.beasty_bar.display.drawing import card_sprites
from jaxrl_envs.beasty_bar.display.how_to_play import TEXT

_FILES = ("page.css", "page.js", "rules.js", "features.js")


def files() -> dict[str, bytes]:
    """The files of the page by name. The page loads beside them `style.css`, `icon.svg`, `network.js` and the network,
    `policy.bin`, whose input `features.js` computes."""
    here = Path(__file__).parent
    rules = "".join(f"<p>{html.escape(' '.join(part.split()))}</p>\n" for part in TEXT.strip().split("\n\n"))
    page = (here / "index.html").read_text(encoding="utf-8").replace("$rules\n", rules)
    found = {name: (here / name).read_bytes() for name in _FILES}
    return found | {"index.html": page.encode(), "cards.svg": card_sprites().encode()}
