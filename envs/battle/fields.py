"""Reading of YAML and JSON that people write: files, and mappings whose every key and value is checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from envs.errors import UserError, nearest

SUFFIXES = (".yaml", ".yml", ".json")


class _Loader(yaml.SafeLoader):
    """YAML in which a repeated key is an error instead of a silent loss."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no key may be repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise ValueError(f"key {twice!r} appears twice")
    return found


def is_path(text: str) -> bool:
    """Whether a name given by a user means a file: it has a suffix of YAML or JSON, or a folder in it."""
    return text.lower().endswith(SUFFIXES) or "/" in text or "\\" in text


def read(path: str | Path) -> Any:
    """What a YAML file holds, or one of JSON if its name ends in .json.

    Raises:
      UserError: there is no such file, it cannot be read, or it is neither; the message names the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: check the path.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not text in UTF-8.") from None
    try:
        if path.suffix.lower() == ".json":
            return json.loads(text, object_pairs_hook=_once)
        return yaml.load(text, Loader=_Loader)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno} is not valid JSON: {error.msg}.") from None
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "broken"
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{place} is not valid YAML: {problem}.") from None
    except ValueError as error:  # a key twice in JSON, a date that does not exist in YAML
        raise UserError(f"{path} cannot be read: {error}.") from None


def shown(value: Any) -> str:
    """A value in an error message, shortened."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


class Fields:
    """A mapping as written by a user, read key by key; every complaint is a UserError that says where it stands."""

    def __init__(self, tree: Any, where: str, known: Sequence[str]):
        """
        Args:
          tree: what was read; anything but a mapping is an error.
          where: begins every message, e.g. "my.yaml, unit 2 'Rifles'".
          known: the keys that may appear; any other is an error that names the nearest.
        """
        if not isinstance(tree, dict):
            raise UserError(f"{where} must be a mapping with the keys {', '.join(known)}, got {shown(tree)}.")
        for key in tree:
            if key not in known:
                raise UserError(f"{where} has an unknown key {key!r}: {nearest(str(key), known)}")
        self.tree, self.where = tree, where

    def __contains__(self, key: str) -> bool:
        return key in self.tree

    def value(self, key: str, allowed: str) -> Any:
        """The value of a required key; `allowed` says in words what belongs there."""
        if key not in self.tree:
            raise UserError(f"{self.where} lacks {key}: give {allowed}.")
        return self.tree[key]

    def complain(self, key: str, allowed: str) -> UserError:
        """The error for a wrong value."""
        return UserError(f"{self.where}: {key} must be {allowed}, got {shown(self.tree[key])}.")

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """An integer in low..high; required if there is no default."""
        if default is not None and key not in self.tree:
            return default
        allowed = f"a whole number from {low} to {high}"
        value = self.value(key, allowed)
        if not is_whole(value) or not low <= value <= high:
            raise self.complain(key, allowed)
        return value

    def one_of(self, key: str, values: Sequence[Any], default: Any = None) -> Any:
        """One of some values (compared with their type); required if there is no default."""
        if default is not None and key not in self.tree:
            return default
        allowed = " or ".join(", ".join(map(str, values)).rsplit(", ", 1))
        value = self.value(key, allowed)
        if not any(type(value) is type(known) and value == known for known in values):
            raise self.complain(key, allowed)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Text; required if there is no default."""
        if default is not None and key not in self.tree:
            return default
        value = self.value(key, "a name")
        if not isinstance(value, str) or not value.strip():
            raise self.complain(key, "text (in quotes if it is a number)")
        return value

    def items(self, key: str, low: int, high: int, what: str, default: list[Any] | None = None) -> list[Any]:
        """A list of low..high entries; required if there is no default."""
        if default is not None and key not in self.tree:
            return default
        allowed = f"a list of {low} to {high} {what}"
        value = self.value(key, allowed)
        if not isinstance(value, list):
            raise self.complain(key, allowed)
        if not low <= len(value) <= high:
            raise UserError(f"{self.where}: {key} must be {allowed}, got {len(value)}.")
        return value
