"""What is said about an engine that fails."""

from __future__ import annotations

import re

from jaxrl_envs.host.game import EngineError
from jaxrl_envs.shared.errors import UserError


def explained(error: EngineError, id: str, first: int = 0) -> UserError:
    """The error of a pool of games as one sentence for people.

    Args:
      error: of the pool; it becomes the cause.
      id: of the game that the engine plays.
      first: number of the pool's first game among those of all actors.
    """
    game = error.game + first if error.game >= 0 else error.game
    sentence = UserError(f"the engine of {id} failed in game {game}: {str(error).partition(': ')[2]}")
    sentence.__cause__ = error
    return sentence


def explained_callback(error: Exception, id: str) -> UserError | None:
    """The same of an engine that was called inside of a compiled program (`HostEnv`), whose error is known by its text
    only, and whose games have no numbers; None if the error is another one."""
    found = re.search(r"EngineError: game -?\d+: (.*)", str(error))
    return UserError(f"the engine of {id} failed: {found[1]}") if found else None
