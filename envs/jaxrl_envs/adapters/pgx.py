"""Games of Pgx (Koyamada et al. 2023, https://arxiv.org/abs/2303.17503): ``make("pgx:connect_four")``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.adapters import boards, require
from jaxrl_envs.contract.env import Env, Key, PyTree, State
from jaxrl_envs.shared.errors import UserError, nearest

_SHARED = ("current_player", "legal_action_mask", "rewards", "terminated", "truncated")


@struct.dataclass
class PgxState(State):
    """The public leaves are Pgx's own; `inner` is the Pgx state without them, so that nothing is stored twice."""

    inner: Any


class PgxEnv(Env):
    """One Pgx game; its only bot is ``"random"``. Pgx does not describe hidden information; board games have none."""

    id = "pgx"
    version = "1"
    colours = boards.COLOURS

    def __init__(self, name: str):
        """Makes the game that Pgx calls `name`."""
        pgx = require("pgx", f"the game 'pgx:{name}'", "jaxrl[games]")
        known = pgx.available_envs()
        if name not in known:
            raise UserError(f"Pgx has no game {name!r}: {nearest(name, known)}")
        self.game, self.name = pgx.make(name), name
        self.perfect_information = name in boards.OPEN
        self.id = f"pgx:{name}"  # type: ignore[misc]
        self.version = f"{pgx.__version__}-{self.game.version}"  # type: ignore[misc]
        self.num_players = int(self.game.num_players)
        self.num_actions = int(self.game.num_actions)

    def _init(self, key: Key) -> PgxState:
        return self._wrap(self.game.init(key), jnp.bool_(False))

    def _step(self, state: State, action: jax.Array, key: Key) -> PgxState:
        stepped = self._wrap(self.game.step(self._inner(state), action, key), state.illegal_action)
        return stepped.replace(observation=state.observation)

    def observe(self, state: State, seat: jax.Array) -> PyTree:
        """Returns the array of the Pgx game, seen by `seat`."""
        return self.game._observe(self._inner(state), seat)  # `observe(state, player)` is deprecated in Pgx

    def render(self, state: State, seat: int | None = None) -> str:
        viewer = 0 if seat is None else seat
        return boards.board_text(self.name, np.asarray(self.observe(state, jnp.int32(viewer))), viewer, seat)

    def action_name(self, action: int) -> str:
        return boards.place_name(self.name, action, self.game.observation_shape[0])

    def render_svg(self, state: State, seat: int | None = None) -> str:
        if seat is not None and not self.perfect_information:
            raise NotImplementedError(f"{self.id}: Pgx draws everything and does not say what a seat may see")
        return str(self._inner(state).replace(observation=state.observation).to_svg())

    def _wrap(self, inner: Any, illegal_action: jax.Array) -> PgxState:
        return PgxState(
            current_player=inner.current_player.astype(jnp.int32),
            observation=None,
            legal_action_mask=inner.legal_action_mask.astype(bool),
            rewards=inner.rewards.astype(jnp.float32),
            terminated=inner.terminated.astype(bool),
            truncated=inner.truncated.astype(bool),
            illegal_action=illegal_action,
            inner=inner.replace(observation=None, **dict.fromkeys(_SHARED)),
        )

    def _inner(self, state: State) -> Any:
        return state.inner.replace(**{name: getattr(state, name) for name in _SHARED})
