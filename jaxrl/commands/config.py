"""The table of every configuration key that `jaxrl config` prints."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import typing
from typing import Any

import yaml

from jaxrl.config import Config, Schedule, load, to_dict
from jaxrl.envs import registry
from jaxrl.envs.values import default_of, limits_of, to_tree, type_name
from jaxrl.runs.games import make_games


def describe() -> str:
    """Every key with its type, allowed values, default and documentation, one block per section."""
    blocks = []
    hints = typing.get_type_hints(Config)
    for field in dataclasses.fields(Config):
        kind = hints[field.name]
        listed = typing.get_origin(kind) is tuple
        inner = typing.get_args(kind)[0] if listed else kind
        title = f"{field.name}: {'a list, each with' if listed else 'keys'}  # {limits_of(field).doc}"
        path = f"{field.name}[]" if listed else field.name
        section = inner() if listed else default_of(field)
        rows = _rows(section, path) if dataclasses.is_dataclass(section) else [(path, "mapping = {}", "yours")]
        width = max(len(path) for path, *_ in rows)
        lines = [f"  {path:<{width}}  {text}\n  {'':<{width}}    {doc}" for path, text, doc in rows]
        blocks.append("\n".join([title, *lines]))
    parts = [f"{field.name} ({limits_of(field).doc})" for field in dataclasses.fields(Schedule)]
    return "\n\n".join([*blocks, f"A schedule is a mapping, of which parts may be given: {'; '.join(parts)}."])


def _rows(default: Any, path: str) -> list[tuple[str, str, str]]:
    """(dotted key, type and default and range, documentation) of each key of one section."""
    rows = []
    hints = typing.get_type_hints(type(default))
    for field in dataclasses.fields(default):
        kind, here, limits = hints[field.name], f"{path}.{field.name}", limits_of(field)
        value = getattr(default, field.name)
        if dataclasses.is_dataclass(kind) and kind is not Schedule:
            rows += [(row, text, f"{limits.doc}: {doc}") for row, text, doc in _rows(value, here)]
            continue
        allowed = f"  ({limits.range_text()})" if limits.range_text() else ""
        rows.append((here, f"{type_name(kind)} = {_default(value)}{allowed}", limits.doc))
    return rows


def _default(value: Any) -> str:
    text = yaml.safe_dump(to_tree(value), default_flow_style=True, sort_keys=False, width=1000)
    return text.replace("\n...", "").strip()


def main(args: argparse.Namespace) -> int:
    """`jaxrl config`: the key table, the options of a game, or a resolved configuration."""
    if args.env:
        for name, (kind, default, doc) in registry.options_of(args.env).items():
            print(f"env.options.{name}  {type_name(kind)} = {_default(default)}\n    {doc}")
        if (section := registry.section_of(args.env)) is not None:
            print("\n" + "\n".join(f"{key}  {text}\n    {doc}" for key, text, doc in _rows(section(), args.env)))
    elif args.config or args.overrides:
        config = load(args.config, args.overrides, args.allow)
        make_games(config)  # says what does not fit the game
        yaml.safe_dump(to_dict(config), sys.stdout, sort_keys=False, width=120)
    else:
        print(describe())
    return 0
