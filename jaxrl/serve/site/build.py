"""Writes the static page on which one plays a game against a trained policy in the browser alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from jaxrl.players.export import ExportedPolicy, put
from jaxrl.players.standalone.layers import Layers, layers_of
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

PAGE = "browser"  # the module of a game that has the files of its page
NETWORK = "policy.bin"
_OURS = Path(__file__).resolve().parent


def build(folder: Path, policy: ExportedPolicy, name: str) -> list[Path]:
    """Writes the page of a policy's game with the policy in it.

    Args:
      folder: made if it does not exist; an earlier page in it is replaced.
      policy: the opponent.
      name: of the policy, as the page shows it.

    Returns:
      The files.

    Raises:
      UserError: the game has no page, the page cannot compute the network, or the folder holds something else or cannot
        be written.
    """
    page = registry.find_module(policy.config.env.id, PAGE)
    if page is None:
        known = ", ".join(registry.games_with(PAGE))
        raise UserError(f"{policy.config.env.id} has no page that needs no server; these games have one: {known}.")
    network = _network(layers_of(policy), name)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / NETWORK).is_file())):
        raise UserError(f"{folder} exists and is no page of `jaxrl site`: name a new folder, or an empty one.")
    static = _OURS.parent / "static"
    beside = (static / "style.css", static / "icon.svg", _OURS / "network.js")
    shared = {path.name: path.read_bytes() for path in beside}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}; name another folder.") from error
    contents = shared | page.files() | {NETWORK: network}
    for file, data in contents.items():
        put(folder / file, data)
    return [folder / file for file in contents]


def _network(layers: Layers, name: str) -> bytes:
    """The file that `network.js` reads: u32 length of a JSON text, the text, zeros up to a multiple of four bytes, then
    the f32 arrays, little-endian. Raises UserError if `network.js` does not compute such a network."""
    if layers.settings["cell"] or layers.settings["layer_norm"]:
        raise UserError("the page computes dense networks without layer normalisation and without a memory.")
    shapes = {key: list(leaf.shape) for key, leaf in layers.weights.items()}
    text = json.dumps(layers.settings | {"policy": name, "shapes": shapes}).encode()
    text += b" " * (-len(text) % 4)
    arrays = [np.asarray(leaf, "<f4").tobytes() for leaf in layers.weights.values()]
    return b"".join([len(text).to_bytes(4, "little"), text, *arrays])
