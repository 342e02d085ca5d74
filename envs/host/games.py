"""The project's host games as `envs.core.Env`, for the registry: games themselves import no jax."""

from __future__ import annotations

import functools
from typing import Any

from envs.battle.game import BattleGame
from envs.host.env import HostEnv


class Battle(HostEnv):
    """A tabletop battle of two sides; the rules are in `envs/battle`."""

    id, version = BattleGame.id, BattleGame.version
    package = "envs.battle"

    @functools.wraps(BattleGame.__init__)  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(BattleGame(**options))
