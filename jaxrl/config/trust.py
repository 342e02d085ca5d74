"""Loading a file never runs what it names, unless the user has said so.

A configuration names what is run: classes of one's own (`env.id`, `train.algorithm`, `network.kind`, `callbacks`),
programs of an engine, folders of compiled programs; or where an engine writes. What comes from a file (a `--config`, a
run, a policy file) is checked here before anything is made of it. The word of the user is what was overridden on the
command line, allowed by `--allow`, or stands in the variable JAXRL_ALLOW, separated by commas; a `Config` that a
program makes is its own word.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jaxrl.config import presets
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import default_of, limits_of

VARIABLE = "JAXRL_ALLOW"


class Named(NamedTuple):
    """Something that a configuration lets run, or be written to."""

    key: str  # dotted
    text: str
    permissions: tuple[str, ...]  # any of which will do; the first is advised


def check(config: Any, source: str, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> None:
    """Compares what a configuration from a file lets run with what the user has said.

    Args:
      config: of the file, with the overrides.
      source: the file, for the message.
      overrides: of the command line: what they name is the user's own word.
      allow: what the user has allowed: modules, packages with all that is in them, paths.

    Raises:
      UserError: it names more than was allowed.
    """
    said = presets.apply_overrides({}, overrides)
    known = granted(allow) | {each.permissions[0] for each in named(config, said)}
    refused = [each for each in named(config) if not known & set(each.permissions)]
    if refused:
        what = " and ".join(f"{_quoted(each.text)} ({each.key})" for each in refused)
        raise UserError(
            f"{source} names code or folders of its own, {what}, which loading would run or fill: "
            f"if you trust it, add {_flags(refused)}"
        )


def flags(config: Any) -> str:
    """The options with which a command reads this configuration from a file: "--allow mine", or nothing."""
    known = granted(())
    return _flags([each for each in named(config) if not known & set(each.permissions)])


def _flags(refused: Sequence[Named]) -> str:
    return " ".join(f"--allow {_quoted(name)}" for name in dict.fromkeys(each.permissions[0] for each in refused))


def granted(allow: Collection[str]) -> set[str]:
    """What the user has allowed, here and always."""
    return {*allow, *(name.strip() for name in os.environ.get(VARIABLE, "").split(","))}


def named(config: Any, said: Any = None, path: str = "") -> Iterator[Named]:
    """All that a configuration lets run, but for defaults.

    Args:
      config: a configuration or one of its sections.
      said: a tree of overrides: then what stands there instead of in the configuration.
      path: dotted, of the section.
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
    """The texts in a value of a tree."""
    if isinstance(value, (dict, list, tuple)):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def _quoted(text: str) -> str:
    """As a shell reads it; whatever a stranger wrote into it, one word that only prints."""
    return text if re.fullmatch(r"[\w.:/-]+", text) else repr(text)
