"""Strict conversion between plain trees (YAML) and the dataclasses of `schema`."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from typing import Any

from envs.errors import UserError
from envs.values import Limits, limits_of
from jaxrl.config.schema import Config

_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


def field_types(cls: type) -> dict[str, Any]:
    """The resolved type of each field of a dataclass."""
    return typing.get_type_hints(cls)


def build(default: Any, tree: Any, path: str = "", *, label: str = "configuration") -> Any:
    """`default` with the values of a mapping.

    Args:
      default: an instance of one of the dataclasses of `schema`; keys that are missing keep its values.
      tree: a mapping from key to plain values.
      path: dotted path of the mapping, for messages; "" at the top.
      label: where the tree comes from, for messages.

    Raises:
      UserError: an unknown key, a wrong type or a value out of range, with its dotted path.
    """
    cls = type(default)
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        where = path or f"the {label}"
        raise UserError(f"{where} must be a mapping with keys {_keys(cls)}, got {_show(tree)}.")
    hints = field_types(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in tree:
        if key not in fields:
            raise unknown_key(_join(path, key), label, cls, path)
    values = {}
    for key, value in tree.items():
        here = _join(path, key)
        if dataclasses.is_dataclass(hints[key]):
            values[key] = build(getattr(default, key), value, here, label=label)
        else:
            values[key] = convert(value, hints[key], limits_of(fields[key]), here, label)
    return dataclasses.replace(default, **values)


def convert(value: Any, kind: Any, limits: Limits, path: str, label: str = "configuration") -> Any:
    """`value` as type `kind`, checked against `limits`; integers are accepted as floats, booleans are not numbers."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return build(typing.cast(type, kind)(), value, path, label=label)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{path} must be a list, got {_show(value)}.")
        element = typing.get_args(kind)[0]
        return tuple(convert(item, element, limits, f"{path}.{i}", label) for i, item in enumerate(value))
    if origin is dict:
        return _mapping(value, path)
    if origin in (types.UnionType, typing.Union):
        return _union(value, typing.get_args(kind), limits, path, label)
    value = _scalar(value, kind, path)
    limits.check(value, path)
    return value


def to_tree(value: Any) -> Any:
    """The plain tree (dicts, lists, numbers, strings) of a configuration, complete with defaults."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_tree(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: to_tree(item) for key, item in value.items()}
    return value


def all_paths(cls: type = Config, path: str = "") -> list[str]:
    """Every dotted key; elements of lists of mappings are written with a 0, as in ``seats.0.weight``."""
    paths = []
    hints = field_types(cls)
    for field in dataclasses.fields(cls):
        here = _join(path, field.name)
        paths.append(here)
        kind = hints[field.name]
        inner = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
        if dataclasses.is_dataclass(inner):
            paths += all_paths(typing.cast(type, inner), here if inner is kind else f"{here}.0")
    return paths


def unknown_key(path: str, label: str, cls: type = Config, parent: str = "") -> UserError:
    """The error for a key that does not exist; names the nearest one that does."""
    siblings = [_join(parent, field.name) for field in dataclasses.fields(cls)]
    everything = all_paths()
    last = path.rsplit(".", 1)[-1]
    candidates = (
        difflib.get_close_matches(path, siblings, n=1, cutoff=0.75 if parent else 0.6)
        or [known for known in everything if known.rsplit(".", 1)[-1] == last][:1]
        or difflib.get_close_matches(path, siblings + everything, n=1, cutoff=0.3)
        or siblings[:1]
    )
    return UserError(
        f"unknown key {path!r} in the {label}: did you mean {candidates[0]!r}? (`jaxrl config` lists every key)"
    )


def _scalar(value: Any, kind: type, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and value is None:  # `run.cache_dir=` on the command line, `cache_dir:` in a file
        return ""
    if isinstance(value, kind) and not (kind in (int, float) and isinstance(value, bool)):
        return value
    hint = ""
    if kind is int and isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        hint = f"; write {int(value)}"
    raise UserError(f"{path} must be {_NAMES[kind]}, got {_show(value)}{hint}.")


def _union(value: Any, kinds: tuple[type, ...], limits: Limits, path: str, label: str) -> Any:
    for kind in kinds:
        if typing.get_origin(kind) is tuple:
            if isinstance(value, (list, tuple)):
                return convert(value, kind, limits, path, label)
        elif isinstance(value, kind) and not isinstance(value, bool):
            limits.check(value, path)
            return value
    if limits.pattern is not None:
        raise UserError(f"{path} must be {limits.pattern_doc}, got {_show(value)}.")
    names = [_NAMES[kind] for kind in kinds if kind is not str]
    names += [repr(choice) for choice in limits.choices or ()]
    raise UserError(f"{path} must be {' or '.join(names)}, got {_show(value)}.")


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UserError(f"{path} must be a mapping from names to values, got {_show(value)}.")
    return dict(value)


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _keys(cls: type) -> str:
    return ", ".join(field.name for field in dataclasses.fields(cls))


def _show(value: Any) -> str:
    """A value and its type in a message, never more than a few words."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
