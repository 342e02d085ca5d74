"""Configurations: YAML in, a frozen and fully checked tree out.

    config = load("skull_king_cpu", ["train.num_envs=512", "run.seed=3"])
    config.train.num_envs, config.batch_size

Mistakes raise `jaxrl_envs.shared.errors.UserError` with the dotted key. Reading a configuration starts no jax and makes
no game: `jaxrl.games.make_games` compares it with its game.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from jaxrl.config import curriculum, foreign_words, presets, trust
from jaxrl.config.curriculum import Stage as Stage
from jaxrl.config.schema import Config as Config
from jaxrl.config.schema import EnvConfig as EnvConfig
from jaxrl.config.schema import config_for as config_for
from jaxrl.runs.config import WEIGHTS
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files, user_code
from jaxrl_envs.shared.errors import UserError, printable
from jaxrl_envs.shared.options import UnknownKey, build, to_tree
from jaxrl_envs.shared.section import Schedule as Schedule

# Keys of older files that are gone, with the only value that they may have: what is done now.
GONE: dict[str, dict[str, Any]] = {
    "dqn": {"save_replay": True},
    "exploit": {"memory": ""},
    "league": {"cross_play": False},
    "run": {"log_format": "text"},
}


def load(path: str | os.PathLike[str] | None, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> Config:
    """Reads, overrides and checks a configuration.

    Args:
      path: a YAML file or the name of a shipped configuration; None: the defaults.
      overrides: ``"a.b=value"`` strings, applied in order.
      allow: modules and paths that the file may name, see `jaxrl.config.trust`.

    Raises:
      UserError: the file or one of its values is wrong, or it names code that is neither allowed nor in the overrides.
    """
    if path is None:
        return from_dict(presets.apply_overrides({}, overrides), overrides=overrides)
    found = presets.find(path)
    tree = presets.read(found, overrides)
    if "train.updates_per_call" not in {text.partition("=")[0].strip() for text in overrides}:
        tree = _fitted(tree)
    config = from_dict(tree, label=f"configuration {found}", overrides=overrides)
    trust.check(config, str(found), overrides, allow)
    tell_shadowed(config, overrides)
    return config


def _fitted(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns `tree` with fewer updates per call where the run is shorter than one call of its file; says so once."""
    keys = tree.get("train")
    if not isinstance(keys, dict) or "updates_per_call" not in keys:
        return tree
    with contextlib.suppress(UserError):  # said when the configuration is made
        config = _sized(tree, "configuration")
        given, updates = config.train.updates_per_call, -(-config.train.total_steps // config.batch_size)
        if given > updates:
            few = max(each for each in range(1, updates + 1) if not given % each)  # all that it divided, this does too
            steps = f"train.total_steps ({config.train.total_steps}) make {updates} update(s)"
            _tell(f"{steps}, so train.updates_per_call is {few} instead of {given}.")
            return tree | {"train": keys | {"updates_per_call": few}}
    return tree


def for_training(path: str | None, overrides: Sequence[str], allow: Collection[str], name: str | None) -> Config:
    """Reads the configuration of a new training, as `load`, with the name of its run: `name`, run.name, or
    `presets.default_name`. Without a `path`, the first of the overrides may be one: `jaxrl train skull_king_cpu`.
    Raises UserError if nothing says what to train, or a value is wrong."""
    if not path and overrides and "=" not in overrides[0]:
        path, *overrides = overrides
    if not path and not any(text.startswith("env.id=") for text in overrides):
        known = ", ".join(presets.shipped())
        raise UserError(f"say what to train: --config with a YAML file or one of {known}, or a game as env.id=GAME.")
    config = load(path, overrides, allow)
    for each in trust.named(config):
        if user_code.is_name(each.text):
            user_code.check_module(each.text, f"{each.key} {each.text!r}")
    return named(config, name or config.run.name or presets.default_name(path, config.env.id, overrides))


def tell_shadowed(config: Config, overrides: Sequence[str]) -> None:
    """Says on stderr, once, which overrides stages of the curriculum put aside."""
    for sentence in curriculum.shadowed(config, overrides):
        _tell(sentence)


@functools.cache
def _tell(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)


def from_dict(tree: dict[str, Any], *, label: str = "configuration", overrides: Sequence[str] = ()) -> Config:
    """Makes a checked configuration from a plain tree; missing keys take their defaults, which may follow the size of
    the run (`Section.sized`). Names of code in it count as the caller's own: for a tree from a file use
    `jaxrl.config.trust.check`.

    Args:
      label: name of the tree in messages, which an unknown key of `overrides`, already in the tree, goes without.

    Raises:
      UserError: naming the first key that is wrong.
    """
    config = _sized(tree, label, overrides)
    config.check()
    for stage in stages(config):
        contenders(stage.config)
    return config


def _sized(tree: dict[str, Any], label: str, overrides: Sequence[str] = ()) -> Config:
    """Returns the configuration of `from_dict` before its sections are checked against each other."""
    env = tree.get("env")
    game = str(env.get("id", EnvConfig.id) if isinstance(env, dict) else EnvConfig.id)
    for key in tree:
        if key != game and registry.section_of(key) is not None:
            raise UserError(f"the section {key!r} in the {label} is for the game {key}, but env.id is {game}.")
    config = _built(config_for(game)(), tree, label, overrides)  # an unknown game is reported when it is made
    return config.sized({f"{name}.{key}" for name, keys in tree.items() if isinstance(keys, dict) for key in keys})


def _built(default: Config, tree: dict[str, Any], label: str, overrides: Sequence[str] = ()) -> Config:
    """Returns `options.build` without the keys of `GONE`; an unknown key of another trainer is answered with ours."""
    tree = {name: _without_gone(name, keys) if isinstance(keys, dict) else keys for name, keys in tree.items()}
    try:
        found: Config = build(default, tree)
        return found
    except UnknownKey as error:
        wrong, typed = f"{error.path}.", [f"{text.partition('=')[0].strip()}." for text in overrides]
        whose = "" if any(key.startswith(wrong) or wrong.startswith(key) for key in typed) else f"{label}: "
        said = foreign_words.answer(error.path) or error
        raise UserError(f"{whose}{said} (`jaxrl config` lists every key)") from None


def _without_gone(section: str, keys: dict[str, Any]) -> dict[str, Any]:
    gone = GONE.get(section, {})
    return {key: value for key, value in keys.items() if key not in gone or value != gone[key]}


def changed(config: Config, changes: dict[str, Any], label: str = "configuration") -> Config:
    """Returns the checked configuration with other values of some keys; nothing else follows from them.

    Args:
      config: configuration to change.
      changes: a tree of keys; mappings such as `env.options` are merged.
      label: label as for `from_dict`.

    Raises:
      UserError: naming the first key that is wrong.
    """
    given = {f"{name}.{key}" for name, section in config.sections() for key in vars(section)}
    ppo = changes.get("ppo")
    instead = {f"ppo.{presets.OTHER[key]}" for key in presets.OTHER if isinstance(ppo, dict) and key in ppo}
    found = _built(config, {key: _merged(getattr(config, key, None), value) for key, value in changes.items()}, label)
    found = found.sized(given - instead)
    found.check()
    return found


def _merged(value: Any, change: Any) -> Any:
    """Returns `change`, with what the mappings within `value` hold besides."""
    if isinstance(value, dict) and isinstance(change, dict):
        return presets.merged(value, change)
    if dataclasses.is_dataclass(value) and isinstance(change, dict):
        return {key: _merged(getattr(value, key, None), each) for key, each in change.items()}
    return change


def stages(config: Config) -> tuple[Stage, ...]:
    """Returns the stages of a training, see `jaxrl.config.curriculum`: one without end where there is no curriculum."""
    return curriculum.resolve(config, changed)


def contenders(config: Config) -> list[Config]:
    """Returns the settings of the trainings side by side in a program, see `run.vary`: each as of a run of its own.
    Raises UserError if a value is wrong, or one of them needs another program."""
    found: list[Config] = []
    if not config.run.vary:
        return [config]
    for number in range(config.run.contenders):
        changes: dict[str, Any] = {}
        for key, values in config.run.vary.items():
            changes = presets.changed(changes, key.split("."), values[number])
        each = changed(dataclasses.replace(config, run=dataclasses.replace(config.run, vary={})), changes)
        found.append(each)
        weights = [key.split(".")[2] for key in config.run.vary if key.startswith(WEIGHTS)]
        if program_of(each, weights) != program_of(found[0], weights):
            raise UserError(
                f"run.vary: {', '.join(config.run.vary)} make different programs: weights of rewards and numbers of "
                "the algorithm that are not 0 can differ side by side; `jaxrl bench --vary` trains others in turns."
            )
    return found


def program_of(config: Config, weights: Collection[str] = ()) -> Config:
    """Returns what is compiled of a configuration, to be compared: without the run's name, and of the numbers that are
    traced only whether they are on; of these options of the game (`Env.weight_options`) only the names."""

    def untraced(section: Any) -> Any:
        parts: dict[str, Any] = {}
        for name, value in vars(section).items():
            if isinstance(value, Schedule):
                parts[name] = value.on
            elif isinstance(value, float):
                parts[name] = value > 0.0
            elif dataclasses.is_dataclass(value):
                parts[name] = untraced(value)
        return dataclasses.replace(section, **parts)

    own: dict[str, Any] = {name: untraced(section) for name, section in config.sections() if section.traced}
    options = {key: sorted(value) if key in weights else value for key, value in config.env.options.items()}
    env, run = dataclasses.replace(config.env, options=options), dataclasses.replace(config.run, name="")
    return dataclasses.replace(config, run=run, env=env, **own)


def named(config: Config, name: str) -> Config:
    """Returns `config` as the run of that name. Raises UserError if the name is not allowed, or the run would continue
    from itself."""
    config = build(config, {"run": {"name": name}})
    config.train.check_origin(config)
    return config


def trained(tree: dict[str, Any], source: str, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> Config:
    """Returns the configuration of a trained policy for its use, without callbacks, which only a training runs.

    Args:
      tree: tree with which it was trained, from a file.
      source: file of the tree, for messages.
      overrides: ``"a.b=value"`` strings, for all but the game, the network, the algorithm and the number of seeds.
      allow: modules and paths that the file may name, as for `load`.

    Raises:
      UserError: a value is wrong, what is fixed would change, or the file names code that is not allowed.
    """
    tree = {key: value for key, value in tree.items() if key != "callbacks"}
    label = f"configuration {source}"
    before = from_dict(tree, label=label)
    changed = presets.apply_overrides(tree, overrides)
    found = from_dict(changed, label=label, overrides=overrides) if overrides else before
    trust.check(found, source, overrides, allow)
    for name, section in before.sections():
        after = getattr(found, name)
        for key in section.fixed:
            path, *values = (
                (f"{name}.{key}", getattr(section, key), getattr(after, key)) if key else (name, section, after)
            )
            _check_same(path, *values)
    _check_same("train.algorithm", before.train.algorithm, found.train.algorithm)
    return found


def _check_same(key: str, before: Any, after: Any) -> None:
    if before != after:
        more = " To play other options of the game, e.g. another roster, set evaluate.options." if key == "env" else ""
        raise UserError(f"{key} cannot be changed here: the policy was trained with it.{more}")


def to_dict(config: Config) -> dict[str, Any]:
    """Returns the complete plain tree; `from_dict(to_dict(config)) == config`."""
    return to_tree(config)


def save(config: Config, path: str | os.PathLike[str]) -> None:
    """Writes the resolved configuration as YAML that `load` reads back."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, files.dump(to_tree(config), width=120).encode())  # whole or not at all
