"""The decisions of an open recording as one file of plain arrays. Imports no jax.

The process that opens a recording (`jaxrl.serve.replays.render_recording`) writes it and the server reads it: so the
server never reads the file of a stranger, and computes nothing of it but what a policy says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl_envs.shared.display.playback import PlaybackDecisions
from jaxrl_envs.shared.errors import UserError

NAME = "decided.npz"  # in the folder of an opened recording


class StateStore(NamedTuple):
    """See `jaxrl_envs.shared.display.playback.PlaybackDecisions`; T decisions."""

    game: str
    options: dict[str, Any]
    seats: np.ndarray  # i32[T] (i32[T, P] in a simultaneous game)
    leaves: list[np.ndarray]  # of the observations, [T, ...]
    legal: np.ndarray  # bool[T, A] (bool[T, P, A])
    actions: np.ndarray  # i32, as the seats


def write(folder: Path, decided: PlaybackDecisions) -> None:
    """Writes the file atomically."""
    leaves = [np.stack(each) for each in zip(*map(_leaves, decided.observations), strict=True)]
    told = json.dumps({"game": decided.game, "options": dict(decided.options)})
    part = folder / f".{NAME}"
    named: dict[str, Any] = {f"leaf{number}": leaf for number, leaf in enumerate(leaves)}
    np.savez_compressed(
        part,
        told=np.array(told),
        seats=np.asarray(decided.seats, np.int32),
        legal=np.asarray(decided.legal, bool),
        actions=np.asarray(decided.actions, np.int32),
        **named,
    )
    part.replace(folder / NAME)


def read(folder: Path) -> StateStore:
    """Reads the file in the folder of an open recording. Raises UserError: it was removed meanwhile."""
    try:
        with np.load(folder / NAME, allow_pickle=False) as file:
            leaves = [file[f"leaf{number}"] for number in range(sum(name.startswith("leaf") for name in file.files))]
            told = json.loads(str(file["told"]))
            return StateStore(told["game"], told["options"], file["seats"], leaves, file["legal"], file["actions"])
    except FileNotFoundError:
        raise UserError("this game is not open any more: open it again.") from None


def _leaves(observation: Any) -> list[np.ndarray]:
    if isinstance(observation, np.ndarray):
        return [observation]
    import jax  # here: recordings of engines that know no jax are opened sooner without it

    return [np.asarray(leaf) for leaf in jax.tree.leaves(observation)]
