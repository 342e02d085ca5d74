"""Makes games by name, and looks up what a registered game offers.

An id is one of

- a registered name, ``"skull_king"``;
- a name of another library, ``"pgx:connect_four"``, ``"gymnax:CartPole-v1"`` or
  ``"openspiel:leduc_poker(players=3)"``, small ones compiled as ``"openspiel_table:leduc_poker"`` (optional packages);
- an importable class, ``"package.module:Class"``: this is how people run their own game without touching this file.

Options are the keyword arguments of the game's ``__init__``; they are checked here, before anything is compiled. What
else a registered game offers (recorded games, commands, a section of configurations) is looked up here too.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.options import Place, convert, words_of

if TYPE_CHECKING:
    from jaxrl_envs.contract.env import Env  # imports jax, which looking a game up does not need


class Entry(NamedTuple):
    """Location of a registered game."""

    target: str  # "module:Class"
    package: str  # of the modules beside its rules, e.g. golden, film, diagnosis, commands: see `game_module`
    settings: str = ""  # "module:Dataclass" of its section in configurations, see `section_of`


_GAMES: dict[str, Entry] = {  # in the order in which people are offered them
    "skull_king": Entry("jaxrl_envs.skull_king.env:SkullKing", "jaxrl_envs.skull_king"),
    "beasty_bar": Entry("jaxrl_envs.beasty_bar.env:BeastyBar", "jaxrl_envs.beasty_bar"),
    "car_soccer": Entry("jaxrl_envs.car_soccer.env:CarSoccer", "jaxrl_envs.car_soccer"),
    "battle": Entry("jaxrl_envs.battle.env:BattleEnv", "jaxrl_envs.battle"),
    "forge": Entry(
        "jaxrl_envs.forge.env:ForgeEnv", "jaxrl_envs.forge", settings="jaxrl_envs.forge.settings:Deployment"
    ),
}
_LIBRARIES: dict[str, str] = {
    "pgx": "jaxrl_envs.adapters.pgx:PgxEnv",
    "gymnax": "jaxrl_envs.adapters.gymnax:GymnaxEnv",
    "openspiel": "jaxrl_envs.adapters.openspiel_games:OpenSpielEnv",
    "openspiel_table": "jaxrl_envs.adapters.openspiel_tables:OpenSpielTable",
}


SOURCES = (".py", ".pyx", ".pxd")


class Option(NamedTuple):
    """One keyword argument of a game."""

    type: Any  # the annotation: bool, int, float, str, Literal[...], tuple[float, ...], X | None
    default: Any  # inspect.Parameter.empty if the option is required
    doc: str  # from the "Args:" section of the class or of its __init__, "" without one


def register(id: str, target: str, *, package: str = "", settings: str = "") -> None:
    """Makes ``target`` ("module:Class") available as ``make(id)``; a second registration replaces the first.

    Args:
      id: the name.
      target: the game's class, "module:Class".
      package: package of the modules beside its rules; empty: the class's own package.
      settings: "module:Dataclass" of a section of configurations for this game, see `section_of`.
    """
    if ":" in id or ":" not in target:
        raise ValueError(f"register({id!r}, {target!r}): the id has no colon, the target is 'module:Class'")
    _GAMES[id] = Entry(target, package or target.partition(":")[0].rpartition(".")[0], settings)


def registered() -> list[str]:
    """Returns the registered names, without the libraries' games and importable classes."""
    return list(_GAMES)


def make(id: str, **options: Any) -> Env:
    """The game named `id`. The module of "package.module:Class" is imported: an id that a file holds must have been
    allowed before (`jaxrl.config.trust`).

    Raises:
      UserError: unknown id, unknown option, an option of the wrong type or value, or a missing optional package.
    """
    factory, arguments = _resolve(id)
    if arguments and options:
        factory(*arguments)  # an unknown game of a library is reported before an unknown option
    env = factory(*arguments, **_checked(id, _options(factory), options))
    absent = [name for name in ("id", "version", "num_players", "num_actions") if not hasattr(env, name)]
    if absent:
        where = user_code.place_of(factory)
        raise UserError(f"game {id!r} lacks {' and '.join(absent)}: set them in the class, {where}.")
    return env


def permissions(id: str) -> tuple[str, ...]:
    """Returns what a user must allow before a game named in a file is made, see
    `jaxrl_envs.shared.user_code.permissions`; empty for registered games and games of a library."""
    return () if id.partition(":")[0] in _LIBRARIES else user_code.permissions(id)


def options_of(id: str) -> dict[str, Option]:
    """Returns the options that ``make(id, ...)`` takes, by name."""
    return _options(_resolve(id)[0])


def game_class(id: str) -> type[Env]:
    """Returns the class behind an id, for what is known without making the game (its class attributes)."""
    return _resolve(id)[0]


def rules_hash(id: str) -> str:
    """Returns the SHA-256 of the sources of a game's rules, observations and bots: of a registered game the files of
    its package but those of `display/`, of one of your own the file of its class. Imports nothing that `id` names: ""
    for a game of your own that is not in use or has no file, and for those of a library."""
    if id in _GAMES:
        place = Path(importlib.import_module(_GAMES[id].package).__file__ or "").parent
    else:
        file = getattr(sys.modules.get(id.partition(":")[0]), "__file__", None)
        if not file or not user_code.is_name(id):
            return ""
        place = Path(file)
    try:
        return _hash(place)
    except OSError:  # they are gone, or in an archive
        return ""


@functools.cache  # what a process has imported stays the same while its files change
def _hash(place: Path) -> str:
    """Returns the hash of a file, or of a package's files but those of `display/`."""
    top, paths = place.parent, [place]
    if place.is_dir():
        top, shown = place, place / "display"
        paths = [each for each in sorted(top.rglob("*.p*")) if each.suffix in SOURCES and shown not in each.parents]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(top).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest() if paths else ""


def section_of(id: str) -> type | None:
    """Returns the dataclass of the section that a registered game adds to configurations; None if it adds none.

    The section has the name of the game. Its fields are declared with `jaxrl_envs.shared.options.option`, like all keys
    of a configuration, and passed to the game's `deploy`; they say where and how it runs and change nothing in it.
    """
    settings = _GAMES[id].settings if id in _GAMES else ""
    module, _, name = settings.partition(":")
    return getattr(importlib.import_module(module), name) if settings else None


def bot_names(id: str) -> tuple[str, ...]:
    """Returns the bots of a registered game, without importing jax; empty where only `Env.bots` knows."""
    return getattr(importlib.import_module(_GAMES[id].package), "BOTS", ()) if id in _GAMES else ()


def game_module(id: str, name: str) -> types.ModuleType:
    """Returns the module `name` beside a game's rules, e.g. ``game_module("skull_king", "golden")``.

    Raises:
      UserError: there is no such game, or it has no such module.
    """
    module = find_module(id, name)
    if module is None:
        raise UserError(f"game {id!r} has no {name!r} module")
    return module


def find_module(id: str, name: str) -> types.ModuleType | None:
    """Returns the module `name` beside a game's rules or in its `display/`, or None. Raises UserError: no such game."""
    package = _GAMES[id].package if id in _GAMES else _resolve(id)[0].__module__.rpartition(".")[0]
    found = _place(package, name)
    return importlib.import_module(found) if found else None


def games_with(name: str) -> list[str]:
    """Returns the registered games with the module `name` beside their rules or in `display/`; imports none."""
    return [id for id in registered() if _GAMES[id].package and _place(_GAMES[id].package, name)]


def _place(package: str, name: str) -> str:
    """Returns the full name of a module of a game's package, or "" if it does not exist."""
    places = [".".join(filter(None, [package, *folder, name])) for folder in ([], ["display"])]
    return next(filter(_exists, places), "")


def _exists(module: str) -> bool:
    """Returns whether the module exists; its parent packages are imported."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a parent package
        return False
    return spec is not None and spec.origin is not None  # a folder without modules has no origin


# ---- finding the class ----------------------------------------------------------------------------------------------


def _resolve(id: str) -> tuple[type[Env], tuple[str, ...]]:
    """Returns the class behind an id and the positional arguments that the id itself carries."""
    if id in _GAMES:
        return _load(_GAMES[id].target), ()
    prefix, _, name = id.partition(":")
    if prefix in _LIBRARIES and name:
        return _load(_LIBRARIES[prefix]), (name,)
    if user_code.is_name(id):
        return _load(id), ()
    known = [*_GAMES, *(f"{library}:NAME" for library in _LIBRARIES)]
    raise UserError(f"unknown game {id!r}: {nearest(id, known)} (your own game: 'package.module:Class')")


def _load(target: str) -> type[Env]:
    from jaxrl_envs.contract.env import Env

    return user_code.find_class(target, Env, "game")


# ---- options --------------------------------------------------------------------------------------------------------


def _options(factory: type[Env]) -> dict[str, Option]:
    hints = typing.get_type_hints(factory.__init__)
    docs = _argument_docs(factory.__init__.__doc__ or "") | _argument_docs(factory.__doc__ or "")
    parameters = inspect.signature(factory).parameters.values()
    return {
        p.name: Option(hints.get(p.name, Any), p.default, docs.get(p.name, ""))
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _argument_docs(docstring: str) -> dict[str, str]:
    """Returns the "Args:" section of a Google-style docstring as {name: text}."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    if section is None:
        return {}
    body = inspect.cleandoc(section.group(1))
    entries = re.findall(r"^(\w+): *((?:.*\n?)(?:^[ \t]+.*\n?)*)", body, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _checked(id: str, known: dict[str, Option], options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in known:
            raise UserError(f"{id!r} has no option {name!r}: {nearest(name, known)}")
    for name, option in known.items():
        if option.default is inspect.Parameter.empty and name not in options:
            raise UserError(f"{id!r} needs the option {name!r} ({option.doc or words_of(option.type)})")
    return {name: convert(value, known[name].type, place=Place(id, name)) for name, value in options.items()}
