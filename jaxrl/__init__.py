"""jaxrl: reinforcement learning of games, end to end in one compiled program; from Python see `jaxrl.library`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxrl.envs.errors import UserError
    from jaxrl.library import evaluate, load, make, tournament, train

__all__ = ["UserError", "__version__", "evaluate", "load", "make", "tournament", "train"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What the library offers; imported when it is asked for, so that a command starts without it."""
    if name not in __all__:
        raise AttributeError(f"module 'jaxrl' has no attribute {name!r}")
    from jaxrl import library
    from jaxrl.envs.errors import UserError

    return UserError if name == "UserError" else getattr(library, name)
