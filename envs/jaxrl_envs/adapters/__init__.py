"""Adapters between the contract and other libraries, each an optional dependency."""

from __future__ import annotations

import importlib
from types import ModuleType

from jaxrl_envs.shared.errors import UserError


def require(module: str, what: str, install: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
      module: its import name.
      what: the user's request, for the message.
      install: the argument of `pip install` that provides it.

    Raises:
      UserError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise  # the package is there; something it imports is not
        raise UserError(f"{what} needs the package {package!r}: pip install {install!r}") from error
