"""Playback of recorded games of Skull King, see `jaxrl_envs.shared.display.playback`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import State
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.display.playback import Playback, of_states
from jaxrl_envs.shared.display.replay_states import replay_states
from jaxrl_envs.skull_king.cards import NUM_CARDS
from jaxrl_envs.skull_king.env import SkullKing, SkullKingState
from jaxrl_envs.skull_king.golden import BOT_CHOICES, GAMES, actions_of

KINDS = (GAMES, BOT_CHOICES)
games = golden.titles


def fits(name: str, first: Mapping[str, Any]) -> bool:
    """Returns whether a file holds recorded games (also with recorded choices of bots), by its first record's keys."""
    return {"n", "decks", "final"} <= set(first)


def play(path: Path, number: int) -> Playback:
    """Returns the playback of one game of a file, with its recorded deals."""
    kind, record = golden.nth(path, KINDS, number)
    options = {"players": record["n"], "expansion": bool(record["expansion"]), "abilities": bool(record["abilities"])}
    env = SkullKing(**options)
    decks = np.zeros((len(record["decks"]), NUM_CARDS), np.uint8)
    decks[:, : len(record["decks"][0])] = record["decks"]
    first = env.init_from_decks(jnp.asarray(decks), jnp.int32(record["first"]))
    actions = actions_of(record)
    states = replay_states(env, first, actions)
    seats = [f"seat {seat}" for seat in range(env.num_players)]
    title = f"Skull King, {kind.label(record, number)}"
    return of_states(env, states, actions, title, seats, globals(), options=options)


def mark(env: SkullKing, before: SkullKingState, after: SkullKingState) -> str:
    """Returns a mark on the timeline where a round begins."""
    started = int(after.game.number) != int(before.game.number)
    return f"round {int(after.game.number)}" if started else ""


def curves(env: SkullKing, states: Sequence[State]) -> dict[str, list[list[float]]]:
    """Returns the points so far."""
    assert isinstance(states[0], SkullKingState)
    return {"points": [np.asarray(state.game.scores).tolist() for state in states]}
