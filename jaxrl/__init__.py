"""jaxrl: reinforcement learning of games, end to end in one compiled program; from Python see `jaxrl.api`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxrl.version import __version__ as __version__

if TYPE_CHECKING:
    from jaxrl.api import evaluate, load, make, tournament, train
    from jaxrl_envs.shared.errors import UserError

__all__ = ["UserError", "__version__", "evaluate", "load", "make", "tournament", "train"]


def __getattr__(name: str) -> Any:
    """Imports a part of the library when it is asked for, so that a command starts without it."""
    if name not in __all__:
        raise AttributeError(f"module 'jaxrl' has no attribute {name!r}")
    from jaxrl import api
    from jaxrl_envs.shared.errors import UserError

    return UserError if name == "UserError" else getattr(api, name)
