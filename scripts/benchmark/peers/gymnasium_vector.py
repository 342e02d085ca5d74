"""Gymnasium's AsyncVectorEnv (https://gymnasium.farama.org): one process for each game, commands through pipes.

The usual way to step many Python environments side by side. Its environments here hold the very engine that our bridge
steps, one game each behind plain calls, with nothing in between. Observations and masks come back through Gymnasium's
shared memory, its fastest setting. Processes are spawned: forking after jax has started its threads is not safe.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from jaxrl_envs.host.game import HostGame
from scripts.benchmark.engine_play import SingleGame

Seen = dict[str, np.ndarray]


class SingleGameEnv(gymnasium.Env[Any, Any]):
    """One game of a host engine, from the view of the seat asked; its reward is that of the seat that acted."""

    def __init__(self, make_game: Callable[[], HostGame], slot: int):
        """A game.

        Args:
          make_game: what is played; called here, because engines cannot be sent to other processes.
          slot: of the engine's random streams.
        """
        game = make_game()
        self._game = SingleGame(game.engine(1, 0, first_slot=slot))
        boxes: dict[str, gymnasium.Space[Any]] = {
            "observation": gymnasium.spaces.Box(-np.inf, np.inf, (game.num_features,), np.float32),
            "mask": gymnasium.spaces.Box(0, 1, (game.num_actions,), np.bool_),
        }
        self.observation_space = gymnasium.spaces.Dict(boxes)
        self.action_space = gymnasium.spaces.Discrete(game.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """The next game of the slot; its dice follow from slot and episode, so `seed` changes nothing."""
        super().reset(seed=seed)
        self._game.start()
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Seen, SupportsFloat, bool, bool, dict[str, Any]]:
        """An action of the seat asked."""
        seat = self._game.player
        how = self._game.step(int(action))
        return self._seen(), float(self._game.rewards[seat]), how == 1, how == 2, {}

    def _seen(self) -> Seen:
        return {"observation": self._game.observation, "mask": self._game.mask}


def vector_env(make_game: Callable[[], HostGame], num_games: int) -> AsyncVectorEnv:
    """Games in processes of their own; call its `close`. `make_game` must be importable there."""
    makers = [functools.partial(SingleGameEnv, make_game, slot) for slot in range(num_games)]
    return AsyncVectorEnv(makers, shared_memory=True, copy=False, context="spawn")
