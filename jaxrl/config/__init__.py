"""Configurations: YAML in, a frozen and fully checked tree out.

    config = load("skull_king_cpu", ["train.num_envs=512", "run.seed=3"])
    config.train.num_envs, config.batch_size

Mistakes raise `jaxrl.envs.errors.UserError` with the dotted key. Reading one starts no jax and makes no game: whoever
makes the game has it compared with the configuration (`jaxrl.runs.games.make_games`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jaxrl.config import presets
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
    config_of,
)
from jaxrl.envs import registry
from jaxrl.envs.errors import UserError
from jaxrl.envs.values import UnknownKey, build, to_tree

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


def load(path: str | os.PathLike | None, overrides: Sequence[str] = ()) -> Config:
    """Reads, overrides and checks a configuration.

    Args:
      path: a YAML file or the name of a shipped configuration; None: the defaults.
      overrides: ``"a.b=value"`` strings, applied in order.

    Raises:
      UserError: the file or one of its values is wrong.
    """
    found = presets.find(path) if path is not None else None
    tree = presets.read(found) if found is not None else {}
    label = f"configuration {found}" if found is not None else "configuration"
    return from_dict(presets.apply_overrides(tree, overrides), label=label)


def from_dict(tree: dict[str, Any], *, label: str = "configuration") -> Config:
    """A checked configuration from a plain tree; missing keys take their defaults.

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
    check_numbers(config)
    return config


def named(config: Config, name: str) -> Config:
    """`config` as the run of that name.

    Raises:
      UserError: no run can be called so, or it would continue itself.
    """
    config = build(config, {"run": {"name": name}})
    check_name(config)
    return config


def to_dict(config: Config) -> dict[str, Any]:
    """The complete plain tree; `from_dict(to_dict(config)) == config`."""
    return to_tree(config)


def save(config: Config, path: str | os.PathLike) -> None:
    """Writes the resolved configuration as YAML that `load` reads back."""
    presets.write(to_tree(config), path)
