"""YAML files, overrides from the command line, and where shipped configurations are found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from envs.errors import UserError, nearest

_PACKAGE = Path(__file__).resolve().parent.parent


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 3e-4 as a number (YAML 1.2) and refuses a key that is written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
            seen.add(str(key))
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def parse_yaml(text: str, label: str) -> Any:
    """The plain tree of a YAML text; raises UserError naming `label` and the line if it is not YAML."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise UserError(f"cannot read {label}{where}: {problem}.") from error


def shipped_directory() -> Path:
    """The folder of the configurations that come with the project: in a wheel or in a checkout."""
    installed = _PACKAGE / "configs"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def shipped() -> dict[str, Path]:
    """Name -> path of every shipped configuration."""
    return {path.stem: path for path in sorted(shipped_directory().glob("*.yaml"))}


def find(name: str | os.PathLike) -> Path:
    """The path of a configuration: an existing file, or the name of a shipped one.

    Raises:
      UserError: there is neither, with the nearest shipped name.
    """
    path = Path(name).expanduser()
    if os.path.isfile(path):
        return path
    known = shipped()
    if path.parent == Path(".") and path.name in known:
        return known[path.name]
    if path.parent.name in ("", "configs") and path.suffix == ".yaml" and path.stem in known:
        return known[path.stem]
    raise UserError(f"there is no configuration {str(name)!r}: {nearest(path.stem, known)}")


def read(path: str | os.PathLike) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}.") from error
    tree = parse_yaml(text, str(path))
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold a mapping of keys, but it holds {type(tree).__name__}.")
    return tree


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """`tree` with ``"a.b=value"`` applied in order; values are YAML, list elements are numbered (``seats.0.weight=2``).

    Keys are not checked here: an unknown one is found when the tree is built.
    """
    tree = _copy(tree)
    for text in overrides:
        path, separator, value = text.partition("=")
        keys = path.strip().split(".")
        if not separator or not all(keys):
            raise UserError(
                f"cannot understand {text!r}: an override is written key.key=value, e.g. train.num_envs=512."
            )
        _assign(tree, keys, parse_yaml(value, f"the value of {path}"), path)
    return tree


def _assign(tree: Any, keys: list[str], value: Any, path: str) -> None:
    node = tree
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(node, list):
            if not key.isdigit() or int(key) >= len(node):
                parent = ".".join(keys[:depth])
                raise UserError(
                    f"cannot set {path}: {parent} is a list of {len(node)}, {key!r} is not one of its places."
                )
            index: Any = int(key)
        elif isinstance(node, dict):
            index = key
        else:
            raise UserError(f"cannot set {path}: {'.'.join(keys[:depth])} is a single value, it has no keys.")
        if last:
            node[index] = value
        else:
            if isinstance(node, dict) and node.get(index) is None:
                node[index] = {}
            node = node[index]


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def write(tree: dict[str, Any], path: str | os.PathLike) -> None:
    """Writes a tree as YAML, whole or not at all (a full disk leaves the previous file)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(yaml.safe_dump(tree, sort_keys=False, width=120), encoding="utf-8")
    os.replace(temporary, path)
