"""Code and folders that a configuration file names are used only with the user's permission.

A configuration can name code (`env.id`, `train.algorithm`, `network.kind`, `callbacks`), programs of an engine, folders
of compiled programs, and folders that an engine writes to. A file (a `--config`, a run, a policy file) is checked here
before anything is made of it. Permitted is what the command line overrides, what `--allow` names, and what the
environment variable JAXRL_ALLOW lists, separated by commas. A `Config` made in code is trusted.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jaxrl.config import presets
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import default_of, limits_of

VARIABLE = "JAXRL_ALLOW"


class Named(NamedTuple):
    """Code or a folder that a configuration names."""

    key: str  # dotted
    text: str
    permissions: tuple[str, ...]  # any of which will do; the first is advised


def check(config: Any, source: str, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> None:
    """Checks that a configuration from a file names only code and folders that the user has permitted.

    Args:
      config: the configuration, with the overrides.
      source: the file, for the message.
      overrides: assignments on the command line; what they name is permitted.
      allow: permitted modules, packages (with their modules) and paths.

    Raises:
      UserError: the configuration names more than that.
    """
    said = presets.apply_overrides({}, overrides)
    known = granted(allow) | {each.permissions[0] for each in named(config, said)}
    refused = [each for each in named(config) if not known & set(each.permissions)]
    _refuse(refused, source)


def check_game(game: str, source: str, allow: Collection[str] = ()) -> None:
    """Checks, as `check`, a game that a file without a configuration names: a table, an evaluation."""
    permissions = registry.permissions(game)
    if permissions and not granted(allow) & set(permissions):
        _refuse([Named("its game", game, permissions)], source)


def _refuse(refused: Sequence[Named], source: str) -> None:
    if refused:
        what = " and ".join(f"{_quoted(each.text)} ({each.key})" for each in refused)
        raise UserError(
            f"{source} names code or folders of its own, {what}, which loading would run or fill: "
            f"if you trust it, add {_flags(refused)}"
        )


def flags(config: Any) -> str:
    """Returns the options with which a command reads this configuration from a file: "--allow mine", or nothing."""
    known = granted(())
    return _flags([each for each in named(config) if not known & set(each.permissions)])


def _flags(refused: Sequence[Named]) -> str:
    return " ".join(f"--allow {_quoted(name)}" for name in dict.fromkeys(each.permissions[0] for each in refused))


def granted(allow: Collection[str]) -> set[str]:
    """Returns the permissions in `allow` and in the environment variable."""
    return {*allow, *(name.strip() for name in os.environ.get(VARIABLE, "").split(","))}


def named(config: Any, said: Any = None, path: str = "") -> Iterator[Named]:
    """Yields the code and folders that a configuration names, other than defaults.

    Args:
      config: a configuration or one of its sections.
      said: a tree of overrides, to search instead of the configuration.
      path: dotted path of the section.
    """
    for field in dataclasses.fields(config):
        here, value = f"{path}{field.name}", getattr(config, field.name)
        part = said.get(field.name) if isinstance(said, dict) else None
        if dataclasses.is_dataclass(value):
            yield from named(value, None if said is None else part or {}, f"{here}.")
        elif (runs := limits_of(field).runs) is not None:
            for text in _texts(value if said is None else part):
                if text != default_of(field) and (permissions := runs(text)):
                    yield Named(here, text, permissions)


def _texts(value: Any) -> list[str]:
    """Returns the texts in a value of a tree."""
    if isinstance(value, (dict, list, tuple)):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def _quoted(text: str) -> str:
    """Quotes untrusted text as one shell word without control characters."""
    return text if re.fullmatch(r"[\w.:/-]+", text) else repr(text)
