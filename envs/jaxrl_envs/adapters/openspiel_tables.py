"""Small games of OpenSpiel as tables, compiled: ``make("openspiel_table:leduc_poker")``.

All positions are visited once, by OpenSpiel; a step is then a look-up in arrays, so that training is one compiled
program. Observations and actions are those of `OpenSpielEnv`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.adapters.openspiel_games import OpenSpielEnv
from jaxrl_envs.contract.env import Env, Key, State
from jaxrl_envs.shared.errors import UserError

_LARGEST = 500_000  # positions


@struct.dataclass
class TableState(State):
    """A state with the number of its position."""

    position: jax.Array  # i32[]


class Table(NamedTuple):
    """All positions of a game but those of chance. N positions, W outcomes of chance, D draws."""

    player: np.ndarray  # i32[N]
    seen: np.ndarray  # f32[N, P, F]
    legal: np.ndarray  # bool[N, A]
    returns: np.ndarray  # f32[N, P], up to here
    over: np.ndarray  # bool[N]
    draw: np.ndarray  # i32[N, A], what follows an action: a row of the two below
    below: np.ndarray  # f32[D, W], cumulative probabilities
    drawn: np.ndarray  # i32[D, W], the position


class OpenSpielTable(Env):
    """One small game of OpenSpiel, with parameters as OpenSpiel writes them; its only bot is ``"random"``."""

    id = "openspiel_table"
    version = "1"

    def __init__(self, name: str):
        """Visits all positions of the game that OpenSpiel calls `name`."""
        game = OpenSpielEnv(name).game
        self.id, self.version = f"openspiel_table:{name}", game.version  # type: ignore[misc]
        self.num_players, self.num_actions = game.num_players, game.num_actions
        self.perfect_information = game.perfect_information
        try:
            self._table = _table(game)
        except RecursionError:
            raise UserError(f"games of {name!r} are too long for a table: take openspiel:{name}") from None

    def _init(self, key: Key) -> TableState:
        return self._drawn(jnp.int32(-1), jnp.zeros(self.num_players), key)

    def _step(self, state: State, action: jax.Array, key: Key) -> TableState:
        before = jnp.asarray(self._table.returns)[state.position]
        stepped = self._drawn(jnp.asarray(self._table.draw)[state.position, action], before, key)
        return stepped.replace(observation=state.observation)

    def _drawn(self, row: jax.Array, before: jax.Array, key: Key) -> TableState:
        """Returns the position that chance draws from a row of the draws. `before`: f32[P], returns so far."""
        table = jax.tree.map(jnp.asarray, self._table)
        outcome = jnp.sum(jax.random.uniform(key) >= table.below[row])
        at = table.drawn[row, outcome]
        return TableState(
            current_player=table.player[at],
            observation=None,
            legal_action_mask=table.legal[at],
            rewards=table.returns[at] - before,
            terminated=table.over[at],
            truncated=jnp.bool_(False),
            illegal_action=jnp.bool_(False),
            position=at,
        )

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        """Returns OpenSpiel's tensor of a seat."""
        return jnp.asarray(self._table.seen)[state.position, seat]

    def privileged(self, state: State, seat: jax.Array) -> jax.Array:
        """Returns the tensors of the other seats."""
        others = (seat + 1 + jnp.arange(self.num_players - 1)) % self.num_players
        return jnp.asarray(self._table.seen)[state.position, others]


def _table(game: Any) -> Table:
    """Visits all positions, in the order of a depth-first search."""
    rows: list[tuple[Any, ...]] = []
    draws: list[list[tuple[float, int]]] = []  # the last one starts the game
    seats, actions = range(game.num_players), game.num_actions

    def outcomes(position: Any, odds: float) -> list[tuple[float, int]]:
        if not position.is_chance_node():
            return [(odds, visit(position))]
        each = position.chance_outcomes()
        return [found for drawn, share in each for found in outcomes(position.child(drawn), odds * share)]

    def visit(position: Any) -> int:
        number, over = len(rows), position.is_terminal()
        if number == _LARGEST:
            raise UserError(f"{game.id!r} has more than {_LARGEST:,} positions: too many for a table")
        legal, then = np.full(actions, over), np.zeros(actions, np.int32)
        seen = np.array([getattr(position, game.tensor)(seat) for seat in seats], np.float32)
        rows.append((max(position.current_player(), 0), seen, legal, position.returns(), over, then))
        for action in position.legal_actions():
            legal[action], then[action] = True, draw(position.child(action))
        return number

    def draw(position: Any) -> int:
        draws.append(outcomes(position, 1.0))
        return len(draws) - 1

    draw(game.rules.new_initial_state())
    shape = (len(draws), max(map(len, draws)))
    below, drawn = np.full(shape, 2.0, np.float32), np.zeros(shape, np.int32)
    for number, each in enumerate(draws):
        odds, at = zip(*each, strict=True)
        below[number, : len(at) - 1], drawn[number, : len(at)] = np.cumsum(odds)[:-1], at
    player, seen, legal, returns, over, then = (np.array(each) for each in zip(*rows, strict=True))
    return Table(player.astype(np.int32), seen, legal, returns.astype(np.float32), over, then, below, drawn)
