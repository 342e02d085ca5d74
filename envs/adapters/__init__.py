"""Bridges between the contract and other libraries; every one of them is an optional dependency."""

from __future__ import annotations

import importlib
from types import ModuleType

from envs.errors import UserError


def require(package: str, what: str, extra: str) -> ModuleType:
    """Imports an optional package.

    Args:
      package: its import name.
      what: what the user asked for, for the message.
      extra: the extra of this project that installs it.

    Raises:
      UserError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is there; something it imports is not
        raise UserError(f"{what} needs the package {package!r}: pip install 'jaxrl[{extra}]'") from error
