"""Writes the static page on which one plays a game against a trained policy in the browser alone."""

from __future__ import annotations

import html
import json
import string
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.policies.export import ExportedPolicy, put
from jaxrl.policies.standalone.layers import Layers, layers_of
from jaxrl.serve.site import NETWORK, PAGE
from jaxrl.zoo import DASHES
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

_OURS = Path(__file__).resolve().parent
_SHARED = ("network.js", "table.js", "table.css")


def build(folder: Path, policy: ExportedPolicy, name: str) -> list[Path]:
    """Writes the page of a policy's game with the policy in it.

    Args:
      folder: output folder, made if it does not exist; an earlier page in it is replaced.
      policy: the opponent.
      name: name of the policy, as the page shows it.

    Returns:
      The files.

    Raises:
      UserError: the game has no page, or none for this table, or the page cannot compute the network.
    """
    page = registry.find_module(policy.config.env.id, PAGE)
    if page is None:
        known = ", ".join(registry.games_with(PAGE))
        raise UserError(f"{policy.config.env.id} has no page that needs no server; these games have one: {known}.")
    found = page.files(policy.env)
    network = _network(layers_of(policy), name, policy.config.env.options)
    static = [_OURS.parent / "static" / name for name in ("style.css", "icon.svg", "common.js", "words.js")]
    beside = (*static, *(_OURS / name for name in _SHARED))
    shared = {path.name: path.read_bytes() for path in beside}
    index = _index(page.TITLE, found.pop("scene.html").decode(), policy.env.how_to_play)
    folder.mkdir(parents=True, exist_ok=True)
    head = {"title": page.TITLE, "sdk": "static", "app_file": "index.html", "tags": ["jaxrl"]}  # for a Space of the hub
    readme = f"{DASHES}{files.dump(head)}{DASHES}\n{page.TITLE} against {name}, in the browser alone.\n".encode()
    contents = shared | found | {"index.html": index, NETWORK: network, "README.md": readme}
    for file, data in contents.items():
        put(folder / file, data)
    return [folder / file for file in contents]


def _index(title: str, scene: str, rules: str) -> bytes:
    """Returns the page with the table of a game and its rules."""
    parts = (html.escape(" ".join(part.split())) for part in rules.strip().split("\n\n"))
    template = string.Template((_OURS / "index.html").read_text(encoding="utf-8"))
    text = "\n".join(f"<p>{part}</p>" for part in parts)
    return template.substitute(title=html.escape(title), scene=scene.rstrip(), rules=text).encode()


def _network(layers: Layers, name: str, options: dict[str, Any]) -> bytes:
    """Returns the file that `network.js` reads: u32 length of a JSON text, the text, spaces up to a multiple of four
    bytes, then the f32 arrays, little-endian. Raises UserError if `network.js` does not compute such a network."""
    if layers.settings["cell"] or layers.settings["layer_norm"]:
        raise UserError("the page computes dense networks without layer normalisation and without a memory.")
    shapes = {key: list(leaf.shape) for key, leaf in layers.weights.items()}
    text = json.dumps(layers.settings | {"policy": name, "options": options, "shapes": shapes}).encode()
    text += b" " * (-len(text) % 4)
    arrays = [np.asarray(leaf, "<f4").tobytes() for leaf in layers.weights.values()]
    return b"".join([len(text).to_bytes(4, "little"), text, *arrays])
