"""Configuration files: where shipped ones are found, what they are based on, and overrides from the command line."""

from __future__ import annotations

import copy
import itertools
import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl.config.schema import Config
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest, printable
from jaxrl_envs.shared.options import shown

_PACKAGE = Path(__file__).resolve().parent.parent
OTHER = {"batch_size": "minibatches", "minibatches": "batch_size"}  # of ppo: two ways to say one thing
BASE = "base"  # the key of a file that names the configuration it changes
_OF_THE_GAME = (  # what names bots and options of one game
    *("seats", "curriculum"),
    *(name for name, section in Config().sections() if section.of_game),
)


def shipped_directory() -> Path:
    """Returns the folder of the configurations that come with the project: in a wheel or in a checkout."""
    installed = _PACKAGE / "configs"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def shipped() -> dict[str, Path]:
    """Returns name -> path of every shipped configuration."""
    return {path.stem: path for path in sorted(shipped_directory().glob("*.yaml"))}


def find(name: str | os.PathLike[str]) -> Path:
    """Returns the path of a configuration: an existing file, or the name of a shipped one. Raises UserError if there is
    neither, for a name with the nearest shipped one."""
    path = Path(name).expanduser()
    if os.path.isfile(path):
        return path
    known = shipped()
    if path.parent == Path(".") and path.name in known:
        return known[path.name]
    if path.parent.name in ("", "configs") and path.suffix == ".yaml" and path.stem in known:
        return known[path.stem]
    if path.suffix or path.parent != Path(".") or path.exists():
        raise UserError(f"there is no configuration file {str(name)!r}: check the path.")
    raise UserError(f"there is no configuration {str(name)!r}: {nearest(path.stem, known)} (`jaxrl config` lists all)")


class Layer(NamedTuple):
    """One file of a configuration, without what does not fit its game."""

    path: Path
    tree: dict[str, Any]  # its keys
    left_out: str = ""  # a sentence that names the keys left out because they are of another game


def read(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Reads a YAML file, merged over its `base`, with overrides applied. Raises UserError if a file cannot be read, is
    empty or holds no mapping, its base does not exist or is based on the file itself, or an override cannot be
    understood."""
    tree: dict[str, Any] = {}
    for layer in layers(path, overrides):
        tree = merged(tree, layer.tree)
        if layer.left_out:
            print(printable(layer.left_out), file=sys.stderr)
    if isinstance(tree.get("ppo"), dict):
        given = {text.partition("=")[0].strip().removeprefix("ppo.") for text in overrides}
        tree = tree | {"ppo": _without_other(tree["ppo"], given)}
    return apply_overrides(tree, overrides)


def layers(path: Path, overrides: Sequence[str] = ()) -> list[Layer]:
    """Returns the files that a configuration consists of, from the lowest base to the file itself.

    If a file or an override names another game than the files below it, their keys of the former game are left out.

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
    if tree is None:
        raise UserError(f"{path} is empty: it must hold at least one key, e.g. `env: {{id: skull_king}}`.")
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold a mapping of keys, but it holds {type(tree).__name__}.")
    return tree


def base_of(path: Path, name: Any) -> Path:
    """Returns the base of a file: another file, relative to its folder, or a shipped configuration."""
    if not isinstance(name, str) or not name:
        raise UserError(f"{path}: base must be the name of a shipped configuration or a file, got {name!r}.")
    beside = path.parent / Path(name).expanduser()
    try:
        return beside if beside.is_file() else find(name)
    except UserError as error:
        raise UserError(f"{path}: base: {error}") from None


def merged(base: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Merges `tree` into `base`: mappings are merged, other values (lists, null) replace those of `base`; a key that
    says the same as another one of `base` (`OTHER`) replaces that."""
    both = dict(base)
    for key, value in tree.items():
        under = base.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            value = merged(_without_other(under, value), value)
        both[key] = value
    return both


def _without_other(tree: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Returns `tree` without what the given `keys` say in the other way."""
    return {name: value for name, value in tree.items() if OTHER.get(name) not in keys or name in keys}


def game_of(tree: dict[str, Any]) -> Any:
    """Returns the id of the game that a tree names; None if it names none."""
    env = tree.get("env")
    return env.get("id") if isinstance(env, dict) else None


def default_name(file: str | os.PathLike[str] | None, game: str, overrides: Sequence[str]) -> str:
    """Names a run after its configuration file; without one, or if the overrides name another game than the file, after
    the game. Letters that `run.name` does not allow become dashes."""
    name = game.partition(":")[2] or game
    if file:
        path, said = find(file), game_of(apply_overrides({}, overrides))
        if said is None or {game_of(layer.tree) for layer in layers(path)} <= {None, said}:
            name = path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"


def _for_game(layer: Layer, own: Any, game: Any) -> Layer:
    """Drops the keys that are specific to the layer's game `own` if the configuration is for another `game`."""
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
    """Applies ``"a.b=value"`` in order to a copy; values are YAML, list elements are numbered (``seats.0.weight=2``).

    Keys are not checked here: an unknown one is found when the tree is built.
    """
    tree = copy.deepcopy(tree)
    for text in overrides:
        path, separator, value = text.partition("=")
        keys = path.strip().split(".")
        if not separator or not all(keys) or len(keys) > files.DEEPEST:
            raise UserError(
                f"cannot understand {shown(text)}: an override is written key.key=value, e.g. train.num_envs=512."
            )
        _assign(tree, keys, files.parse(value, f"the value of {path}"), path)
    return tree


def changed(tree: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns `tree` with another value at a path of keys, which may hold any characters."""
    tree = copy.deepcopy(tree)
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
            index: Any = files.number(key)
            if index is None or index >= len(node):
                parent = ".".join(keys[:depth])
                raise UserError(
                    f"cannot set {path}: {parent} is a list of {len(node)}, {key!r} is not one of its places."
                )
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
