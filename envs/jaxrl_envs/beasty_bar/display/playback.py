"""Playback of recorded games of Beasty Bar, see `jaxrl_envs.shared.display.playback`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.env import BeastyBar, BeastyBarState
from jaxrl_envs.beasty_bar.golden import GAMES, MOVE
from jaxrl_envs.contract.env import State
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.display.playback import Playback, of_states
from jaxrl_envs.shared.display.replay_states import replay_states

games = golden.titles


def fits(name: str, first: Mapping[str, Any]) -> bool:
    """Returns whether a file holds whole games (not single recorded choices), by the keys of its first record."""
    return {"start", "decks", "moves", "points"} <= set(first)


def play(path: Path, number: int) -> Playback:
    """Returns the playback of one game of a file."""
    kind, record = golden.nth(path, (GAMES,), number)
    env = BeastyBar()
    first = env.init_from_decks(jnp.asarray(record["decks"], jnp.int32), jnp.int32(record["start"]))
    actions = [move[MOVE.index("action")] for move in record["moves"]]
    states = replay_states(env, first, actions)
    title = f"Beasty Bar, {kind.label(record, number)}"
    return of_states(env, states, actions, title, ["seat 0", "seat 1"], globals())


def mark(env: BeastyBar, before: BeastyBarState, after: BeastyBarState) -> str:
    """Returns a mark on the timeline where animals enter the bar."""
    entered = int(before.game.table.bar) != int(after.game.table.bar)
    return "into the bar" if entered else ""


def curves(env: BeastyBar, states: Sequence[State]) -> dict[str, list[list[float]]]:
    """Returns the points in the bar."""
    assert isinstance(states[0], BeastyBarState)
    return {"points": [np.asarray(rules.scores(state.game.table)).tolist() for state in states]}
