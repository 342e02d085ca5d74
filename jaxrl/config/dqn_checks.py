"""Checks of the section `dqn`, and of what does not go with it."""

from __future__ import annotations

from typing import Any

from jaxrl.config.schema import Config
from jaxrl_envs.shared.errors import UserError


def check_dqn(config: Config) -> None:
    """Everything that can be said without the game.

    Raises:
      UserError: sections or values that DQN cannot use, with the keys to change.
    """
    dqn = config.dqn
    if dqn.learning_starts > dqn.capacity:
        raise UserError(
            f"dqn.learning_starts ({dqn.learning_starts}) must be at most dqn.capacity ({dqn.capacity}): lower it."
        )
    if config.batch_size * 2 > dqn.capacity:
        raise UserError(
            f"dqn.capacity ({dqn.capacity}) must hold two rounds of playing, 2 * train.num_envs * train.num_steps = "
            f"{2 * config.batch_size}: raise it."
        )
    ends = [dqn.epsilon.start] + ([dqn.epsilon.end] if dqn.epsilon.kind != "constant" else [])
    if max(ends) > 1.0:
        raise UserError(f"dqn.epsilon is a share of actions, at most 1, got {' to '.join(map(str, ends))}.")
    _check_others(config)


def _check_others(config: Config) -> None:
    """Raises UserError for what other sections ask and DQN has not."""
    wrong = {
        "league.snapshots": (config.league.snapshots, "DQN meets bots and itself only: use 0"),
        "exploit.every": (config.exploit.every, "best responses are trained by PPO: use 0"),
        "network.kind": (
            config.network.kind if config.network.kind == "recurrent" else "",
            "nothing is remembered between decisions: use another",
        ),
        "network.transformer.dropout": (
            config.network.transformer.dropout if config.network.kind == "transformer" else 0,
            "a Q network is trained without: use 0",
        ),
        "ppo.critic.privileged": (config.ppo.critic.privileged, "there are no advantages: use false"),
        "ppo.belief.learned": (config.ppo.belief.learned, "nobody learns it: use false"),
        "train.from_run": (config.train.from_run, "only runs of PPO can be continued as new ones: leave it empty"),
    }
    for key, (value, advice) in wrong.items():
        if value:
            raise UserError(f"{key} is {value}, but with train.algorithm dqn {advice}.")
    if config.run.devices > 1:
        raise UserError(f"run.devices is {config.run.devices}, but DQN learns on one device: use 1 or 0.")


def check_dqn_game(config: Config, env: Any) -> None:
    """What only the game can tell.

    Raises:
      UserError: a memory that is too small for it.
    """
    dqn = config.dqn
    asked = env.num_players if env.simultaneous else 1
    records = config.batch_size * asked * (2 if env.may_truncate else 1)
    if records > dqn.capacity:
        raise UserError(
            f"dqn.capacity ({dqn.capacity}) must hold one round of {config.env.id}, {records} records: raise it."
        )
