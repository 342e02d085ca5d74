"""Tables of all configuration keys, and a resolved configuration with the origin of its values."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from jaxrl.config import Config, presets
from jaxrl.config.curriculum import CHANGING, Until
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.options import default_of, limits_of, to_tree, type_name
from jaxrl_envs.shared.section import Schedule


class KeyTable(NamedTuple):
    """The keys of one section of a configuration."""

    title: str  # "run: keys"
    doc: str
    rows: list[tuple[str, str, str]]  # dotted key; type, default and range; documentation


def sections() -> Iterator[KeyTable]:
    """Yields all sections of a configuration, in order."""
    hints = typing.get_type_hints(Config)
    for field in dataclasses.fields(Config):
        kind, doc = hints[field.name], limits_of(field).doc
        listed = typing.get_origin(kind) in (tuple, list)
        inner = typing.get_args(kind)[0] if listed else kind
        path = f"{field.name}[]" if listed else field.name
        section = inner if listed else default_of(field)
        whole = (path, f"{type_name(kind)} = {_default(default_of(field))}", doc)
        rows = _rows(inner() if listed else section, path) if dataclasses.is_dataclass(section) else [whole]
        yield KeyTable(f"{field.name}: {'a list, each with' if listed else 'keys'}", doc, rows)


def options_of(game: str) -> Iterator[KeyTable]:
    """Yields the options of a game, and its own section if it has one."""
    rows = [
        (f"env.options.{name}", f"{type_name(kind)} = {_default(default)}", doc)
        for name, (kind, default, doc) in registry.options_of(game).items()
    ]
    yield KeyTable("env.options: keys", f"options of {game}", rows)
    if (section := registry.section_of(game)) is not None:
        yield KeyTable(f"{game}: keys", f"settings of the engine of {game}", _rows(section(), game))


def describe() -> str:
    """Describes every key with its type, allowed values, default and documentation, one block per section."""
    blocks = []
    for title, doc, rows in sections():
        width = max(len(path) for path, *_ in rows)
        lines = [f"  {path:<{width}}  {text}\n  {'':<{width}}    {doc}" for path, text, doc in rows]
        blocks.append("\n".join([f"{title}  # {doc}", *lines]))
    shipped = f"Shipped configurations, which `jaxrl config NAME` prints: {', '.join(presets.shipped())}."
    return "\n\n".join([*blocks, *mappings(), shipped])


def mappings() -> tuple[str, str]:
    """Describes the mappings that may stand in several places: a schedule, a stage of the curriculum."""
    return (
        f"A schedule is a mapping, of which parts may be given: {_parts(Schedule)}.",
        f"A stage of the curriculum has a name, keys of {', '.join(CHANGING)} (dotted or as sections) and "
        f"until, a mapping: {_parts(Until)}. The last one needs none; with until.steps the first follows it.",
    )


def _parts(section: type) -> str:
    """Returns the keys of a mapping that may stand in several places, in a sentence."""
    return "; ".join(f"{field.name} ({limits_of(field).doc})" for field in dataclasses.fields(section))


def _rows(default: Any, path: str) -> list[tuple[str, str, str]]:
    """Returns (dotted key, type and default and range, documentation) of each key of one section."""
    rows = []
    hints = typing.get_type_hints(type(default))
    for field in dataclasses.fields(default):
        kind, here, limits = hints[field.name], f"{path}.{field.name}", limits_of(field)
        value = getattr(default, field.name)
        if dataclasses.is_dataclass(kind) and kind is not Schedule:
            rows += _rows(value, here)
            continue
        allowed = f"  ({limits.range_text()})" if limits.range_text() else ""
        rows.append((here, f"{type_name(kind)} = {_default(value)}{allowed}", limits.doc))
    return rows


def _default(value: Any) -> str:
    text = yaml.safe_dump(to_tree(value), default_flow_style=True, sort_keys=False, width=1000)
    return text.replace("\n...", "").strip()


def origins(name: str | None, overrides: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the layers over the defaults, (origin, mapping) each: bases, a configuration, the command line."""
    over = presets.layers(presets.find(name), overrides) if name else []
    return [
        *((layer.path.name, layer.tree) for layer in over),
        ("command line", presets.apply_overrides({}, overrides)),
    ]


def resolved(tree: dict[str, Any], over: Sequence[tuple[str, Any]], indent: str = "") -> list[str]:
    """Returns the lines of a configuration as YAML, each value that some layer has set with its origin as a comment.

    Args:
      tree: the whole configuration.
      over: (origin, the same part of a layer), the last one counts.
      indent: indent of these lines.
    """
    lines = []
    for key, value in tree.items():
        under = [(origin, part[key]) for origin, part in over if isinstance(part, dict) and key in part]
        parts = isinstance(value, dict) and bool(value)
        single = bool(under) and not (parts and isinstance(under[-1][1], dict))  # a number may stand for a schedule
        origin = f"  # {under[-1][0]}" if single else ""
        if parts:
            lines += [f"{indent}{key}:{origin}", *resolved(value, [] if single else under, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {_default(value)}{origin}")
    return lines
