"""Configurations: YAML in, a frozen and fully checked tree out.

    config = load("skull_king_cpu", ["train.num_envs=512", "run.seed=3"])
    config.train.num_envs, config.batch_size

Everything is checked before anything compiles. Mistakes raise `envs.errors.UserError` with the dotted key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from envs import registry
from envs.errors import UserError
from jaxrl.config import files
from jaxrl.config.checks import check_devices, check_game, check_numbers, device_count
from jaxrl.config.parse import build, to_tree
from jaxrl.config.schema import (
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
    config_of,
)

__all__ = [
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
    "check_devices",
    "device_count",
    "from_dict",
    "load",
    "save",
    "to_dict",
    "validate",
]


def load(path: str | os.PathLike | None, overrides: Sequence[str] = (), *, check_env: bool = True) -> Config:
    """Reads, overrides and checks a configuration.

    Args:
      path: a YAML file or the name of a shipped configuration; None: the defaults.
      overrides: ``"a.b=value"`` strings, applied in order.
      check_env: False skips everything that needs the game, and with it the import of jax.

    Raises:
      UserError: the file or one of its values is wrong.
    """
    found = files.find(path) if path is not None else None
    tree = files.read(found) if found is not None else {}
    label = f"configuration {found}" if found is not None else "configuration"
    return from_dict(files.apply_overrides(tree, overrides), label=label, check_env=check_env)


def from_dict(tree: dict[str, Any], *, label: str = "configuration", check_env: bool = True) -> Config:
    """A checked configuration from a plain tree; missing keys take their defaults."""
    env = tree.get("env")
    game = env.get("id", EnvConfig.id) if isinstance(env, dict) else EnvConfig.id
    for key in tree:
        if key != game and registry.section_of(key) is not None:
            raise UserError(f"the section {key!r} in the {label} is for the game {key}, but env.id is {game}.")
    config = build(config_of(str(game)), tree, label=label)  # an id that is none is found when it is built
    validate(config, check_env=check_env)
    return config


def validate(config: Config, *, check_env: bool = True) -> None:
    """Checks a configuration, e.g. one built in code or by `dataclasses.replace`.

    Raises:
      UserError: naming the first key that is wrong.
    """
    build(type(config)(), to_tree(config))
    check_numbers(config)
    if check_env:
        check_game(config)


def to_dict(config: Config) -> dict[str, Any]:
    """The complete plain tree; `from_dict(to_dict(config)) == config`."""
    return to_tree(config)


def save(config: Config, path: str | os.PathLike) -> None:
    """Writes the resolved configuration as YAML that `load` reads back."""
    files.write(to_tree(config), path)
