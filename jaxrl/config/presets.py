"""Configuration files: where shipped ones are found, what they are based on, and overrides from the command line."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl.config.schema import Config
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest, printable

_PACKAGE = Path(__file__).resolve().parent.parent
BASE = "base"  # the key of a file that names the configuration it changes
_OF_THE_GAME = (  # what names bots and options of one game
    *("seats", "curriculum"),
    *(name for name, section in Config().sections() if section.of_game),
)


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


class Layer(NamedTuple):
    """One file of a configuration, without what does not fit its game.

    Attributes:
      path: of the file.
      tree: what it says.
      left_out: the sentence that tells what it says of another game; empty if nothing.
    """

    path: Path
    tree: dict[str, Any]
    left_out: str = ""


def read(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The mapping in a YAML file, upon that of its `base`, changed by overrides; an empty file is an empty mapping.

    Raises:
      UserError: a file cannot be read or holds no mapping, its base does not exist or is based on the file itself, or
        an override cannot be understood.
    """
    tree: dict[str, Any] = {}
    for layer in layers(path, overrides):
        tree = merged(tree, layer.tree)
        if layer.left_out:
            print(printable(layer.left_out), file=sys.stderr)
    return apply_overrides(tree, overrides)


def layers(path: Path, overrides: Sequence[str] = ()) -> list[Layer]:
    """The files that a configuration consists of, the lowest first: what is based on another one lies upon it.

    A file, or an override, may name another game than those below: what they say of theirs is left out.

    Raises:
      UserError: as for `read`.
    """
    found = [(path, _mapping(path))]
    while BASE in found[0][1]:
        path, tree = found[0]
        base = base_of(path, tree.pop(BASE))
        chain = [each for each, _ in found]
        if base.resolve() in (each.resolve() for each in chain):
            round_ = " -> ".join(each.stem for each in (*chain[::-1], base))
            raise UserError(f"{path}: base goes round in a circle: {round_}.")
        found.insert(0, (base, _mapping(base)))
    own: list[Any] = list(itertools.accumulate((game_of(tree) for _, tree in found), lambda below, here: here or below))
    game = game_of(apply_overrides({}, overrides)) or own[-1]
    return [_for_game(Layer(*each), of, game) for each, of in zip(found, own, strict=True)]


def _mapping(path: Path) -> dict[str, Any]:
    tree = files.read(path)
    if not isinstance(tree, dict | None):
        raise UserError(f"{path} must hold a mapping of keys, but it holds {type(tree).__name__}.")
    return tree or {}


def base_of(path: Path, name: Any) -> Path:
    """What a file is based on: a file, relative to its own folder, or a shipped configuration."""
    if not isinstance(name, str) or not name:
        raise UserError(f"{path}: base must be the name of a shipped configuration or a file, got {name!r}.")
    beside = path.parent / Path(name).expanduser()
    try:
        return beside if beside.is_file() else find(name)
    except UserError as error:
        raise UserError(f"{path}: base: {error}") from None


def merged(base: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `tree`: mappings are merged, everything else (lists, nothing) takes its place."""
    both = dict(base)
    for key, value in tree.items():
        under = base.get(key)
        both[key] = merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return both


def game_of(tree: dict[str, Any]) -> Any:
    """The id of the game that a tree names; None if it names none."""
    env = tree.get("env")
    return env.get("id") if isinstance(env, dict) else None


def _for_game(layer: Layer, own: Any, game: Any) -> Layer:
    """A layer whose game is `own` without what it says of that, if `game` is another one."""
    known = ":" in str(game) or game in registry.registered()
    if own in (None, game) or not known:  # what is unknown is told later
        return layer
    path, tree, _ = layer
    env = tree.get("env")
    dropped = [key for key in (*_OF_THE_GAME, own) if key in tree]
    told = ", ".join((["env.options"] if isinstance(env, dict) and "options" in env else []) + dropped)
    rest = {key: value for key, value in tree.items() if key not in ("env", *dropped)}
    sentence = f"{path.stem} is for {own}: what it says of {told} is left out for {game}."
    return Layer(path, rest, sentence if told else "")


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
        _assign(tree, keys, files.parse(value, f"the value of {path}"), path)
    return tree


def changed(tree: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """`tree` with another value at a path of keys, which may hold any characters."""
    tree = _copy(tree)
    _assign(tree, list(keys), value, ".".join(keys))
    return tree


def _assign(tree: Any, keys: list[str], value: Any, path: str) -> None:
    node = tree
    for depth, key in enumerate(keys):
        last, rest = depth == len(keys) - 1, ".".join(keys[depth:])
        if isinstance(node, dict) and rest in node:  # stages of a curriculum have dotted keys
            node[rest] = value
            return
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
    files.write(path, files.dump(tree, width=120).encode())
