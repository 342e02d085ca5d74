"""What is said about an engine that fails."""

from __future__ import annotations

from jaxrl.envs.errors import UserError
from jaxrl.envs.host.core import EngineError


def explained(error: EngineError, first: int) -> UserError:
    """The error of a pool of games as one sentence for people.

    Args:
      error: of the pool; it becomes the cause.
      first: number of the pool's first game among those of all actors.
    """
    game = error.game + first if error.game >= 0 else error.game
    sentence = UserError(f"the engine failed in game {game}: {str(error).partition(': ')[2]}")
    sentence.__cause__ = error
    return sentence
