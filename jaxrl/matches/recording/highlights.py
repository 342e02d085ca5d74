"""Highlights of an evaluation: the games with the highest and lowest return of the candidate, and those with the
largest and smallest error of its values.

They are played again and become replays. In a game of floats, where rounding differs from program to program, a replay
may diverge from the game.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.config import Config
from jaxrl.matches.deals import CANDIDATE, deal_schedule
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.match import begin, choose, see
from jaxrl.matches.recording.replays import LANES, LONGEST, Replay, ReplayLabel, ReplayLanes, make_replays
from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl_envs.contract.env import Key, PyTree, State


class Highlight(NamedTuple):
    """A game of an evaluation."""

    kind: str  # "highest_return", "lowest_return", "highest_surprise" or "lowest_surprise"
    player: int  # the number of the candidate
    opponent: int
    deal: int
    rotation: int


def highlights(tables: Sequence[Sequence[Row]]) -> list[Highlight]:
    """Chooses at most `LANES` games of an evaluation; [] if all are too long to be recorded. `tables`: rows for every
    candidate, one for each opponent."""
    games = [[row.samples.each for row in rows] for rows in tables]
    length = np.array([[each.length for each in rows] for rows in games])  # [candidates, opponents, D, n]
    figures: dict[str, Any] = {"return": [[each.returned for each in rows] for rows in games]}
    if games[0][0].surprise is not None:
        figures["surprise"] = [[each.surprise for each in rows] for rows in games]
    found = []
    for name, values in figures.items():
        for which, sign in (("highest", 1), ("lowest", -1)):
            order = np.where((length > 0) & (length <= LONGEST), sign * np.array(values, np.float64), -np.inf)
            place = np.unravel_index(int(np.argmax(order)), order.shape)
            if np.isfinite(order[place]):
                found.append(Highlight(f"{which}_{name}", *map(int, place)))
    return found


class HighlightRecorder:
    """Plays highlights of a matchup again, and makes replays of them."""

    def __init__(self, config: Config, matchup: Matchup, lanes: ReplayLanes):
        """Compiles at the first call. `matchup`: matchup of the evaluation; not of remote games."""
        self._config, self._matchup, self._lanes, self._env = config, matchup, lanes, matchup.env
        self._schedule = jax.jit(functools.partial(deal_schedule, self._env))
        self._begin = jax.jit(jax.vmap(self._begun))
        self._choose = jax.jit(self._chosen_in_turn)
        self._see = jax.jit(jax.vmap(self._seen, in_axes=(0, 0, None, 0, 0, 0, 0, 0)))
        self._sees = any(each.observe is not None for each in (matchup.candidate, *matchup.opponents))

    def _begun(self, args: PyTree, *state_holder_key: Any) -> list[PyTree]:
        return begin(self._matchup.seated(args), *state_holder_key)

    def _chosen(
        self, args: PyTree, state: State, memory: list[PyTree], holder: jax.Array, key: Key, time: jax.Array
    ) -> tuple[jax.Array, list[PyTree]]:
        return choose(self._matchup.seated(args), state, holder, memory, jax.random.fold_in(key, time))

    def _chosen_in_turn(
        self, args: PyTree, state: State, memory: list[PyTree], holder: jax.Array, key: Key, time: jax.Array
    ) -> tuple[jax.Array, list[PyTree]]:
        """Returns the actions lane by lane: a `cond` that differs between the lanes of a batch cannot hold a search."""
        one = functools.partial(self._chosen, time=time)
        return jax.lax.map(lambda lane: one(*lane), (args, state, memory, holder, key))

    def _seen(self, args: PyTree, key: Key, time: jax.Array, *step: Any) -> list[PyTree]:
        memory, before, action, after, holder = step
        seated = self._matchup.seated(args)
        return see(seated, memory, before, action, after, holder, jax.random.fold_in(key, time))

    def __call__(self, found: Sequence[Highlight], players: Sequence[Player], title: str) -> list[Replay]:
        """Returns the replays. `found`: the games, at most `LANES`."""
        if not found:
            return []
        padded = [*found, *[found[-1]] * (LANES - len(found))]
        deals, rotations = (np.array([getattr(each, name) for each in padded]) for name in ("deal", "rotation"))
        keys, holders = self._schedule(self._matchup.base, deals.astype(np.uint32), rotations.astype(np.int32))
        args = [self._arguments(each, players) for each in padded]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(args))
        played = self._lanes.play(keys.deal, keys.step, self._answers(stacked, holders, keys.seat))
        labels = [self._label(each, players, title, holders[lane]) for lane, each in enumerate(found)]
        return make_replays(self._config, self._lanes, keys.deal, keys.step, played, labels)

    def _arguments(self, found: Highlight, players: Sequence[Player]) -> PyTree:
        opponent = self._matchup.opponents[found.opponent]
        return self._matchup.arguments(players[found.player].params, found.opponent, opponent.params)

    def _label(self, found: Highlight, players: Sequence[Player], title: str, holder: jax.Array) -> ReplayLabel:
        own, other = players[found.player].name, self._matchup.opponents[found.opponent].name
        names = [own if each == CANDIDATE else other for each in np.asarray(holder)]
        return ReplayLabel(found.kind, names, f"{found.kind.replace('_', ' ')} of {title}")

    def _answers(self, args: PyTree, holders: jax.Array, key: Key) -> Callable[[State, np.int32], jax.Array]:
        """Returns, for `ReplayLanes.play`, the actions of the players, with their memories."""
        memory: Any = None
        step: Any = None  # the last state and its actions

        def answer(state: State, time: np.int32) -> jax.Array:
            nonlocal memory, step
            if step is None:
                memory = self._begin(args, state, holders, key)
            elif self._sees:
                memory = self._see(args, key, time - 1, memory, *step, state, holders)
            chosen, memory = self._choose(args, state, memory, holders, key, time)
            step = state, chosen
            return chosen

        return answer
