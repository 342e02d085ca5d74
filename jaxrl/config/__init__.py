"""Configurations: YAML in, a frozen and fully checked tree out.

    config = load("skull_king_cpu", ["train.num_envs=512", "run.seed=3"])
    config.train.num_envs, config.batch_size

Mistakes raise `jaxrl.envs.errors.UserError` with the dotted key. Reading one starts no jax and makes no game: whoever
makes the game has it compared with the configuration (`jaxrl.runs.games.make_games`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Collection, Sequence
from typing import Any

from jaxrl.config import presets, trust
from jaxrl.config.checks import check_game, check_name, check_numbers, device_count
from jaxrl.config.ppo_checks import shuffle_groups
from jaxrl.config.schema import (
    EVALUATION_SEED,
    CandidatesConfig,
    Config,
    DQNConfig,
    EnvConfig,
    EvaluateConfig,
    ExploitConfig,
    LeagueConfig,
    MetricsConfig,
    NetworkConfig,
    PPOConfig,
    RunConfig,
    Schedule,
    SeatMix,
    SebulbaConfig,
    TrainConfig,
    TransformerConfig,
)
from jaxrl.config.sizes import with_sizes
from jaxrl.envs import registry
from jaxrl.envs.errors import UserError
from jaxrl.envs.values import UnknownKey, build, option, to_tree

__all__ = [
    "EVALUATION_SEED",
    "CandidatesConfig",
    "Config",
    "DQNConfig",
    "EnvConfig",
    "EvaluateConfig",
    "ExploitConfig",
    "LeagueConfig",
    "MetricsConfig",
    "NetworkConfig",
    "PPOConfig",
    "RunConfig",
    "Schedule",
    "SeatMix",
    "SebulbaConfig",
    "TrainConfig",
    "TransformerConfig",
    "changed",
    "check_game",
    "config_of",
    "device_count",
    "from_dict",
    "load",
    "named",
    "save",
    "shuffle_groups",
    "to_dict",
]


def load(path: str | os.PathLike | None, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> Config:
    """Reads, overrides and checks a configuration.

    Args:
      path: a YAML file or the name of a shipped configuration; None: the defaults.
      overrides: ``"a.b=value"`` strings, applied in order.
      allow: modules and paths that the file may name, see `jaxrl.config.trust`.

    Raises:
      UserError: the file or one of its values is wrong, or it names code that is neither allowed nor in the overrides.
    """
    if path is None:
        return from_dict(presets.apply_overrides({}, overrides))
    found = presets.find(path)
    tree = presets.changed(presets.read(found), overrides, found.stem)
    config = from_dict(tree, label=f"configuration {found}")
    trust.check(config, str(found), overrides, allow)
    return config


def from_dict(tree: dict[str, Any], *, label: str = "configuration") -> Config:
    """A checked configuration from a plain tree; missing keys take their defaults, which may follow the size of the run
    (`jaxrl.config.sizes`). What it names is taken for the caller's word: `jaxrl.config.trust.check` is for those who
    have read the tree in a file.

    Raises:
      UserError: naming the first key that is wrong.
    """
    env = tree.get("env")
    game = str(env.get("id", EnvConfig.id) if isinstance(env, dict) else EnvConfig.id)
    for key in tree:
        if key != game and registry.section_of(key) is not None:
            raise UserError(f"the section {key!r} in the {label} is for the game {key}, but env.id is {game}.")
    try:
        config = build(config_of(game), tree)  # an id that is none is found when the game is made
    except UnknownKey as error:
        raise UserError(f"{label}: {error} (`jaxrl config` lists every key)") from None
    config = with_sizes(config, tree)
    check_numbers(config)
    return config


def config_of(game: str) -> Config:
    """The defaults of a configuration for `game`: `Config`, and the section of the game's own if it has one."""
    section = registry.section_of(game)
    return Config() if section is None else _with_section(game, section)()


@functools.cache
def _with_section(name: str, section: type) -> type[Config]:
    field = (name, section, option(section(), (section.__doc__ or "").partition("\n")[0]))
    return dataclasses.make_dataclass(f"ConfigOf_{name}", [field], bases=(Config,), frozen=True)


def named(config: Config, name: str) -> Config:
    """`config` as the run of that name.

    Raises:
      UserError: no run can be called so, or it would continue itself.
    """
    config = build(config, {"run": {"name": name}})
    check_name(config)
    return config


def changed(config: Config, overrides: Sequence[str]) -> Config:
    """The configuration of a trained policy with ``"a.b=value"`` applied.

    Raises:
      UserError: a value is wrong, or what is fixed would change: the game and the network.
    """
    found = from_dict(presets.apply_overrides(to_dict(config), overrides))
    for key, before, after in (
        ("env", config.env, found.env),
        ("network", config.network, found.network),
        ("train.algorithm", config.train.algorithm, found.train.algorithm),
    ):
        if before != after:
            raise UserError(f"{key} cannot be changed here: the policy was trained with it.")
    return found


def to_dict(config: Config) -> dict[str, Any]:
    """The complete plain tree; `from_dict(to_dict(config)) == config`."""
    return to_tree(config)


def save(config: Config, path: str | os.PathLike) -> None:
    """Writes the resolved configuration as YAML that `load` reads back."""
    presets.write(to_tree(config), path)
